// Answers: which emcc, which version, why. Makes one where there is none.
import { spawnSync } from 'node:child_process';
import { main, readOptions, root } from './lib/command.mjs';
import { findToolchain } from './lib/toolchain.mjs';

const help = `
Usage: node build-scripts/toolchain.mjs [-- COMMAND...]

Says which Emscripten builds the WebAssembly module, its version, and why it is that one; makes it ready first where it
is not. With a COMMAND, runs that with emcc, emcmake, cmake and ninja on its PATH, for example
  node build-scripts/toolchain.mjs -- emcc --version

Looked for in this order: $EMSDK, the PATH, the system's package, a Debian 13 tree made by debootstrap.
  LOCANT_CACHE=FOLDER   where the tree is kept (default ~/.cache/locant)
  LOCANT_SUITE=SUITE    use a Debian tree of this suite (trixie, testing) whatever else is there
`;

main(async () => {
  const { positionals } = readOptions('toolchain', help, {}, true);
  const toolchain = await findToolchain();
  if (positionals.length > 0) {
    const argv = toolchain.command(positionals);
    return spawnSync(argv[0], argv.slice(1), { stdio: 'inherit', cwd: root }).status ?? 1;
  }
  console.log(`emcc:    ${toolchain.emcc}\nversion: ${toolchain.version}\nwhy:     ${toolchain.why}`);
});
