// Builds the library, its tests and the WebAssembly module, in build/.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isScript, main, mustRun, readOptions, Refusal, root } from './lib/command.mjs';
import { ensurePackages } from './lib/packages.mjs';
import { findToolchain } from './lib/toolchain.mjs';

/** Every build: its folder under build/, and what CMake is told. */
const builds = {
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
(default: simd relaxed). A WebAssembly build gives locant.mjs and locant.wasm once cpp/wasm has sources, and the test
program locant_tests.js for Node.
  --target=NAME   build only this CMake target (locant, locant_tests, locant_wasm)
`;

/** Configures (once; and anew when the compiler has changed) and builds one of the builds; resolves to its folder. */
export async function build(name, { target, quiet = false } = {}) {
  const { folder, options, wasm } = builds[name] ?? {};
  if (!folder) throw new Refusal(`build: there is no build "${name}"; there are ${Object.keys(builds).join(', ')}.`);
  const out = join(root, 'build', folder);
  let command = (argv) => argv;
  let version = '';
  if (wasm) ({ command, version } = await findToolchain());
  else await ensurePackages('g++', 'cmake', 'ninja-build', 'libeigen3-dev', 'doctest-dev', 'nlohmann-json3-dev');
  const configure = [...(wasm ? ['emcmake'] : []), 'cmake', '-G', 'Ninja', '-S', root, '-B', out, ...options];
  const configuredBy = join(out, 'configured-by');
  const stamp = `${command(configure).join(' ')} ${version}`;
  if (!existsSync(configuredBy) || readFileSync(configuredBy, 'utf8') !== stamp) {
    await mustRun(command([...configure, '--fresh']), `Configuring ${name}`, { quiet });
    writeFileSync(configuredBy, stamp);
  }
  await mustRun(command(['cmake', '--build', out, ...(target ? ['--target', target] : [])]), `Building ${name}`, { quiet });
  return out;
}

if (isScript(import.meta.url)) {
  main(async () => {
    const { values, positionals } = readOptions('build', help, { target: { type: 'string' } }, true);
    for (const name of positionals.length > 0 ? positionals : ['simd', 'relaxed']) {
      const out = await build(name, values);
      console.log(`${name}: built in ${out}`);
    }
  });
}
