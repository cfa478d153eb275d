// Which Emscripten builds the WebAssembly module, and how to run it.
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { mustRun, output, Refusal, root, which } from './command.mjs';
import { asRoot, debianMirror, ensurePackages, isDebianLike, packageCandidate } from './packages.mjs';

const oldest = [3, 1, 69];
const script = join(root, 'build-scripts', 'debian-tree.sh');
const treePackages = 'emscripten,cmake,ninja-build,ccache,libeigen3-dev,doctest-dev,nlohmann-json3-dev';

const readVersion = (text) => text?.match(/(\d+)\.(\d+)\.(\d+)/)?.slice(1, 4).map(Number);

const newEnough = (version) => {
  const differs = version?.findIndex((part, index) => part !== oldest[index]);
  return version !== undefined && (differs === -1 || version[differs] > oldest[differs]);
};

/** Where trees and stamps are kept between runs. */
export const cacheFolder = () =>
  process.env.LOCANT_CACHE || join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'locant');

/**
 * Finds an Emscripten that is new enough, making one where it must. Resolves to
 *   { version, why, emcc, command(argv) }
 * where command() gives the words that run argv with emcc, emcmake, cmake and ninja on its PATH.
 * LOCANT_SUITE=trixie (or testing) goes straight to a Debian tree of that suite.
 */
export async function findToolchain() {
  const reasons = [];
  if (!process.env.LOCANT_SUITE) {
    const found = fromPath(reasons) ?? (await fromPackage(reasons));
    if (found) return found;
  }
  return fromTree(process.env.LOCANT_SUITE || 'trixie', reasons);
}

function fromPath(reasons) {
  const fromSdk = process.env.EMSDK && join(process.env.EMSDK, 'upstream', 'emscripten', 'emcc');
  for (const [emcc, where] of [[fromSdk, '$EMSDK'], [which('emcc'), 'the PATH']]) {
    if (!emcc || !existsSync(emcc)) continue;
    const version = readVersion(output([emcc, '--version']));
    if (newEnough(version)) return onHost(emcc, version, `emcc in ${where} is ${oldest.join('.')} or newer`);
    reasons.push(`emcc in ${where} is ${version?.join('.') ?? 'not working'}`);
  }
  return undefined;
}

async function fromPackage(reasons) {
  if (!isDebianLike()) return undefined;
  const candidate = packageCandidate('emscripten');
  if (!newEnough(readVersion(candidate))) {
    reasons.push(`this system's package is ${candidate ?? 'not known to apt'}`);
    return undefined;
  }
  await ensurePackages('emscripten');
  return onHost(which('emcc'), readVersion(candidate), "this system's package is new enough");
}

function onHost(emcc, version, why) {
  const folder = dirname(emcc);
  const path = [folder, join(folder, '..', 'bin'), process.env.PATH].join(delimiter); // emsdk has Binaryen in ../bin
  return { version: version.join('.'), why, emcc, command: (argv) => ['env', `PATH=${path}`, ...argv] };
}

async function fromTree(suite, reasons) {
  const sudo = asRoot();
  if (!isDebianLike() || !sudo) {
    const because = reasons.length > 0 ? ` (${reasons.join('; ')})` : '';
    throw new Refusal(`Please install Emscripten ${oldest.join('.')} or newer, with emcc on the PATH or EMSDK set${because}.`);
  }
  const tree = join(cacheFolder(), suite === 'trixie' ? 'debian-13' : `debian-${suite}`);
  if (!existsSync(tree)) {
    await ensurePackages('debootstrap', 'debian-archive-keyring');
    console.log(`Making a Debian tree with Emscripten in ${tree} (about a minute, 3 GB)`);
    await mustRun([...sudo, script, 'make', tree, suite, treePackages, debianMirror() ?? ''], 'Making the Debian tree');
  }
  const emscripten = join(tree, 'usr/share/emscripten');
  const version = readVersion(readFileSync(join(emscripten, 'emscripten-version.txt'), 'utf8'));
  const because = reasons.length > 0 ? reasons.join('; ') : `LOCANT_SUITE is ${suite}`;
  return {
    version: version.join('.'),
    why: `${because}; so emcc is run by chroot in a Debian tree (${suite})`,
    emcc: join(tree, 'usr/bin/emcc'),
    command: (argv) => [...sudo, script, 'run', tree, root, ...argv],
  };
}
