// Which instructions the functions of a WebAssembly module are made of: enough of a disassembler to count the vector ones.
import { existsSync, readFileSync } from 'node:fs';

/**
 * The functions of a module: { name, vector, relaxed, otherRelaxed }, how many of their instructions are of SIMD128 or
 * relaxed SIMD, fused multiply-adds, and other relaxed ones. Names come from the linker's symbol map (--emit-symbol-map).
 */
export function vectorInstructions(bytes, symbolMap) {
  const names = new Map(!existsSync(symbolMap) ? [] : readFileSync(symbolMap, 'utf8').trim().split('\n').map((line) => {
    const colon = line.indexOf(':');
    return [Number(line.slice(0, colon)), line.slice(colon + 1)];
  }));
  let at = 8;
  const unsigned = () => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  const skip = (count) => { at += count; };
  const leb = () => { while (bytes[at++] >= 128); };  // signed or unsigned, value not needed
  const name = () => skip(unsigned());
  const memory = () => {
    if (unsigned() & 64) leb();  // alignment; bit 6: a memory index follows
    leb();
  };
  const list = (item) => { for (let n = unsigned(); n > 0; --n) item(); };

  /** Skips one instruction's immediates; counts what it is. Gives false at an `end`. */
  const instruction = (counts) => {
    const op = bytes[at++];
    if (op >= 0x28 && op <= 0x3e) return memory();
    if (op >= 0x45 && op <= 0xc4) return undefined;
    switch (op) {
      case 0x02: case 0x03: case 0x04: case 0x06: leb(); return undefined;        // block, loop, if, try: block type
      case 0x07: case 0x08: case 0x09: case 0x18: leb(); return undefined;        // catch, throw, rethrow, delegate
      case 0x0c: case 0x0d: leb(); return undefined;                              // br, br_if
      case 0x0e: list(leb); leb(); return undefined;                              // br_table
      case 0x10: case 0x12: leb(); return undefined;                              // call, return_call
      case 0x11: case 0x13: leb(); leb(); return undefined;                       // the same, indirect
      case 0x1c: list(leb); return undefined;                                     // select with types
      case 0x1f: leb(); list(() => { const kind = bytes[at++]; if (kind < 2) leb(); leb(); }); return undefined;  // try_table
      case 0x20: case 0x21: case 0x22: case 0x23: case 0x24: case 0x25: case 0x26: leb(); return undefined;       // locals, globals, tables
      case 0x3f: case 0x40: leb(); return undefined;                              // memory.size, memory.grow
      case 0x41: case 0x42: leb(); return undefined;
      case 0x43: skip(4); return undefined;
      case 0x44: skip(8); return undefined;
      case 0xd0: case 0xd2: leb(); return undefined;                              // ref.null, ref.func
      case 0xfc: return bulk(unsigned());
      case 0xfd: return vector(unsigned(), counts);
      case 0x00: case 0x01: case 0x05: case 0x0a: case 0x0b: case 0x0f: case 0x19: case 0x1a: case 0x1b: case 0xd1: return undefined;
      default: throw new Error(`unknown instruction 0x${op.toString(16)} at byte ${at - 1}`);
    }
  };
  const bulk = (op) => {
    if (op <= 7) return;                                        // saturating conversions
    if ([8, 10, 12, 14].includes(op)) { leb(); leb(); }
    else if ([9, 11, 13, 15, 16, 17].includes(op)) leb();
    else throw new Error(`unknown instruction 0xfc ${op}`);
  };
  const vector = (op, counts) => {
    counts.vector += 1;
    if (op <= 11 || op === 92 || op === 93) memory();           // loads and stores
    else if (op === 12 || op === 13) skip(16);                  // const, shuffle
    else if (op >= 21 && op <= 34) skip(1);                     // lanes
    else if (op >= 84 && op <= 91) { memory(); skip(1); }       // loads and stores of a lane
    else if (op >= 0x100) {
      if (op >= 0x105 && op <= 0x108) counts.relaxed += 1;      // madd and nmadd of f32x4 and f64x2
      else counts.otherRelaxed += 1;
    }
  };

  let imported = 0;
  const found = [];
  while (at < bytes.length) {
    const section = bytes[at++];
    const size = unsigned();
    const end = at + size;
    if (section === 2) {
      list(() => {
        name();
        name();
        const kind = bytes[at++];
        if (kind === 0) { leb(); imported += 1; }
        else if (kind === 1) { skip(1); if (unsigned() & 1) leb(); leb(); }
        else if (kind === 2) { if (unsigned() & 1) leb(); leb(); }
        else if (kind === 3) skip(2);
        else { skip(1); leb(); }
      });
    } else if (section === 10) {
      list(() => {
        const stop = unsigned() + at;
        const counts = { name: names.get(imported + found.length) ?? `function ${imported + found.length}`, vector: 0, relaxed: 0, otherRelaxed: 0 };
        list(() => { leb(); leb(); });
        while (at < stop) instruction(counts);
        if (at !== stop) throw new Error(`a function ends at byte ${at}, expected ${stop}`);
        found.push(counts);
      });
    }
    at = end;
  }
  return found;
}
