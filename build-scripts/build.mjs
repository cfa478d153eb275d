// Builds the library, its tests, the WebAssembly module, the npm package and the page.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isScript, main, mustRun, readOptions, Refusal, root } from './lib/command.mjs';
import { ensureNodeModules } from './lib/npm.mjs';
import { ensurePackages } from './lib/packages.mjs';
import { step } from './lib/stamp.mjs';
import { findToolchain } from './lib/toolchain.mjs';

/** Every CMake build: its folder under build/, and what CMake is told. */
const cmakeBuilds = {
  native: { folder: 'native', options: ['-DCMAKE_BUILD_TYPE=Release'] },
  sanitized: { folder: 'sanitized', options: ['-DCMAKE_BUILD_TYPE=RelWithDebInfo', '-DLOCANT_SANITIZE=ON'] },
  scalar: { folder: 'wasm/scalar', options: ['-DCMAKE_BUILD_TYPE=Release', '-DLOCANT_WASM_VARIANT=scalar'], wasm: true },
  simd: { folder: 'wasm/simd', options: ['-DCMAKE_BUILD_TYPE=Release', '-DLOCANT_WASM_VARIANT=simd'], wasm: true },
  relaxed: { folder: 'wasm/relaxed', options: ['-DCMAKE_BUILD_TYPE=Release', '-DLOCANT_WASM_VARIANT=relaxed'], wasm: true },
};

const help = `
Usage: node build-scripts/build.mjs [BUILD...] [--target=NAME]

BUILD is one or more of
  native      the library and its tests, optimized                       build/native
  sanitized   the same under address and undefined-behaviour sanitizers  build/sanitized
  scalar      WebAssembly without SIMD, for parity tests                 build/wasm/scalar
  simd        WebAssembly SIMD128, deterministic                         build/wasm/simd
  relaxed     WebAssembly relaxed SIMD (fused multiply-add)              build/wasm/relaxed
  package     the npm package, with the modules it needs                 web/package/dist
  page        the page, with the package it needs                        web/page/dist
(default: page). A WebAssembly build gives locant.mjs, locant.wasm and the test program locant_tests.cjs for Node.
  --target=NAME   build only this CMake target (locant, locant_tests, locant_wasm)
`;

/** Configures (anew when options or compiler have changed) and builds one of the CMake builds; resolves to its folder. */
export async function cmakeBuild(name, { target, quiet = false } = {}) {
  const { folder, options, wasm } = cmakeBuilds[name];
  const out = join(root, 'build', folder);
  let command = (argv) => argv;
  let version = '';
  if (wasm) ({ command, version } = await findToolchain());
  else await ensurePackages('g++', 'cmake', 'ninja-build', 'libeigen3-dev', 'doctest-dev', 'nlohmann-json3-dev');
  const configure = command([...(wasm ? ['emcmake'] : []), 'cmake', '-G', 'Ninja', '-S', root, '-B', out, ...options]);
  const configuredBy = join(out, 'configured-by');
  const stamp = `${configure.join(' ')} ${version}`;
  if (!existsSync(configuredBy) || readFileSync(configuredBy, 'utf8') !== stamp) {
    // Objects of another compiler can have the same command line, so what lies there is not reused.
    rmSync(out, { recursive: true, force: true });
    await mustRun(configure, `Configuring ${name}`, { quiet });
    writeFileSync(configuredBy, stamp);
  }
  await mustRun(command(['cmake', '--build', out, ...(target ? ['--target', target] : [])]), `Building ${name}`, { quiet });
  return out;
}

/** Builds the npm package and the modules in it, where anything they are made of has changed. */
export async function buildPackage(options = {}) {
  const modules = await step(
    'modules',
    {
      inputs: ['CMakeLists.txt', 'cpp', 'build-scripts/build.mjs'],
      outputs: ['simd', 'relaxed'].flatMap((name) => [`build/wasm/${name}/locant.mjs`, `build/wasm/${name}/locant.wasm`]),
      extra: process.env.LOCANT_SUITE ?? '',
    },
    async () => {
      for (const name of ['simd', 'relaxed']) await cmakeBuild(name, { ...options, target: 'locant_wasm' });
    },
  );
  return buildWorkspace('package', modules, options);
}

/** Builds the page and what it stands on. */
export async function buildPage(options = {}) {
  return buildWorkspace('page', await buildPackage(options), options);
}

/** What a workspace's build reads. The package's own folder is not listed whole: its build copies README and LICENSE there. */
const workspaceInputs = {
  package: ['src', 'types', 'build.mjs', 'delta.mjs', 'package.json'].map((name) => `web/package/${name}`).concat('README.md', 'LICENSE'),
  page: ['web/page'],
};

/** Runs a workspace's own build script, which writes dist/. */
async function buildWorkspace(name, extra, { quiet = false } = {}) {
  const folder = `web/${name}`;
  if (!existsSync(join(root, folder, 'package.json'))) throw new Refusal(`build: there is no ${folder} yet.`);
  await ensureNodeModules();
  return step(name, { inputs: [...workspaceInputs[name], 'package-lock.json'], outputs: [`${folder}/dist`], extra }, () =>
    mustRun(['npm', 'run', 'build', '--workspace', folder], `Building the ${name}`, { quiet }));
}

if (isScript(import.meta.url)) {
  main(async () => {
    const { values, positionals } = readOptions('build', help, { target: { type: 'string' } }, true);
    const names = positionals.length > 0 ? positionals : ['page'];
    const unknown = names.find((name) => !cmakeBuilds[name] && name !== 'package' && name !== 'page');
    if (unknown) throw new Refusal(`build: there is no build "${unknown}"; there are ${Object.keys(cmakeBuilds).join(', ')}, package, page.`);
    for (const name of names) {
      if (name === 'package') await buildPackage();
      else if (name === 'page') await buildPage();
      else await cmakeBuild(name, values);
      console.log(`${name}: built`);
    }
  });
}
