// The native contest: our program (native.cpp) takes turns with onnxruntime-node.
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { checks, inputs, largestError, tolerance } from './cases.mjs';

export async function nativeContest(job, host) {
  const c = job.case, program = openProgram(host.places.native);
  await program.ask(`clock ${job.clock}`);
  const sets = (await program.ask('set')).split(' ');
  const results = {}, peaks = {};
  const racing = [];
  for (const name of job.names) {
    const result = (results[name] = { samples: [] });
    try {
      const contestant = name.startsWith('locant')
        ? ours(program, name.split(' ')[1] ?? sets[0], host.folder)
        : await (await import('./contestants/onnxruntime.mjs')).open('native', host);
      result.version = contestant.version;
      result.untimed = contestant.untimed;
      const small = checks[c.kind], few = inputs(small);
      const tried = await contestant.prepare(small, few);
      await tried.run();
      result.checkError = largestError(small, few, await tried.output());
      if (!(result.checkError < tolerance)) throw new Error(`wrong by ${result.checkError}`);
      tried.dispose?.();
      const x = inputs(c);
      const work = await contestant.prepare(c, x);
      for (let i = 0; i < 3; i++) await work.run();
      racing.push({ work, result, x });
    } catch (error) {
      result.failed = String(error?.message ?? error).slice(0, 300);
    }
  }
  const started = performance.now();
  for (let round = 0; round < job.rounds; round++) {
    (peaks[sets[0]] ??= []).push(Number(await program.ask('peak')));
    for (const { work, result } of racing) {
      const start = host.now();
      const own = await work.run();
      result.samples.push(own ?? host.now() - start);
    }
    if (round >= 2 && performance.now() - started > job.milliseconds) break;
  }
  for (const { work, result, x } of racing) {
    result.error = largestError(c, x, await work.output(), 24);
    if (!(result.error < tolerance)) result.failed = `wrong by ${result.error}`;
    work.dispose?.();
  }
  program.close();
  return { case: c.id, results, peaks, reads: [], sets };
}

function ours(program, set, folder) {
  return {
    version: set,
    untimed: 'rotary table',
    async prepare(c, x) {
      const request = `prefill ${c.heads} ${c.kvHeads} ${c.headDim} ${c.tokens} ${folder}`;
      for (const name of ['q', 'k', 'v']) writeFileSync(join(folder, `${name}.f32`), new Uint8Array(x[name].buffer));
      await program.ask(`set ${set}`);
      await program.ask(request);
      return {
        run: async () => Number(await program.ask('run')),
        async output() {
          await program.ask('output');
          const bytes = readFileSync(join(folder, 'out.f32'));
          return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
        },
      };
    },
  };
}

function openProgram(path) {
  const child = spawn(path, [], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async ask(request) {
      child.stdin.write(`${request}\n`);
      const { value, done } = await lines.next();
      if (done || value.startsWith('error')) throw new Error(value ?? 'the native program ended');
      return value;
    },
    close: () => child.stdin.end(),
  };
}
