// npm's packages, at the versions of the committed lockfiles.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { mustRun, root } from './command.mjs';

/** Installs what a folder's lockfile names, unless that was done for this very lockfile. */
export async function ensureNodeModules(folder = '.', options = []) {
  const at = join(root, folder);
  const lock = createHash('sha256').update(readFileSync(join(at, 'package-lock.json'))).digest('hex');
  const stamp = join(at, 'node_modules', '.installed-from');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return;
  console.log(`Installing npm packages${folder === '.' ? '' : ` of ${folder}`}`);
  await mustRun(['npm', 'ci', ...options], 'npm ci', { quiet: true, cwd: at });
  writeFileSync(stamp, lock);
}

/**
 * The path of the newest Node, which npm brings as a package (for Linux; elsewhere undefined). It has a folder of its
 * own, since in the repository's node_modules it would come before the user's Node in every npm script.
 */
export async function newestNode() {
  const folder = 'tests/newest-node';
  await ensureNodeModules(folder);
  const node = join(root, folder, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');
  return existsSync(node) ? node : undefined;
}
