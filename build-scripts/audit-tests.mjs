// Prints the audit tests of small decoders with random weights: what a decoder must do with positions, measured.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildPackage } from './build.mjs';
import { main, readOptions, Refusal, root } from './lib/command.mjs';

const faults = ['offset-restarted', 'off-by-one', 'upper-layers-ahead', 'rows-taken-for-positions', 'padding-counted',
  'reset-without-document-mask'];

const help = `
Usage: npm run audit-tests [-- OPTIONS]

Makes small decoders with seeded random weights, one for each way that position can enter, and prints for each the
positional methods, and per test the residual, its tolerance and the verdict.
  --fault=NAME    one of the classic faults, made on purpose: its test must then fail
                  ${faults.join(', ')}, or all
  --method=WORD   only decoders whose name holds this word
  --seed=NUMBER   of weights and contents (default 1)
`;

/** Every decoder: its name, door 1, and doors 2 and 3 of its layers. */
function decoders(locant) {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 8, base: 1000 });
  const alibi = locant.alibi({ heads: 4 });
  const layers = (layer) => [layer, layer, layer];
  return [
    ['rotary', null, layers({ rotation: plan })],
    ['ALiBi', null, layers({ terms: [alibi] })],
    ['sinusoidal', { sinusoidal: {} }, layers({})],
    ['learned table', { learnedTable: { rows: 128 } }, layers({})],
    ['all three doors', { sinusoidal: {} }, [{ rotation: plan }, { terms: [alibi] }, {}]],
    ['windows, and a layer without position', null, [{ rotation: plan, mask: { window: { size: 6 } } }, { rotation: plan }, {}]],
  ];
}

main(async () => {
  const { values } = readOptions('audit-tests', help,
    { fault: { type: 'string' }, method: { type: 'string', default: '' }, seed: { type: 'string', default: '1' } });
  if (values.fault && values.fault !== 'all' && !faults.includes(values.fault)) {
    throw new Refusal(`audit-tests: there is no fault "${values.fault}"; there are ${faults.join(', ')}, all.`);
  }
  const seed = Number(values.seed);
  if (!Number.isInteger(seed) || seed < 0) throw new Refusal(`audit-tests: --seed is ${values.seed}; it can be a whole number, 0 or more.`);
  await buildPackage();
  const { load } = await import(pathToFileURL(join(root, 'web/package/dist/index.js')));
  const locant = await load();
  const wanted = values.fault === 'all' ? faults : [values.fault ?? 'none'];
  const shape = { vocabulary: 61, width: 32, heads: 4, kvHeads: 2, headDim: 8, feedForwardWidth: 48 };
  let failed = 0;
  for (const [name, inputPosition, layers] of decoders(locant)) {
    if (!name.includes(values.method)) continue;
    const decoder = locant.decoder({ ...shape, inputPosition, layers }, { seed });
    for (const fault of wanted) {
      const report = decoder.auditTests({ seed, fault });
      console.log(`\n# ${name}\n${report.text}`);
      if (!report.passed) failed += 1;
    }
    decoder.dispose();
  }
  if (values.fault === undefined && failed > 0) return 1;
  return 0;
});
