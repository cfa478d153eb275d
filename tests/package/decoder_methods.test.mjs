// Every positional method that the package binds, in a decoder: cached equals full, padding and packing, audit tests, faults.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoders, faults, shape } from '../../build-scripts/lib/small-decoders.mjs';
import { locant } from './helpers.mjs';

const { positions } = locant;
const tokens = Array.from({ length: 20 }, (_, i) => (i * 37 + 11) % 61);
// Sums in another order, through three layers; logits are below 5.
const tolerance = 1e-4;
const list = decoders(locant);
const near = (a, b, what) => assert.ok(locant.difference(a, b).largest < tolerance, `${what}: ${JSON.stringify(locant.difference(a, b))}`);
const tests = { 'offset-restarted': 'cached-vs-full', 'off-by-one': 'cached-vs-full', 'upper-layers-ahead': 'cached-vs-full',
  'rows-taken-for-positions': 'after-eviction', 'padding-counted': 'padding', 'reset-without-document-mask': 'packed-documents' };

for (const [name, inputPosition, layers] of list) {
  test(`decoder, ${name}: cached logits are the full forward's in any split, padded rows and packed documents are as if alone`, () => {
    const decoder = locant.decoder({ ...shape, inputPosition, layers }, { seed: 2 });
    const alone = (ids) => decoder.forward({ tokens: ids, positions: positions.range(ids.length), wanted: 'valid' });
    const full = alone(tokens);
    for (const split of [[20], [7, 13], [1, 1, 11, 7], new Array(20).fill(1)]) {
      const cache = decoder.cache();
      let first = 0;
      for (const count of split) {
        const got = decoder.forward({ tokens: tokens.slice(first, first + count), positions: cache.next([count]), cache, wanted: 'valid' });
        near(got, full.slice(first * 61, (first + count) * 61), split.join());
        first += count;
      }
      cache.dispose();
    }
    const [a, b] = [tokens.slice(0, 5), tokens.slice(5, 14)];
    const both = Float32Array.from([...alone(a), ...alone(b)]);
    for (const side of ['left', 'right']) {
      const here = positions.padded([5, 9], { columns: 11, side });
      const pad = (ids) => (side === 'left' ? [...new Array(11 - ids.length).fill(-1), ...ids] : [...ids, ...new Array(11 - ids.length).fill(-1)]);
      near(decoder.forward({ tokens: [...pad(a), ...pad(b)], positions: here, wanted: 'valid' }), both, side);
    }
    near(decoder.forward({ tokens: [...a, ...b], positions: positions.packed([5, 9], { positions: 'restart' }), wanted: 'valid' }), both, 'packed');
    decoder.dispose();
  });

  test(`decoder, ${name}: the audit tests pass, and each classic fault fails its own`, () => {
    const decoder = locant.decoder({ ...shape, inputPosition, layers }, { seed: 2 });
    const report = decoder.auditTests({ length: 16 });
    assert.ok(report.passed, report.text);
    // Layers above the first have nothing to be ahead of where they read no position.
    const upper = layers.slice(1).some(({ rotation, terms, temperature }) => rotation || terms || temperature);
    for (const fault of faults) {
      const made = decoder.auditTests({ length: 16, fault });
      const failing = made.lines.filter(({ verdict }) => verdict === 'fail').map(({ test: one }) => one);
      const blind = name === 'no position' && fault !== 'reset-without-document-mask';
      assert.deepEqual(failing, blind || (fault === 'upper-layers-ahead' && !upper) ? [] : [tests[fault]], `${fault}\n${made.text}`);
    }
    decoder.dispose();
  });
}
