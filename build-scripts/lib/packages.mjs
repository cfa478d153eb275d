// Debian's packages: what is missing is installed where this system and this user can, and named where they cannot.
import { existsSync } from 'node:fs';
import { output, mustRun, Refusal, which } from './command.mjs';

/** What the builds and tests use: a program (looked for on the PATH) or a header, and the package that brings it. */
const needs = {
  'g++': { program: 'g++' },
  cmake: { program: 'cmake' },
  'ninja-build': { program: 'ninja' },
  'libeigen3-dev': { file: '/usr/include/eigen3/Eigen/Core' },
  'doctest-dev': { file: '/usr/include/doctest/doctest.h' },
  'nlohmann-json3-dev': { file: '/usr/include/nlohmann/json.hpp' },
  chromium: { program: 'chromium' },
  debootstrap: { program: 'debootstrap', alsoIn: '/usr/sbin/debootstrap' },
  'debian-archive-keyring': { file: '/usr/share/keyrings/debian-archive-keyring.gpg' },
  emscripten: { program: 'emcc' },
};

export const isDebianLike = () => which('apt-get') !== undefined;

/** The words before a command that needs root: none for root, sudo's, or undefined when neither is to be had. */
export function asRoot() {
  if (process.getuid?.() === 0) return [];
  if (!which('sudo')) return undefined;
  if (output(['sudo', '-n', 'true']) !== undefined) return ['sudo', '-n'];
  // Where somebody sits at a terminal, sudo may ask for the password (it reads the terminal, not our input).
  const groups = output(['id', '-nG'])?.split(' ') ?? [];
  return process.stdin.isTTY && ['sudo', 'wheel', 'admin'].some((name) => groups.includes(name)) ? ['sudo'] : undefined;
}

const isThere = ({ program, file, alsoIn }) =>
  (program && which(program) !== undefined) || (file && existsSync(file)) || (alsoIn && existsSync(alsoIn));

/** Installs those of the named packages whose program or header is not there. */
export async function ensurePackages(...names) {
  const missing = names.filter((name) => !isThere(needs[name]));
  if (missing.length === 0) return;
  if (!isDebianLike()) {
    // Elsewhere headers may lie anywhere; CMake looks for them and says so. Programs must be on the PATH.
    const programs = missing.filter((name) => needs[name].program).map((name) => needs[name].program);
    if (programs.length > 0) throw new Refusal(`Please install ${programs.join(', ')} with your system's packages and run this again.`);
    return;
  }
  const root = asRoot();
  if (!root) throw new Refusal(`Please run "apt-get install ${missing.join(' ')}" as root (neither root nor sudo here), then run this again.`);
  console.log(`Installing Debian packages: ${missing.join(' ')}`);
  const apt = [...root, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-y', '-o', 'DPkg::Lock::Timeout=300'];
  await mustRun([...apt, 'update'], 'apt-get update', { quiet: true });
  await mustRun([...apt, 'install', '--no-install-recommends', ...missing], 'apt-get install', { quiet: true });
}

/** The version of a package that apt would install, e.g. "3.1.69+dfsg-3", or undefined. */
export const packageCandidate = (name) =>
  output(['apt-cache', 'policy', name])?.match(/Candidate: (?!\(none\))(\S+)/)?.[1];

/** The mirror that this system takes Debian's packages from; undefined where apt names none. */
export const debianMirror = () =>
  output(['apt-get', 'indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages', 'Origin: Debian', 'Label: Debian'])
    ?.split('\n')[0] || undefined;
