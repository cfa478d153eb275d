"""Door 3: T5 buckets, ALiBi, Shaw, Transformer-XL and XLNet, DeBERTa, KERPLE, FIRE, Sandwich, CoPE.

Displacement is key - query unless a note says that the source counts the other way round. Scores and weights are
[heads, queries, keys]; q, k, v are [tokens, heads, dim]. `exact` of a whole attention is a float64 computation from the
papers' formulas in numpy; `expected` is what the source's float32 code gave.
"""

import math
import types
from importlib.metadata import version

import mpmath
import numpy as np
import torch
import transformers
from mpmath import mpf
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes, build_alibi_tensor
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.falcon import modeling_falcon
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.xlnet.modeling_xlnet import XLNetModel, XLNetRelativeAttention

import old
from common import document, doubles, error, random_floats, tensor

VERSION = transformers.__version__


# --- T5 ------------------------------------------------------------------------------------------------------------

def exact_bucket(displacement, bidirectional, buckets, max_distance):
    """Integer arithmetic only: no logarithm whose last bit could decide."""
    base = 0
    if bidirectional:
        buckets //= 2
        base = buckets if displacement > 0 else 0
        r = abs(displacement)
    else:
        r = max(-displacement, 0)
    e = buckets // 2
    if r < e:
        return base + r
    n, k = buckets - e, 0
    # floor(n ln(r/e) / ln(D/e)) >= k  <=>  (r/e)^n >= (D/e)^k
    while k + 1 <= n and r ** n * e ** (k + 1) >= max_distance ** (k + 1) * e ** n:
        k += 1
    return base + min(e + k, buckets - 1)


def bias_t5():
    cases = []
    shapes = [(True, 32, 128), (False, 32, 128), (True, 8, 20), (False, 8, 20), (True, 4, 5), (False, 6, 64),
              (True, 10, 1000), (False, 64, 512)]
    for bidirectional, buckets, max_distance in shapes:
        reach = 300 if (buckets, max_distance) == (32, 128) else max_distance + 12 if max_distance < 100 else 0
        displacements = list(range(-reach, reach + 1)) if reach else []
        if not reach:
            displacements = [s * d for d in [max_distance + 1, max_distance, max_distance - 1, 100, 63, 50, 33, 32, 31, 17, 16, 9, 8,
                                             5, 4, 3] for s in (-1,)] + [-2, -1, 0, 1, 2, 5, 50, max_distance, 10 ** 6]
        if (buckets, max_distance) == (32, 128):
            displacements += [-2147483647, -100000, 100000, 2147483647]
        got = T5Attention._relative_position_bucket(torch.tensor(displacements), bidirectional, buckets, max_distance)
        exact = np.array([exact_bucket(d, bidirectional, buckets, max_distance) for d in displacements])
        differ = [d for d, a, b in zip(displacements, got.tolist(), exact) if a != b]
        cases.append({"name": f"{'bidirectional' if bidirectional else 'causal'}, {buckets} buckets, distance {max_distance}",
                      "parameters": {"bidirectional": bidirectional, "buckets": buckets, "max_distance": max_distance},
                      "inputs": {"displacement": tensor(np.array(displacements))},
                      "expected": {"bucket": tensor(got)},
                      "exact": {"bucket": tensor(exact)},
                      "source_differs_at": differ})
    for bidirectional, queries, keys, past in [(True, 3, 5, 0), (False, 4, 4, 0), (False, 1, 40, 39), (False, 2, 30, 28)]:
        config = transformers.T5Config(d_model=8, d_kv=4, num_heads=2, relative_attention_num_buckets=8,
                                       relative_attention_max_distance=20, is_decoder=not bidirectional)
        module = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        table = random_floats(1300, 8, 2)
        with torch.no_grad():
            module.relative_attention_bias.weight.copy_(torch.from_numpy(table))
            got = module.compute_bias(queries, keys, past_seen_tokens=past)[0]
        index = [[exact_bucket(k - (past + q), bidirectional, 8, 20) for k in range(keys)] for q in range(queries)]
        exact = table[np.array(index)].transpose(2, 0, 1)
        assert np.array_equal(exact, got.numpy())
        cases.append({"name": f"bias values, {'bidirectional' if bidirectional else 'causal'}, {queries} queries after {past}, "
                              f"{keys} keys",
                      "parameters": {"bidirectional": bidirectional, "buckets": 8, "max_distance": 20, "heads": 2,
                                     "query_start": past, "queries": queries, "keys": keys},
                      "inputs": {"table": tensor(table)}, "expected": {"bias": tensor(got)},
                      "call": "models.t5.modeling_t5.T5Attention.compute_bias"})
    return document("T5 relative bias", "transformers", VERSION,
                    "models.t5.modeling_t5.T5Attention._relative_position_bucket", cases,
                    note="The table is [buckets, heads]. No 1/sqrt(d) scale is applied to scores in T5. exact is integer "
                         "arithmetic; source_differs_at lists displacements at which the source's float32 logarithm fell "
                         "into another bucket.")


def bias_t5_attention():
    from transformers import DynamicCache

    cases = []
    for index, (heads, tokens, dim, past, bidirectional, buckets, max_distance) in enumerate([
            (2, 6, 4, 0, True, 8, 20), (2, 6, 4, 0, False, 8, 20), (3, 20, 3, 0, True, 16, 12), (1, 48, 4, 0, False, 16, 32),
            (2, 9, 4, 7, False, 6, 8), (2, 30, 2, 29, False, 8, 20)]):
        seed = 1310 + 10 * index
        config = transformers.T5Config(d_model=heads * dim, d_kv=dim, num_heads=heads, relative_attention_num_buckets=buckets,
                                       relative_attention_max_distance=max_distance, is_decoder=not bidirectional,
                                       dropout_rate=0.0, attn_implementation="eager")
        module = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
        x, table = random_floats(seed, tokens, heads * dim), random_floats(seed + 1, buckets, heads)
        with torch.no_grad():
            for j, name in enumerate("qkv"):
                getattr(module, name).weight.copy_(torch.from_numpy(random_floats(seed + 2 + j, heads * dim, heads * dim, scale=0.4)))
            module.o.weight.copy_(torch.eye(heads * dim))
            module.relative_attention_bias.weight.copy_(torch.from_numpy(table))
            rows = torch.from_numpy(x)[None]
            q, k, v = (getattr(module, name)(rows)[0].view(tokens, heads, dim).numpy() for name in "qkv")
            cache = DynamicCache(config=config) if past else None
            if past:
                mask = torch.where(torch.from_numpy(causal(past, past)), 0.0, torch.finfo(torch.float32).min)[None, None]
                module(rows[:, :past], mask=mask, cache=cache)
            sees = np.ones((tokens - past, tokens), bool) if bidirectional else causal(tokens - past, tokens)
            mask = torch.where(torch.from_numpy(sees), 0.0, torch.finfo(torch.float32).min)[None, None]
            output, _, weights = module(rows[:, past:], mask=mask, cache=cache)
        q = q[past:]
        hq, hk, hv = heads_first(q), heads_first(k), heads_first(v)
        row = [[exact_bucket(j - (past + i), bidirectional, buckets, max_distance) for j in range(tokens)] for i in range(tokens - past)]
        scores = hq @ hk.transpose(0, 2, 1) + table.astype(float)[np.array(row)].transpose(2, 0, 1)
        exact = softmax(np.where(sees, scores, -np.inf))
        cases.append(attention_case(
            f"{'bidirectional' if bidirectional else 'causal'}, {heads} heads of {dim}, {tokens - past} queries at the end of {tokens} "
            f"keys, {buckets} buckets, distance {max_distance}" + (", cached" if past else ""),
            {"bidirectional": bidirectional, "causal": not bidirectional, "scale": 1.0, "buckets": buckets, "max_distance": max_distance},
            {"q": q, "k": k, "v": v, "table": table}, scores, exact, exact @ hv,
            {"weights": weights[0].numpy(), "output": output[0].reshape(tokens - past, heads, dim).numpy()}))
    return document("T5 attention", "transformers", VERSION, "models.t5.modeling_t5.T5Attention.forward", cases,
                    note="Scores are q . k + bias, without a scale. The output projection is the identity. In the cached cases "
                         "the first tokens went through the module before, with a DynamicCache.")


# --- ALiBi ---------------------------------------------------------------------------------------------------------

def exact_slopes(heads, top=8):
    c = 2 ** int(math.floor(math.log2(heads)))
    first = [mpf(2) ** (mpf(-top) * k / c) for k in range(1, c + 1)]
    extra = [mpf(2) ** (mpf(-top) * k / (2 * c)) for k in range(1, 2 * c, 2)]
    return (first + extra)[:heads]


def bias_alibi_slopes():
    cases = []
    counts = list(range(1, 129))
    flat = np.concatenate([_get_alibi_slopes(n, torch.device("cpu")).numpy() for n in counts])
    exact = doubles([s for n in counts for s in exact_slopes(n)])
    relative = float(np.max(np.abs(flat / exact - 1)))
    assert relative < 1e-5
    cases.append({"name": "1 to 128 heads, one after the other", "parameters": {"first_heads": 1, "last_heads": 128},
                  "inputs": {}, "expected": {"slopes": tensor(flat)}, "source_error": relative})
    mpt = np.concatenate([(build_mpt_alibi_tensor(n, 2)[:, 0, 0] / -1).numpy() for n in counts])
    assert float(np.max(np.abs(mpt / exact - 1))) < 1e-6  # the two builders agree for every count
    for n in [1, 2, 3, 5, 6, 7, 12, 40, 112]:
        cases.append({"name": f"{n} heads", "parameters": {"heads": n, "bias_max": 8}, "inputs": {},
                      "expected": {"slopes": tensor(_get_alibi_slopes(n, torch.device("cpu")))},
                      "exact": {"slopes": tensor(doubles(exact_slopes(n)))}})
    for n, top in [(4, 4), (6, 16), (12, 2)]:
        got = (build_mpt_alibi_tensor(n, 2, alibi_bias_max=top)[:, 0, 0] / -1)
        exact = doubles(exact_slopes(n, top))
        assert error(got, exact) < 1e-6
        cases.append({"name": f"{n} heads, bias_max {top}", "parameters": {"heads": n, "bias_max": top}, "inputs": {},
                      "expected": {"slopes": tensor(got)}, "exact": {"slopes": tensor(exact)},
                      "call": "models.mpt.modeling_mpt.build_mpt_alibi_tensor"})
    return document("ALiBi slopes", "transformers", VERSION, "models.bloom.modeling_bloom._get_alibi_slopes", cases,
                    note="source_error is relative here. MPT's build_mpt_alibi_tensor gives the same slopes in the same "
                         "order for all 128 counts (checked by the script).")


def bias_alibi():
    from x_transformers.x_transformers import AlibiPositionalBias
    cases = []
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    for heads in (2, 3):
        got = build_alibi_tensor(mask, heads, torch.float32).reshape(2, heads, 1, 5)
        cases.append({"name": f"Bloom, {heads} heads, padded batch", "parameters": {"heads": heads, "form": "key only"},
                      "inputs": {"attention_mask": tensor(mask)}, "expected": {"bias": tensor(got)},
                      "call": "models.bloom.modeling_bloom.build_alibi_tensor", "layout": "[batch, heads, 1, keys]"})
    got = modeling_falcon.build_alibi_tensor(mask, 12, torch.float32).reshape(2, 12, 1, 5)
    cases.append({"name": "Falcon, 12 heads: slopes rounded to bfloat16", "parameters": {"heads": 12, "form": "key only, bfloat16"},
                  "inputs": {"attention_mask": tensor(mask)}, "expected": {"bias": tensor(got)},
                  "call": "models.falcon.modeling_falcon.build_alibi_tensor", "layout": "[batch, heads, 1, keys]"})
    got = build_mpt_alibi_tensor(3, 5)
    cases.append({"name": "MPT, 3 heads", "parameters": {"heads": 3, "form": "key - (length - 1)", "length": 5}, "inputs": {},
                  "expected": {"bias": tensor(got)}, "call": "models.mpt.modeling_mpt.build_mpt_alibi_tensor",
                  "layout": "[heads, 1, keys]"})
    for heads, queries, keys in [(2, 4, 4), (3, 2, 5), (6, 1, 3)]:
        module = AlibiPositionalBias(heads)
        got = module(queries, keys)
        d = np.arange(keys)[None] - np.arange(keys - queries, keys)[:, None]
        exact = -np.abs(d)[None] * doubles(exact_slopes(heads))[:, None, None]
        assert error(got, exact) < 1e-6
        cases.append({"name": f"symmetric, {heads} heads, {queries} queries at the end of {keys} keys",
                      "parameters": {"heads": heads, "form": "-slope |key - query|", "queries": queries, "keys": keys},
                      "inputs": {}, "expected": {"bias": tensor(got)}, "exact": {"bias": tensor(exact)},
                      "call": f"x-transformers {version('x-transformers')}: AlibiPositionalBias.forward",
                      "layout": "[heads, queries, keys]"})
    positions = torch.tensor([0, 3, 3, 10])
    got = AlibiPositionalBias(2).forward_custom_pos(positions)
    cases.append({"name": "symmetric, given positions", "parameters": {"heads": 2, "form": "-slope |key - query|"},
                  "inputs": {"positions": tensor(positions)}, "expected": {"bias": tensor(got.reshape(2, 4, 4))},
                  "call": f"x-transformers {version('x-transformers')}: AlibiPositionalBias.forward_custom_pos",
                  "layout": "[heads, queries, keys]"})
    return document("ALiBi bias", "transformers and x-transformers", f"{VERSION}, {version('x-transformers')}",
                    "named in each case", cases,
                    note="The key-only and MPT forms equal slope * (key - query) up to a constant for each query, which a "
                         "softmax over the same keys does not see.")


# --- attention with relative terms, in float64 ---------------------------------------------------------------------

def softmax(s):
    s = s - s.max(-1, keepdims=True)
    e = np.exp(s)
    return e / e.sum(-1, keepdims=True)


def heads_first(x):
    return np.asarray(x, dtype=np.float64).transpose(1, 0, 2)


def causal(queries, keys):
    return np.arange(keys)[None] <= np.arange(keys - queries, keys)[:, None]


def attention_case(name, parameters, inputs, scores, weights, output, expected, **extra):
    """expected: dict of the source's results; `scores` before the mask."""
    exact = {"weights": tensor(weights), "output": tensor(output.transpose(1, 0, 2))}
    if scores is not None:
        exact["scores"] = tensor(scores)
    distance = max(error(expected["weights"], weights), error(expected["output"], output.transpose(1, 0, 2)))
    assert distance < 3e-6, (name, distance)
    return {"name": name, "parameters": parameters, "inputs": {k: tensor(v) for k, v in inputs.items()},
            "expected": {k: tensor(np.asarray(v, dtype=np.float32)) for k, v in expected.items()}, "exact": exact,
            "source_error": distance, **extra}


def bias_shaw():
    cases = []
    for index, (heads, queries, keys, dim, clip, masked, cache) in enumerate([
            (2, 5, 5, 4, 2, False, False), (2, 6, 6, 4, 2, True, False), (1, 7, 7, 3, 10, True, False),
            (2, 3, 8, 4, 3, True, False), (2, 1, 6, 4, 3, False, True), (1, 1, 1, 2, 1, False, False)]):
        seed = 1400 + 10 * index
        q, k, v = (random_floats(seed + j, n, heads, dim) for j, n in enumerate((queries, keys, keys)))
        key_table, value_table = random_floats(seed + 3, 2 * clip + 1, dim), random_floats(seed + 4, 2 * clip + 1, dim)
        scale = dim ** -0.5
        mask = causal(queries, keys) if masked else np.ones((queries, keys), bool)
        bias = None if not masked else np.where(mask, 0.0, -1e9)[None, None].tolist()
        got = old.call("t2t_shaw", q=(heads_first(q) * scale)[None].tolist(), k=heads_first(k)[None].tolist(),
                       v=heads_first(v)[None].tolist(), keys=key_table.tolist(), values=value_table.tolist(), bias=bias,
                       max_relative_position=clip, cache=cache)
        displacement = np.arange(keys)[None] - np.arange(keys - queries, keys)[:, None]
        row = np.clip(displacement, -clip, clip) + clip
        assert np.array_equal(row, np.array(got["index"]))
        a, b = key_table.astype(float)[row], value_table.astype(float)[row]
        hq, hk, hv = heads_first(q), heads_first(k), heads_first(v)
        scores = scale * (hq @ hk.transpose(0, 2, 1) + np.einsum("hqd,qkd->hqk", hq, a))
        weights = softmax(np.where(mask, scores, -np.inf))
        output = weights @ hv + np.einsum("hqk,qkd->hqd", weights, b)
        expected = {"weights": np.array(got["weights"])[0], "output": np.array(got["output"])[0].transpose(1, 0, 2)}
        cases.append(attention_case(
            f"{heads} heads of {dim}, {queries} queries at the end of {keys} keys, clip {clip}"
            + (", causal" if masked else ""),
            {"scale": scale, "clip": clip, "causal": masked}, {"q": q, "k": k, "v": v, "key_table": key_table,
                                                               "value_table": value_table}, scores, weights, output, expected,
            table_row=tensor(row)))
    # BERT's learned relative keys: the table is indexed the other way round, and nothing is clipped.
    for index, (kind, masked) in enumerate([("relative_key", False), ("relative_key_query", False), ("relative_key", True)]):
        heads, tokens, dim, length = 2, 5, 4, 6
        seed = 1480 + 10 * index
        q, k, v = (random_floats(seed + j, tokens, heads, dim) for j in range(3))
        table = random_floats(seed + 3, 2 * length - 1, dim)
        mask = causal(tokens, tokens) if masked else np.ones((tokens, tokens), bool)
        got = old.call("bert_relative", kind=kind, q=q.tolist(), k=k.tolist(), v=v.tolist(), table=table.tolist(),
                       mask=np.where(mask, 0.0, -1e9).tolist())
        distance = np.arange(tokens)[:, None] - np.arange(tokens)[None]
        a = table.astype(float)[distance + length - 1]
        hq, hk, hv = heads_first(q), heads_first(k), heads_first(v)
        scores = hq @ hk.transpose(0, 2, 1) + np.einsum("hqd,qkd->hqk", hq, a)
        if kind == "relative_key_query":
            scores = scores + np.einsum("hkd,qkd->hqk", hk, a)
        scores = scores / math.sqrt(dim)
        weights = softmax(np.where(mask, scores, -np.inf))
        cases.append(attention_case(
            f"BERT {kind}" + (", causal" if masked else ""),
            {"scale": dim ** -0.5, "max_positions": length, "causal": masked, "kind": kind},
            {"q": q, "k": k, "v": v, "distance_table": table}, scores, weights, weights @ hv,
            {"weights": got["weights"], "output": got["output"]}, table_row=tensor(distance + length - 1),
            call=f"transformers {old.call('versions')['transformers']}: models.bert.modeling_bert.BertSelfAttention"))
    return document("Shaw's relative keys and values", "tensor2tensor", old.call("versions")["tensor2tensor"],
                    "layers.common_attention: _generate_relative_positions_matrix, _relative_attention_inner "
                    "(the body of dot_product_attention_relative, run in TensorFlow 2)", cases,
                    note="Row of the table is clip(key - query, -K, K) + K. The source takes scaled queries, so the scale "
                         "covers the relative term too. BERT's cases index by query - key + (max_positions - 1), have no "
                         "value table, and do not clip.")


# --- Transformer-XL and XLNet ----------------------------------------------------------------------------------------

def bias_transformer_xl():
    cases = []
    for rows, columns in [(3, 3), (2, 4), (4, 2)]:
        x = np.arange(1, rows * columns + 1, dtype=np.float32).reshape(rows, columns)
        got = np.array(old.call("transfo_xl_shift", x=x[:, :, None, None].tolist()), dtype=np.float32).reshape(rows, columns)
        cases.append({"name": f"the shift of a {rows} x {columns} counter", "parameters": {"method": "Transformer-XL"},
                      "inputs": {"x": tensor(x)}, "expected": {"shifted": tensor(got)},
                      "call": "models.deprecated.transfo_xl.modeling_transfo_xl.RelPartialLearnableMultiHeadAttn._rel_shift"})
    for index, (heads, queries, keys, dim, width, clamp) in enumerate([(2, 4, 4, 4, 8, None), (2, 3, 7, 4, 8, None),
                                                                     (1, 1, 5, 2, 4, None), (2, 3, 7, 4, 8, 2)]):
        seed = 1500 + 10 * index
        q, k, v = (random_floats(seed + j, n, heads, dim) for j, n in enumerate((queries, keys, keys)))
        u, w = random_floats(seed + 3, heads, dim), random_floats(seed + 4, heads, dim)
        projection = random_floats(seed + 5, heads * dim, width, scale=0.5)
        distances = np.minimum(np.arange(keys - 1, -1, -1), clamp if clamp is not None else keys)
        table = np.array(old.call("transfo_xl_table", positions=distances.tolist(), width=width), dtype=np.float32)
        r = (table @ projection.T).reshape(keys, heads, dim).astype(np.float32)
        mask = causal(queries, keys)
        got = old.call("transfo_xl", q=q.tolist(), k=k.tolist(), v=v.tolist(), r=r.tolist(), content_bias=u.tolist(),
                       position_bias=w.tolist(), mask=(~mask)[:, :, None].astype(int).tolist())
        hq, hk, hv, hr = heads_first(q), heads_first(k), heads_first(v), heads_first(r)
        content = (hq + u[:, None].astype(float)) @ hk.transpose(0, 2, 1)
        position = np.zeros_like(content)
        for i in range(queries):
            for j in range(keys):
                distance = (keys - queries + i) - j
                if distance >= 0:
                    position[:, i, j] = np.einsum("hd,hd->h", hq[:, i] + w.astype(float), hr[:, keys - 1 - distance])
        scores = np.where(mask, (content + position) / math.sqrt(dim), 0.0)
        weights = softmax(np.where(mask, scores, -np.inf))
        cases.append(attention_case(
            f"Transformer-XL, {heads} heads of {dim}, {queries} queries at the end of {keys} keys"
            + (f", distance clamped to {clamp}" if clamp is not None else ""),
            {"method": "Transformer-XL", "scale": dim ** -0.5, "causal": True, "clamp": clamp, "table_width": width},
            {"q": q, "k": k, "v": v, "r": r, "content_bias": u, "position_bias": w, "distances": distances.astype(np.int64),
             "distance_table": table, "projection": projection}, scores, weights, weights @ hv,
            {"weights": got["weights"], "output": got["output"]},
            call="models.deprecated.transfo_xl.modeling_transfo_xl.RelPartialLearnableMultiHeadAttn.forward"))
    versions = old.call("versions")["transformers"]
    # XLNet
    for queries, rows_ in [(2, 4), (3, 6)]:
        x = torch.arange(1, queries * rows_ + 1, dtype=torch.float32).reshape(1, 1, queries, rows_)
        keys = rows_ - queries
        got = XLNetRelativeAttention.rel_shift_bnij(x, klen=keys)[0, 0]
        cases.append({"name": f"XLNet: the shift of a {queries} x {rows_} counter to {keys} keys",
                      "parameters": {"method": "XLNet", "keys": keys}, "inputs": {"x": tensor(x[0, 0])},
                      "expected": {"shifted": tensor(got)},
                      "call": f"transformers {VERSION}: models.xlnet.modeling_xlnet.XLNetRelativeAttention.rel_shift_bnij"})
    for index, (heads, queries, keys, dim, masked) in enumerate([(2, 4, 4, 4, False), (2, 3, 5, 4, True), (1, 2, 6, 3, False)]):
        seed = 1560 + 10 * index
        config = transformers.XLNetConfig(d_model=heads * dim, n_head=heads, n_layer=1, d_inner=4, dropout=0.0)
        module = XLNetRelativeAttention(config).eval()
        q, k, v = (random_floats(seed + j, n, heads, dim) for j, n in enumerate((queries, keys, keys)))
        u, w = random_floats(seed + 3, heads, dim), random_floats(seed + 4, heads, dim)
        stand_in = types.SimpleNamespace(d_model=8, attn_type="bi", bi_data=False, clamp_len=-1,
                                         positional_embedding=XLNetModel.positional_embedding)
        table = XLNetModel.relative_positional_encoding(stand_in, queries, keys)[:, 0].numpy()
        projection = random_floats(seed + 5, heads * dim, 8, scale=0.5)
        r = (table @ projection.T).reshape(queries + keys, heads, dim).astype(np.float32)
        mask = causal(queries, keys) if masked else np.ones((queries, keys), bool)
        with torch.no_grad():
            module.r_w_bias.copy_(torch.from_numpy(u))
            module.r_r_bias.copy_(torch.from_numpy(w))
            blocked = torch.from_numpy((~mask).astype(np.float32))[:, :, None, None]
            out, prob = module.rel_attn_core(*(torch.from_numpy(x)[:, None] for x in (q, k, v, r)), attn_mask=blocked,
                                             output_attentions=True)
        hq, hk, hv, hr = heads_first(q), heads_first(k), heads_first(v), heads_first(r)
        scores = (hq + u[:, None].astype(float)) @ hk.transpose(0, 2, 1)
        for i in range(queries):
            for j in range(keys):
                distance = (keys - queries + i) - j  # row 0 of r is distance `keys`
                scores[:, i, j] += np.einsum("hd,hd->h", hq[:, i] + w.astype(float), hr[:, keys - distance])
        scores = scores / math.sqrt(dim)
        weights = softmax(np.where(mask, scores, -np.inf))
        cases.append(attention_case(
            f"XLNet, {heads} heads of {dim}, {queries} queries, {keys} keys" + (", causal" if masked else ""),
            {"method": "XLNet", "scale": dim ** -0.5, "causal": masked, "table_width": 8},
            {"q": q, "k": k, "v": v, "r": r, "content_bias": u, "position_bias": w,
             "distances": np.arange(keys, -queries, -1), "distance_table": table, "projection": projection},
            scores, weights, weights @ hv, {"weights": prob[:, :, 0].permute(2, 0, 1).numpy(), "output": out[:, 0].numpy()},
            call=f"transformers {VERSION}: models.xlnet.modeling_xlnet: XLNetRelativeAttention.rel_attn_core, "
                 "XLNetModel.relative_positional_encoding"))
    return document("Transformer-XL and XLNet relative attention", "transformers", f"{versions} and {VERSION}",
                    "named in each case", cases,
                    note="distances are query - key. r is distance_table times projection (transposed), row t for distances[t]. "
                         "Transformer-XL has a row for every distance from keys - 1 down to 0 and reads garbage above the "
                         "diagonal, which the mask hides; masked scores are 0 here. XLNet has rows from keys down to "
                         "-queries + 1. In both, query i stands at key index keys - queries + i.")


# --- DeBERTa ---------------------------------------------------------------------------------------------------------

def exact_log_bucket(relative, buckets, max_position):
    mid = buckets // 2
    if abs(relative) <= mid:
        return relative
    # ceil(x) with x = (mid-1) ln(|rel|/mid) / ln((M-1)/mid): smallest k with (|rel|/mid)^(mid-1) <= ((M-1)/mid)^k
    a, top = abs(relative), max_position - 1
    k = 0
    while a ** (mid - 1) * mid ** k > top ** k * mid ** (mid - 1):
        k += 1
    return (1 if relative > 0 else -1) * (k + mid)


def bias_deberta_buckets():
    cases = []
    for buckets, max_position, reach in [(256, 512, 700), (32, 128, 200), (8, 20, 40), (4, 64, 80)]:
        values = torch.arange(-reach, reach + 1)
        if (buckets, max_position) == (256, 512):
            values = torch.cat([values[(values.abs() < 5) | ((values.abs() > 120) & (values.abs() < 320)) | (values.abs() > 480)]])
        got = modeling_deberta_v2.make_log_bucket_position(values, buckets, max_position).long()
        exact = [exact_log_bucket(int(r), buckets, max_position) for r in values]
        differ = [int(r) for r, a, b in zip(values, got.tolist(), exact) if a != b]
        cases.append({"name": f"{buckets} buckets, maximum {max_position}",
                      "parameters": {"buckets": buckets, "max_position": max_position},
                      "inputs": {"query_minus_key": tensor(values)}, "expected": {"bucket": tensor(got)},
                      "exact": {"bucket": tensor(np.array(exact))}, "source_differs_at": differ})
    return document("DeBERTa log buckets", "transformers", VERSION,
                    "models.deberta_v2.modeling_deberta_v2.make_log_bucket_position", cases,
                    note="The source counts query - key, the opposite of displacement. exact is integer arithmetic; "
                         "source_differs_at lists where the source's float32 logarithm rounded into another bucket.")


def bias_deberta():
    cases = []
    for index, (heads, dim, tokens, types_, buckets, max_position, shared) in enumerate([
            (2, 4, 6, ["c2p", "p2c"], 4, 8, False), (2, 4, 6, ["c2p"], 4, 8, False), (2, 4, 6, ["p2c"], 4, 8, False),
            (2, 4, 9, ["c2p", "p2c"], -1, 4, False), (1, 3, 12, ["c2p", "p2c"], 6, 7, True), (2, 2, 1, ["c2p", "p2c"], 4, 8, True)]):
        seed = 1600 + 20 * index
        hidden = heads * dim
        config = transformers.DebertaV2Config(
            hidden_size=hidden, num_attention_heads=heads, relative_attention=True, pos_att_type=types_,
            position_buckets=buckets, max_relative_positions=max_position, share_att_key=shared, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0)
        module = modeling_deberta_v2.DisentangledSelfAttention(config).eval()
        names = {"query_proj": "query", "key_proj": "key", "value_proj": "value"}
        if not shared and "c2p" in types_:
            names["pos_key_proj"] = "position_key"
        if not shared and "p2c" in types_:
            names["pos_query_proj"] = "position_query"
        inputs = {"x": random_floats(seed, tokens, hidden)}
        with torch.no_grad():
            for j, (name, label) in enumerate(names.items()):
                weight, bias = random_floats(seed + 1 + j, hidden, hidden, scale=0.5), random_floats(seed + 8 + j, hidden, scale=0.5)
                getattr(module, name).weight.copy_(torch.from_numpy(weight))
                getattr(module, name).bias.copy_(torch.from_numpy(bias))
                inputs[f"{label}_weight"], inputs[f"{label}_bias"] = weight, bias
        span = buckets if buckets > 0 else max_position
        table = random_floats(seed + 15, 2 * span, hidden)
        inputs["relative_table"] = table
        visible = np.ones((tokens, tokens), bool)
        if tokens > 2:
            visible[:, -1] = False
            visible[-1] = False
        with torch.no_grad():
            relative = modeling_deberta_v2.build_relative_position(torch.zeros(1, tokens, 1), torch.zeros(1, tokens, 1),
                                                                  bucket_size=buckets, max_position=max_position)
            output, weights = module(torch.from_numpy(inputs["x"])[None], torch.from_numpy(visible)[None, None],
                                     output_attentions=True, relative_pos=relative, rel_embeddings=torch.from_numpy(table))
        # From the formula: A_ij = q_i k_j + q_i kr_{d(i,j)} + k_j qr_{d(i,j)}
        def project(x, label):
            y = np.asarray(x, dtype=np.float64) @ inputs[f"{label}_weight"].astype(float).T + inputs[f"{label}_bias"].astype(float)
            return y.reshape(len(x), heads, dim).transpose(1, 0, 2)

        q, k, v = project(inputs["x"], "query"), project(inputs["x"], "key"), project(inputs["x"], "value")
        position_key = project(table, "key" if shared else "position_key") if "c2p" in types_ else None
        position_query = project(table, "query" if shared else "position_query") if "p2c" in types_ else None
        scores = q @ k.transpose(0, 2, 1)
        rows = np.zeros((tokens, tokens), int)
        for i in range(tokens):
            for j in range(tokens):
                d = i - j if buckets <= 0 else exact_log_bucket(i - j, buckets, max_position)
                rows[i, j] = min(max(d + span, 0), 2 * span - 1)
                if position_key is not None:
                    scores[:, i, j] += np.einsum("hd,hd->h", q[:, i], position_key[:, rows[i, j]])
                if position_query is not None:
                    scores[:, i, j] += np.einsum("hd,hd->h", k[:, j], position_query[:, rows[i, j]])
        scores = scores / math.sqrt(dim * (1 + len(types_)))
        exact_weights = softmax(np.where(visible, scores, np.finfo(np.float32).min))
        case = attention_case(
            f"{'+'.join(types_)}, {tokens} tokens, {buckets if buckets > 0 else 'no'} buckets, maximum {max_position}"
            + (", shared projections" if shared else ""),
            {"heads": heads, "dim": dim, "types": types_, "buckets": buckets, "max_position": max_position, "span": span,
             "shared_projections": shared, "scale": (dim * (1 + len(types_))) ** -0.5},
            {**inputs, "visible": visible}, scores, exact_weights, exact_weights @ v,
            {"weights": weights[0].numpy(), "output": output[0].reshape(tokens, heads, dim).numpy()}, table_row=tensor(rows))
        cases.append(case)
    return document("DeBERTa disentangled attention", "transformers", VERSION,
                    "models.deberta_v2.modeling_deberta_v2.DisentangledSelfAttention.forward", cases,
                    note="table_row[i][j] = clamp(bucket(i - j) + span, 0, 2 span - 1) serves content-to-position (with q_i) "
                         "and position-to-content (with k_j) alike: the source uses the distance of (i, j) for both, where "
                         "the paper has (j, i) for the second. The last token is masked as key and as query; rows that see "
                         "nothing are uniform in the source (its mask value is finite). Projections are x W^T + b.")


# --- the smaller ones --------------------------------------------------------------------------------------------------

def bias_sandwich():
    from attn_gym.mods import generate_sandwich_bias
    cases = []
    for heads, length, width in [(2, 6, 8), (3, 5, 128), (8, 3, 16)]:
        mod = generate_sandwich_bias(heads, length, width)
        got = np.array([[[float(mod(torch.tensor(0.0), 0, torch.tensor(h), torch.tensor(q), torch.tensor(k)))
                          for k in range(length)] for q in range(length)] for h in range(heads)], dtype=np.float32)
        by_distance = [sum(mpmath.cos(d / mpf(10000) ** (mpf(2 * i) / width)) for i in range(width // 2)) for d in range(length)]
        exact = np.array([[[float(by_distance[abs(q - k)] * heads / (8 * mpf(h + 1))) for k in range(length)]
                           for q in range(length)] for h in range(heads)])
        assert error(got, exact) < 1e-4
        cases.append({"name": f"{heads} heads, length {length}, width {width}",
                      "parameters": {"heads": heads, "length": length, "width": width, "base": 10000.0}, "inputs": {},
                      "expected": {"bias": tensor(got)}, "exact": {"bias": tensor(exact)}, "source_error": error(got, exact)})
    return document("Sandwich", "attn-gym", version("attn-gym"), "attn_gym.mods.generate_sandwich_bias", cases,
                    note="bias = sum_i cos(d / base^(2i/width)) * heads / (8 (h + 1)), h from 0.")


def bias_kerple():
    cases = []
    distances = [0, 1, 2, 3, 10, 511, 512, 100000]
    for kind, pairs in [("logarithmic", [(1.0, 1.0), (0.5, 2.0), (2.5, 0.01)]), ("power", [(1.0, 1.0), (0.5, 2.0), (0.25, 0.5)])]:
        for r1, r2 in pairs:
            if kind == "logarithmic":
                exact = [-mpf(r1) * mpmath.log(1 + mpf(r2) * d) for d in distances]
            else:
                exact = [-mpf(r1) * mpf(d) ** mpf(r2) if d else mpf(0) for d in distances]
            cases.append({"name": f"{kind}, r1 {r1:g}, r2 {r2:g}", "parameters": {"kind": kind, "r1": r1, "r2": r2},
                          "inputs": {"distance": tensor(np.array(distances))}, "expected": {},
                          "exact": {"bias": tensor(doubles(exact))}})
    return document("KERPLE", "Chi et al. 2022, arXiv 2205.09921", "", "equations (3) and (4): -r1 ln(1 + r2 |m - n|), "
                    "-r1 |m - n|^r2, 0 < r2 <= 2", cases, kind="formula only")


def bias_fire():
    cases = []
    for index, (heads, hidden, length, c, threshold, epsilon) in enumerate([(2, 4, 5, 0.1, 2.0, 0.0), (1, 3, 4, 1.0, 512.0, 0.0),
                                                                            (2, 4, 6, 0.5, 3.0, 1e-6)]):
        seed = 1700 + 10 * index
        w1, b1 = random_floats(seed, hidden), random_floats(seed + 1, hidden)
        w2, b2 = random_floats(seed + 2, heads, hidden), random_floats(seed + 3, heads)
        exact = np.zeros((heads, length, length))
        ratio = np.zeros((length, length))
        for i in range(length):
            for j in range(i + 1):
                top = mpmath.log(mpf(c) * (i - j) + 1)
                bottom = mpmath.log(mpf(c) * max(mpf(threshold), mpf(i)) + 1) + mpf(epsilon)
                ratio[i, j] = float(top / bottom)
                h = np.maximum(w1.astype(float) * ratio[i, j] + b1.astype(float), 0)
                exact[:, i, j] = w2.astype(float) @ h + b2.astype(float)
        cases.append({"name": f"{heads} heads, hidden {hidden}, c {c:g}, threshold {threshold:g}, epsilon {epsilon:g}",
                      "parameters": {"c": c, "threshold": threshold, "epsilon": epsilon, "length": length},
                      "inputs": {"w1": tensor(w1), "b1": tensor(b1), "w2": tensor(w2), "b2": tensor(b2)}, "expected": {},
                      "exact": {"ratio": tensor(ratio), "bias": tensor(exact)}})
    return document("FIRE", "Li et al. 2023, arXiv 2310.04418", "", "equations (9) to (11): f(psi(i - j) / psi(max(L, i))), "
                    "psi(x) = ln(c x + 1), f = w2 relu(w1 x + b1) + b2", cases, kind="formula only",
                    note="Positions count from 0; i is the query, j <= i the key (entries above the diagonal are 0). The "
                         "paper's listing adds epsilon to the denominator.")


def bias_cope():
    from x_transformers.x_transformers import CoPE
    cases = []
    for index, (heads, tokens, dim, max_pos) in enumerate([(2, 5, 4, 8), (1, 7, 3, 3), (2, 1, 2, 4)]):
        seed = 1800 + 10 * index
        q, k = random_floats(seed, tokens, heads, dim), random_floats(seed + 1, tokens, heads, dim)
        table = random_floats(seed + 2, max_pos, dim)
        module = CoPE(dim, heads, max_pos)
        scale = dim ** -0.5
        mask = causal(tokens, tokens)
        tq, tk = (torch.from_numpy(x).transpose(0, 1)[None] for x in (q, k))
        logits = tq @ tk.transpose(-1, -2) * scale
        logits = logits.masked_fill(~torch.from_numpy(mask), -torch.finfo(torch.float32).max)
        with torch.no_grad():
            module.pos_emb.copy_(torch.from_numpy(table))
            got = module(tq, logits)[0]
        hq, hk = heads_first(q), heads_first(k)
        plain = hq @ hk.transpose(0, 2, 1) * scale
        gates = np.where(mask, 1 / (1 + np.exp(-plain)), 0.0)
        positions = np.zeros_like(gates)
        for j in range(tokens):
            positions[:, :, j] = gates[:, :, j:].sum(-1)
        positions = np.minimum(positions, max_pos - 1)
        low = np.floor(positions).astype(int)
        high = np.ceil(positions).astype(int)
        by_row = np.einsum("hqd,pd->hqp", hq, table.astype(float))
        pick = np.take_along_axis
        share = positions - low
        exact = pick(by_row, high, -1) * share + pick(by_row, low, -1) * (1 - share)
        distance = error(np.where(mask, got.numpy(), 0), np.where(mask, exact, 0))
        assert distance < 1e-5, distance
        cases.append({"name": f"{heads} heads of {dim}, {tokens} tokens, table of {max_pos}",
                      "parameters": {"scale": scale, "max_pos": max_pos, "causal": True},
                      "inputs": {"q": tensor(q), "k": tensor(k), "table": tensor(table)},
                      "expected": {"bias": tensor(torch.where(torch.from_numpy(mask), got, 0.0))},
                      "exact": {"bias": tensor(np.where(mask, exact, 0)), "position": tensor(np.where(mask, positions, 0))},
                      "source_error": distance})
    return document("CoPE", "x-transformers", version("x-transformers"), "CoPE.forward(query, attention logits)", cases,
                    note="Gates are the sigmoid of the scaled, masked scores; the position of a key is the sum of the gates "
                         "from it to the query, clamped to max_pos - 1; the bias interpolates q times the table's rows "
                         "(q unscaled). Entries above the diagonal are 0 here.")


FILES = {
    "bias_t5.json": bias_t5,
    "bias_t5_attention.json": bias_t5_attention,
    "bias_alibi_slopes.json": bias_alibi_slopes,
    "bias_alibi.json": bias_alibi,
    "bias_shaw.json": bias_shaw,
    "bias_transformer_xl.json": bias_transformer_xl,
    "bias_deberta_buckets.json": bias_deberta_buckets,
    "bias_deberta.json": bias_deberta,
    "bias_sandwich.json": bias_sandwich,
    "bias_kerple.json": bias_kerple,
    "bias_fire.json": bias_fire,
    "bias_cope.json": bias_cope,
}
