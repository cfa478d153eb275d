// Running commands and reading options: what every script here shares.
import { spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** The repository's folder, with symbolic links resolved (a chroot sees it at this path). */
export const root = realpathSync(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

/** A failure that is told in one sentence, without a stack trace. */
export class Refusal extends Error {}

/** Whether the module at this address is the script that was started, rather than imported by another. */
export const isScript = (url) => realpathSync(process.argv[1]) === fileURLToPath(url);

/** Runs a script's main function; a Refusal becomes one line and exit code 1. */
export function main(run) {
  run().then(
    (code) => { process.exitCode = code ?? process.exitCode ?? 0; },
    (error) => {
      console.error(error instanceof Refusal ? error.message : error);
      process.exitCode = 1;
    },
  );
}

/** Parses options as node:util's parseArgs takes them; --help prints the text and ends the script. */
export function readOptions(script, help, options = {}, allowPositionals = false) {
  let parsed;
  try {
    parsed = parseArgs({ options: { help: { type: 'boolean', short: 'h' }, ...options }, allowPositionals });
  } catch (error) {
    throw new Refusal(`${script}: ${error.message.split('. ')[0]}. See ${script} --help.`);
  }
  if (parsed.values.help) {
    console.log(help.trim());
    process.exit(0);
  }
  return parsed;
}

/** The first executable of this name on the PATH, or undefined. */
export function which(name) {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder || '.', name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {}
  }
  return undefined;
}

/** A command's standard output, trimmed, or undefined when it cannot be run or fails. */
export function output(argv, options = {}) {
  const result = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], ...options });
  return result.status === 0 ? result.stdout.trim() : undefined;
}

/**
 * Runs a command with its output shown (or kept from view with quiet) and resolves to { code, text }, text being all it
 * printed. A command that cannot be started rejects.
 */
export function run(argv, { cwd = root, env = process.env, quiet = false } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(argv[0], argv.slice(1), { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    const keep = (stream) => (chunk) => {
      text += chunk;
      if (!quiet) stream.write(chunk);
    };
    child.stdout.setEncoding('utf8').on('data', keep(process.stdout));
    child.stderr.setEncoding('utf8').on('data', keep(process.stderr));
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code: code ?? 1, signal, text }));
  });
}

/** Like run, but a failure ends the script: with what the command printed, where that was kept from view. */
export async function mustRun(argv, what, options = {}) {
  const result = await run(argv, options);
  if (result.code !== 0) {
    if (options.quiet) process.stderr.write(result.text);
    throw new Refusal(`${what} failed (exit code ${result.code}): ${argv.join(' ')}`);
  }
  return result.text;
}
