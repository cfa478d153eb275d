// ONNX models of one node, written out in protobuf's wire format: a message is a list of (field, value).

const text = new TextEncoder();

function join(parts) {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function varint(value) {
  const out = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    const low = Number(rest & 127n);
    if (rest < 128n) return Uint8Array.from([...out, low]);
    out.push(low | 128);
  }
}

const integer = (field, value) => join([varint(field * 8), varint(value)]);
const bytes = (field, value) => join([varint(field * 8 + 2), varint(value.length), value]);
const string = (field, value) => bytes(field, text.encode(value));
const message = (field, ...parts) => bytes(field, join(parts));

const kFloat = 1, kInt32 = 6, kInt64 = 7;
export const types = { float32: kFloat, int32: kInt32, int64: kInt64 };

/** dims: numbers, or names of what is not known. */
const info = (field, name, type, dims) => message(field, string(1, name), message(2, message(1, integer(1, type),
  message(2, ...dims.map((dim) => message(1, typeof dim === 'number' ? integer(1, dim) : string(2, dim)))))));

const constant = (name, dims, data) => message(5, ...dims.map((dim) => integer(1, dim)), integer(2, kFloat), string(8, name),
  bytes(9, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)));

const node = (op, from, to, attributes) => message(1, ...from.map((name) => string(1, name)), ...to.map((name) => string(2, name)),
  string(3, op), string(4, op),
  ...Object.entries(attributes).map(([name, value]) => message(5, string(1, name), integer(3, value), integer(20, 2))),
  string(7, 'com.microsoft'));

const model = (...graph) => join([integer(1, 8), message(7, ...graph, string(2, 'bench')),
  message(8, string(1, ''), integer(2, 17)), message(8, string(1, 'com.microsoft'), integer(2, 1))]);

/**
 * GroupQueryAttention, causal, rotary inside. With `held` (length, keys, values) the past is a constant of the
 * model and the present is not asked for: the cache stays in place.
 */
export function attentionModel({ heads, kvHeads, headDim, positions, tables, held }) {
  const width = (h) => [1, 'tokens', h * headDim];
  const table = [positions, headDim / 2];
  const past = held
    ? [constant('past_k', [1, kvHeads, held.length, headDim], held.keys), constant('past_v', [1, kvHeads, held.length, headDim], held.values)]
    : ['past_k', 'past_v'].map((name) => info(11, name, kFloat, [1, kvHeads, 'past', headDim]));
  const present = held ? [] : ['present_k', 'present_v'].map((name) => info(12, name, kFloat, [1, kvHeads, 'total', headDim]));
  return model(
    node('GroupQueryAttention', ['q', 'k', 'v', 'past_k', 'past_v', 'last', 'total', 'cos', 'sin'], ['out', 'present_k', 'present_v'],
      { num_heads: heads, kv_num_heads: kvHeads, do_rotary: 1, rotary_interleaved: 0 }),
    constant('cos', table, tables.cos), constant('sin', table, tables.sin), ...past,
    info(11, 'q', kFloat, width(heads)), info(11, 'k', kFloat, width(kvHeads)), info(11, 'v', kFloat, width(kvHeads)),
    info(11, 'last', kInt32, [1]), info(11, 'total', kInt32, []),
    info(12, 'out', kFloat, width(heads)), ...present);
}

export function rotationModel({ heads, headDim, tokens, tables }) {
  const x = [1, tokens, heads * headDim], table = [tokens, headDim / 2];
  return model(
    node('RotaryEmbedding', ['x', 'positions', 'cos', 'sin'], ['out'], { interleaved: 0, num_heads: heads, rotary_embedding_dim: 0 }),
    constant('cos', table, tables.cos), constant('sin', table, tables.sin),
    info(11, 'x', kFloat, x), info(11, 'positions', kInt64, [1, tokens]), info(12, 'out', kFloat, x));
}
