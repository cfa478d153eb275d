// Steps that are left out when nothing they read has changed since they last succeeded.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { root } from './command.mjs';

const skipped = new Set(['node_modules', 'dist', 'build', '.git']);

function* filesUnder(path) {
  if (!existsSync(path)) return;
  if (!statSync(path).isDirectory()) return yield path;
  for (const name of readdirSync(path).sort()) if (!skipped.has(name)) yield* filesUnder(join(path, name));
}

/** A digest of the names and contents of the files at and under these paths (relative to the repository). */
function digest(inputs, extra) {
  const hash = createHash('sha256').update(extra);
  for (const input of inputs) {
    for (const file of filesUnder(join(root, input))) {
      hash.update(`\0${relative(root, file)}\0`).update(readFileSync(file));
    }
  }
  return hash.digest('hex');
}

/**
 * Runs action unless the inputs are as they were when it last succeeded and every output is there. Inputs and outputs
 * are paths relative to the repository; extra is anything else that the result depends on (a version, another stamp).
 * Resolves to the digest, which a later step can take as its extra.
 */
export async function step(name, { inputs, outputs, extra = '' }, action) {
  const stamp = join(root, 'build', 'stamps', name);
  const now = digest(inputs, extra);
  const isFresh = existsSync(stamp) && readFileSync(stamp, 'utf8') === now && outputs.every((path) => existsSync(join(root, path)));
  if (!isFresh) {
    rmSync(stamp, { force: true });
    await action();
    mkdirSync(dirname(stamp), { recursive: true });
    writeFileSync(stamp, now);
  }
  return now;
}
