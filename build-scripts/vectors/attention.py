"""Attention itself: PyTorch's scaled_dot_product_attention in float64, soft cap, learned sinks, masks, and onnxruntime's
GroupQueryAttention with rotary and cache.

q [queries, heads, dim], k [keys, kv_heads, dim], v [keys, kv_heads, value_dim], output [queries, heads, value_dim]; query
head h reads kv head h // (heads / kv_heads). `visible` [queries, keys] is 1 where a query may see a key.
"""

import math
import types
import warnings
from importlib.metadata import version

import mpmath
import numpy as np
import torch
import transformers
from transformers import masking_utils
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss

from common import document, error, exact_inv_freq, exact_rotation, angles_of, random_floats, tensor

VERSION = transformers.__version__
TORCH = torch.__version__.split("+")[0]


def mask_of(kind, queries, keys, window=None, prefix=None, segments=None, chunk=None):
    q = np.arange(keys - queries, keys)[:, None]  # a query's index among the keys: queries end the sequence
    k = np.arange(keys)[None]
    seen = np.ones((queries, keys), bool)
    if kind != "none":
        seen &= k <= q
    if window is not None:
        seen &= q - k < window
    if chunk is not None:
        seen &= q // chunk == k // chunk
    if prefix is not None:
        seen |= (k < prefix) & (np.ones_like(q) > 0)
    if segments is not None:
        s = np.array(segments)
        seen &= s[keys - queries:][:, None] == s[None]
    return seen


def exact_attention(q, k, v, seen, scale, bias=None, softcap=None, sinks=None):
    """float64, one row at a time."""
    queries, heads, _ = q.shape
    keys, kv_heads, _ = k.shape
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    weights = np.zeros((heads, queries, keys))
    for h in range(heads):
        for t in range(queries):
            index = np.nonzero(seen[t])[0]
            if not len(index):
                continue
            s = k[index, h * kv_heads // heads] @ q[t, h] * scale
            if softcap is not None:
                s = softcap * np.tanh(s / softcap)
            if bias is not None:
                s = s + bias[h, t, index]
            top = s.max() if sinks is None else max(s.max(), sinks[h])
            e = np.exp(s - top)
            weights[h, t, index] = e / (e.sum() + (0 if sinks is None else math.exp(sinks[h] - top)))
    output = np.stack([weights[h] @ v[:, h * kv_heads // heads] for h in range(heads)], 1)
    return weights, output


def to_model(x):
    return torch.from_numpy(np.asarray(x)).transpose(0, 1)[None]


def sdpa(q, k, v, seen, scale, bias=None, dtype=torch.float64):
    mask = torch.from_numpy(seen)[None, None]
    if bias is not None:
        mask = torch.from_numpy(np.where(seen, bias, -np.inf))[None].to(dtype)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        out = torch.nn.functional.scaled_dot_product_attention(
            *(to_model(x).to(dtype) for x in (q, k, v)), attn_mask=mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return out[0].transpose(0, 1).contiguous().numpy()


def attention_sdpa():
    cases = []
    shapes = [
        # name, heads, kv_heads, dim, value_dim, queries, keys, mask arguments
        ("one token", 1, 1, 1, 1, 1, 1, dict(kind="causal")),
        ("bidirectional", 2, 2, 4, 4, 5, 5, dict(kind="none")),
        ("causal", 2, 2, 4, 4, 7, 7, dict(kind="causal")),
        ("grouped queries, causal", 4, 2, 8, 8, 6, 6, dict(kind="causal")),
        ("one kv head, causal", 3, 1, 5, 5, 5, 5, dict(kind="causal")),
        ("bottom-right: 2 queries, 5 keys", 2, 1, 4, 4, 2, 5, dict(kind="causal")),
        ("one query, 17 keys", 4, 2, 4, 4, 1, 17, dict(kind="causal")),
        ("more queries than keys: the first rows see nothing", 1, 1, 4, 4, 5, 2, dict(kind="causal")),
        ("value width differs", 2, 1, 6, 3, 4, 4, dict(kind="causal")),
        ("15", 1, 1, 3, 3, 15, 15, dict(kind="causal")),
        ("16", 1, 1, 4, 4, 16, 16, dict(kind="causal")),
        ("17", 2, 1, 3, 3, 17, 17, dict(kind="causal")),
        ("65", 1, 1, 4, 4, 65, 65, dict(kind="causal")),
        ("head width 65", 1, 1, 65, 65, 3, 3, dict(kind="causal")),
        ("window of 3, own token included", 2, 2, 4, 4, 8, 8, dict(kind="causal", window=3)),
        ("window of 1", 1, 1, 4, 4, 4, 4, dict(kind="causal", window=1)),
        ("window of 4, 3 queries at the end of 9 keys", 2, 1, 4, 4, 3, 9, dict(kind="causal", window=4)),
        ("chunks of 3", 1, 1, 4, 4, 8, 8, dict(kind="causal", chunk=3)),
        ("prefix of 3", 2, 1, 4, 4, 6, 6, dict(kind="causal", prefix=3)),
        ("three packed documents", 2, 1, 4, 4, 7, 7, dict(kind="causal", segments=[0, 0, 0, 1, 2, 2, 2])),
        ("packed documents with a window of 2", 1, 1, 4, 4, 7, 7, dict(kind="causal", segments=[0, 0, 0, 1, 2, 2, 2], window=2)),
    ]
    for index, (name, heads, kv_heads, dim, value_dim, queries, keys, rule) in enumerate(shapes):
        seed = 2000 + 10 * index
        q, k = random_floats(seed, queries, heads, dim), random_floats(seed + 1, keys, kv_heads, dim)
        v = random_floats(seed + 2, keys, kv_heads, value_dim)
        seen = mask_of(queries=queries, keys=keys, **rule)
        cases.append(sdpa_case(name, q, k, v, seen, dim ** -0.5, {"mask": rule}))
    # A mask that follows no rule, one row of it empty.
    rng = np.random.default_rng(7)
    seen = rng.random((6, 9)) < 0.5
    seen[2] = False
    seen[3, :] = True
    q, k, v = random_floats(2300, 6, 2, 4), random_floats(2301, 9, 2, 4), random_floats(2302, 9, 2, 4)
    cases.append(sdpa_case("explicit mask, one row empty", q, k, v, seen, 0.5, {"mask": {"kind": "explicit"}}))
    # A bias for each head (ALiBi, 3 heads), and an explicit matrix.
    q, k, v = (random_floats(2310 + i, 5, 3, 4) for i in range(3))
    slopes = np.array([2.0 ** -4, 2.0 ** -8, 2.0 ** -2])
    bias = slopes[:, None, None] * (np.arange(5)[None] - np.arange(5)[:, None])[None]
    cases.append(sdpa_case("ALiBi, 3 heads", q, k, v, mask_of("causal", 5, 5), 0.5, {"mask": {"kind": "causal"}}, bias))
    bias = random_floats(2320, 3, 5, 5).astype(np.float64)
    cases.append(sdpa_case("a bias matrix for each head, bidirectional", q, k, v, mask_of("none", 5, 5), 0.5,
                           {"mask": {"kind": "none"}}, bias))
    # Extreme scores.
    q, k, v = random_floats(2330, 5, 1, 4), random_floats(2331, 5, 1, 4), random_floats(2332, 5, 1, 4)
    cases.append(sdpa_case("scores about 1e4", q * 64, k * 64, v, mask_of("causal", 5, 5), 1.0, {"mask": {"kind": "causal"}}))
    cases.append(sdpa_case("all scores equal", np.zeros_like(q), k, v, mask_of("causal", 5, 5), 1.0, {"mask": {"kind": "causal"}}))
    cases.append(sdpa_case("scale 0", q, k, v, mask_of("causal", 5, 5), 0.0, {"mask": {"kind": "causal"}}))
    return document("scaled dot-product attention", "torch", TORCH,
                    "torch.nn.functional.scaled_dot_product_attention in float64, mathematical backend, explicit mask", cases,
                    note="expected.output is float64; float32_error is how far the same call in float32 is off. Rows that see "
                         "nothing are zeros. In the mask rule, window counts the own token, prefix keys are seen by all, "
                         "queries are the last ones of the sequence of keys. bias [heads, queries, keys] is added to scores.")


def sdpa_case(name, q, k, v, seen, scale, parameters, bias=None):
    got = sdpa(q, k, v, seen, scale, bias)
    weights, exact = exact_attention(q, k, v, seen, scale, bias)
    empty = ~seen.any(1)
    if not np.isfinite(got[empty]).all() or empty.any():
        got[empty] = 0.0
    assert error(got, exact) < 1e-12, (name, error(got, exact))
    narrow = sdpa(q, k, v, seen, scale, bias, torch.float32)
    inputs = {"q": tensor(q), "k": tensor(k), "v": tensor(v), "visible": tensor(seen.astype(np.uint8))}
    if bias is not None:
        inputs["bias"] = tensor(np.asarray(bias, dtype=np.float64))
    return {"name": name, "parameters": {"scale": scale, "heads": q.shape[1], "kv_heads": k.shape[1], **parameters},
            "inputs": inputs, "expected": {"output": tensor(got)}, "float32_error": error(narrow[~empty], exact[~empty])}


def eager_case(name, module, forward, q, k, v, seen, scale, parameters, extra_inputs, **keys):
    mask = torch.from_numpy(np.where(seen, 0.0, float("-inf")))[None, None]
    with torch.no_grad():
        out, weights = forward(module, *(to_model(x).double() for x in (q, k, v)), mask, scaling=scale,
                               **{a: b for a, b in keys.items() if a == "softcap"})
    out, weights = out[0].numpy(), weights[0].numpy()
    exact_weights, exact = exact_attention(q, k, v, seen, scale, **keys)
    distance = max(error(out, exact), error(weights, exact_weights))
    assert distance < 1e-6, (name, distance)
    return {"name": name, "parameters": {"scale": scale, "heads": q.shape[1], "kv_heads": k.shape[1], **parameters},
            "inputs": {"q": tensor(q), "k": tensor(k), "v": tensor(v), "visible": tensor(seen.astype(np.uint8)), **extra_inputs},
            "expected": {"output": tensor(out), "weights": tensor(weights)},
            "exact": {"output": tensor(exact), "weights": tensor(exact_weights)}, "source_error": distance}


def attention_softcap():
    cases = []
    for index, (heads, kv_heads, queries, keys, cap, size) in enumerate([(2, 1, 5, 5, 50.0, 1), (2, 2, 3, 6, 2.0, 4), (1, 1, 1, 4, 0.5, 8)]):
        seed = 2400 + 10 * index
        q, k = random_floats(seed, queries, heads, 4, scale=size), random_floats(seed + 1, keys, kv_heads, 4)
        v = random_floats(seed + 2, keys, kv_heads, 4)
        module = types.SimpleNamespace(num_key_value_groups=heads // kv_heads, head_dim=4, training=False)
        cases.append(eager_case(f"cap {cap:g}, {queries} queries, {keys} keys", module, modeling_gemma2.eager_attention_forward,
                                q, k, v, mask_of("causal", queries, keys), 0.5, {"softcap": cap, "mask": {"kind": "causal"}}, {},
                                softcap=cap))
    return document("soft cap", "transformers", VERSION, "models.gemma2.modeling_gemma2.eager_attention_forward", cases,
                    note="Scores become cap * tanh(score / cap), before the mask.")


def attention_sinks():
    cases = []
    for index, (heads, kv_heads, queries, keys, window, sinks) in enumerate([
            (2, 1, 5, 5, None, [0.5, -1.0]), (4, 2, 2, 6, 3, [3.0, 0.0, -4.0, 20.0]), (1, 1, 1, 1, None, [0.0])]):
        seed = 2500 + 10 * index
        q, k = random_floats(seed, queries, heads, 4), random_floats(seed + 1, keys, kv_heads, 4)
        v = random_floats(seed + 2, keys, kv_heads, 4)
        module = types.SimpleNamespace(num_key_value_groups=heads // kv_heads, training=False,
                                       sinks=torch.tensor(sinks, dtype=torch.float64))
        cases.append(eager_case(f"{heads} heads, {queries} queries, {keys} keys" + (f", window {window}" if window else ""), module,
                                modeling_gpt_oss.eager_attention_forward, q, k, v,
                                mask_of("causal", queries, keys, window), 0.5,
                                {"mask": {"kind": "causal", "window": window}}, {"sinks": tensor(np.array(sinks))}, sinks=sinks))
    return document("learned sinks", "transformers", VERSION, "models.gpt_oss.modeling_gpt_oss.eager_attention_forward", cases,
                    note="One learned score a head joins the softmax's denominator and adds no value: weights sum to less "
                         "than 1.")


def masks():
    cases = []

    def add(name, parameters, function, queries, keys, q_offset=0, kv_offset=0, padding=None, batch=1, inputs=None):
        got = masking_utils.sdpa_mask(batch, queries, keys, q_offset, kv_offset, function,
                                      None if padding is None else torch.tensor(padding).bool(), allow_is_causal_skip=False)
        cases.append({"name": name, "parameters": {"queries": queries, "keys": keys, "query_start": q_offset,
                                                   "key_start": kv_offset, **parameters},
                      "inputs": {**({} if padding is None else {"attention_mask": tensor(np.array(padding))}), **(inputs or {})},
                      "expected": {"visible": tensor(got[:, 0].numpy().astype(np.uint8))}})

    c = masking_utils.causal_mask_function
    add("causal, 4", {"kind": "causal"}, c, 4, 4)
    add("causal, 2 queries after 3", {"kind": "causal"}, c, 2, 5, 3)
    add("causal, left and right padding", {"kind": "causal"}, c, 4, 4, padding=[[0, 0, 1, 1], [1, 1, 1, 0]], batch=2)
    add("causal, 1 query after 4, left padding", {"kind": "causal"}, c, 1, 5, 4, padding=[[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], batch=2)
    add("causal, mixed padding", {"kind": "causal"}, c, 6, 6, padding=[[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], batch=2)
    for window in (1, 4):
        f = masking_utils.sliding_window_causal_mask_function(window)
        add(f"window {window}", {"kind": "window", "window": window}, f, 6, 6)
        add(f"window {window}, 3 queries after 10", {"kind": "window", "window": window}, f, 3, 13, 10)
    add("window 4, keys from 7 on", {"kind": "window", "window": 4}, masking_utils.sliding_window_causal_mask_function(4), 1, 4, 10, 7)
    add("window 8, chunk of 20 after 10", {"kind": "window", "window": 8}, masking_utils.sliding_window_causal_mask_function(8), 20, 30, 10)
    add("bidirectional window 2", {"kind": "bidirectional window", "window": 2},
        masking_utils.sliding_window_bidirectional_mask_function(2), 6, 6)
    add("bidirectional, right padding", {"kind": "bidirectional"}, masking_utils.bidirectional_mask_function, 3, 3,
        padding=[[1, 1, 0]])
    for left in ([0], [1]):
        add(f"chunks of 3, left padding {left[0]}", {"kind": "chunked", "chunk": 3, "left_padding": left},
            masking_utils.chunked_causal_mask_function(3, torch.tensor(left)), 7, 7, padding=[[0] * left[0] + [1] * (7 - left[0])])
    ids = [[0, 1, 2, 0, 0, 1, 2]]
    packed = masking_utils.find_packed_sequence_indices(torch.tensor(ids))
    add("packed", {"kind": "packed"}, masking_utils.and_masks(c, masking_utils.packed_sequence_mask_function(packed)), 7, 7,
        inputs={"position_ids": tensor(np.array(ids))})
    blocks = [[-1, 0, 0, 0, -1, 1, 1]]
    add("causal with bidirectional blocks", {"kind": "blocks"},
        masking_utils.or_masks(c, masking_utils.blockwise_overlay(torch.tensor(blocks))), 7, 7,
        inputs={"block_ids": tensor(np.array(blocks))})
    return document("who may see whom", "transformers", VERSION,
                    "masking_utils.sdpa_mask with causal_mask_function, sliding_window_causal_mask_function, "
                    "sliding_window_bidirectional_mask_function, chunked_causal_mask_function, packed_sequence_mask_function, "
                    "blockwise_overlay", cases,
                    note="visible is [batch, queries, keys]. A window counts the own token; the bidirectional one is |q - k| <= "
                         "window. Padded queries keep their row; padded keys are hidden.")


# --- onnxruntime -----------------------------------------------------------------------------------------------------

class GroupQuery:
    """com.microsoft GroupQueryAttention as a one-node model on the CPU."""

    def __init__(self, heads, kv_heads, dim, rotary, interleaved=0, window=-1, softcap=0.0, scale=None, positions=64, base=10000.0):
        import onnx
        import onnxruntime
        from onnx import TensorProto as T, helper
        self.kv_heads, self.dim = kv_heads, dim
        attributes = dict(num_heads=heads, kv_num_heads=kv_heads, do_rotary=int(rotary), rotary_interleaved=interleaved,
                          local_window_size=window, softcap=softcap)
        if scale is not None:
            attributes["scale"] = scale
        names = ["query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"]
        types_ = [T.FLOAT] * 5 + [T.INT32] * 2
        shapes = [["b", "s", heads * dim], ["b", "s", kv_heads * dim], ["b", "s", kv_heads * dim], ["b", kv_heads, "p", dim],
                  ["b", kv_heads, "p", dim], ["b"], []]
        if rotary:
            names += ["cos_cache", "sin_cache"]
            types_ += [T.FLOAT] * 2
            shapes += [["m", "h"]] * 2
        node = helper.make_node("GroupQueryAttention", names, ["output", "present_key", "present_value"], domain="com.microsoft",
                                **attributes)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, t, s) for n, t, s in zip(names, types_, shapes)],
                                  [helper.make_tensor_value_info("output", T.FLOAT, ["b", "s", heads * dim]),
                                   helper.make_tensor_value_info("present_key", T.FLOAT, ["b", kv_heads, "t", dim]),
                                   helper.make_tensor_value_info("present_value", T.FLOAT, ["b", kv_heads, "t", dim])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
        model.ir_version = 9
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.tables = {}
        if rotary:
            ladder = exact_inv_freq(base, dim)
            angle = [[p * f for f in ladder] for p in range(positions)]
            self.tables = {"cos_cache": np.array([[float(mpmath.cos(a)) for a in row] for row in angle], np.float32),
                           "sin_cache": np.array([[float(mpmath.sin(a)) for a in row] for row in angle], np.float32)}

    def __call__(self, q, k, v, past=None, total=None):
        """q, k, v [batch, tokens, heads, dim]; past is a pair [batch, kv_heads, rows, dim]."""
        batch, tokens = q.shape[:2]
        if past is None:
            past = (np.zeros((batch, self.kv_heads, 0, self.dim), np.float32),) * 2
        total = [past[0].shape[2] + tokens] * batch if total is None else total
        feed = {"query": q.reshape(batch, tokens, -1), "key": k.reshape(batch, tokens, -1), "value": v.reshape(batch, tokens, -1),
                "past_key": past[0], "past_value": past[1], "seqlens_k": np.array([t - 1 for t in total], np.int32),
                "total_sequence_length": np.array(max(total), np.int32), **self.tables}
        out, present_k, present_v = self.session.run(None, feed)
        return out.reshape(q.shape), (present_k, present_v)


def attention_onnxruntime():
    import onnxruntime
    cases = []
    setups = [
        ("half-split rotary, grouped", dict(heads=4, kv_heads=2, dim=16, rotary=True), [5, 1, 1]),
        ("interleaved rotary, one kv head", dict(heads=2, kv_heads=1, dim=16, rotary=True, interleaved=1), [3, 1]),
        ("no rotary", dict(heads=2, kv_heads=2, dim=16, rotary=False), [4, 1]),
        ("local window 3", dict(heads=2, kv_heads=1, dim=16, rotary=True, window=3), [6, 1, 1]),
        ("soft cap 1.5", dict(heads=2, kv_heads=1, dim=16, rotary=True, softcap=1.5), [4, 1]),
        ("scale 0.3", dict(heads=2, kv_heads=2, dim=16, rotary=True, scale=0.3), [17]),
        ("second chunk of 4 after 3", dict(heads=2, kv_heads=1, dim=16, rotary=True), [3, 4]),
    ]
    for index, (name, keys, steps) in enumerate(setups):
        op = GroupQuery(**keys)
        heads, kv_heads, dim = keys["heads"], keys["kv_heads"], keys["dim"]
        scale = keys.get("scale", dim ** -0.5)
        count = sum(steps)
        q, k, v = (random_floats(2600 + 10 * index + i, count, h, dim) for i, h in enumerate((heads, kv_heads, kv_heads)))
        past, outputs, start = None, [], 0
        for n in steps:
            out, past = op(*(x[None, start:start + n] for x in (q, k, v)), past=past)
            outputs.append(out[0])
            start += n
        got = np.concatenate(outputs)
        pairing = "interleaved" if keys.get("interleaved") else "half-split"
        rq, rk = q.astype(float), k.astype(float)
        if keys["rotary"]:
            angles = angles_of(range(count), exact_inv_freq(10000, dim))
            rq, rk = exact_rotation(q, angles, pairing), exact_rotation(k, angles, pairing)
        # onnxruntime's local_window_size counts the own token on the CPU; checked here rather than assumed.
        seen = mask_of("causal", count, count, keys.get("window"))
        _, exact = exact_attention(rq, rk, v, seen, scale, softcap=keys.get("softcap"))
        distance = error(got, exact)
        assert distance < 1e-5, (name, distance)
        assert error(past[0][0].transpose(1, 0, 2), rk) < 1e-6
        cases.append({"name": name, "parameters": {
            "heads": heads, "kv_heads": kv_heads, "head_dim": dim, "scale": scale, "rotary": keys["rotary"],
            "pairing": pairing, "base": 10000.0, "window": keys.get("window"), "softcap": keys.get("softcap"), "steps": steps},
            "inputs": {"q": tensor(q), "k": tensor(k), "v": tensor(v)},
            "expected": {"output": tensor(got), "cached_keys": tensor(np.ascontiguousarray(past[0][0].transpose(1, 0, 2)))},
            "exact": {"output": tensor(exact)}, "source_error": distance})
    # Rows of unequal length: a right-padded first step, then one token for each row at its own position.
    heads, kv_heads, dim, lengths = 2, 1, 16, [5, 3]
    op = GroupQuery(heads, kv_heads, dim, True)
    width = max(lengths)
    first = [random_floats(2700 + i, 2, width, h, dim) for i, h in enumerate((heads, kv_heads, kv_heads))]
    out, past = op(*first, total=lengths)
    room = [np.concatenate([p, np.zeros((2, kv_heads, 1, dim), np.float32)], 2) for p in past]
    step = [random_floats(2710 + i, 2, 1, h, dim) for i, h in enumerate((heads, kv_heads, kv_heads))]
    out2, _ = op(*step, past=tuple(past), total=[n + 1 for n in lengths])
    exact, exact2 = np.zeros((2, width, heads, dim)), np.zeros((2, 1, heads, dim))
    for b, n in enumerate(lengths):
        q = np.concatenate([first[0][b, :n], step[0][b]])
        k = np.concatenate([first[1][b, :n], step[1][b]])
        v = np.concatenate([first[2][b, :n], step[2][b]])
        angles = angles_of(range(n + 1), exact_inv_freq(10000, dim))
        _, whole = exact_attention(exact_rotation(q, angles, "half-split"), exact_rotation(k, angles, "half-split"), v,
                                   mask_of("causal", n + 1, n + 1), dim ** -0.5)
        exact[b, :n], exact2[b, 0] = whole[:n], whole[n]
        assert error(out[b, :n], exact[b, :n]) < 1e-5 and error(out2[b], exact2[b]) < 1e-5, (b, error(out2[b], exact2[b]))
    valid = np.array([[t < n for t in range(width)] for n in lengths])
    out = np.where(valid[:, :, None, None], out, 0).astype(np.float32)
    cases.append({"name": "rows of 5 and 3 tokens, then one token each", "parameters": {
        "heads": heads, "kv_heads": kv_heads, "head_dim": dim, "scale": dim ** -0.5, "rotary": True, "pairing": "half-split",
        "base": 10000.0, "lengths": lengths},
        "inputs": {**{f"first_{n}": tensor(x) for n, x in zip("qkv", first)}, **{f"next_{n}": tensor(x) for n, x in zip("qkv", step)}},
        "expected": {"first_output": tensor(out), "next_output": tensor(out2)},
        "exact": {"first_output": tensor(exact), "next_output": tensor(exact2)},
        "source_error": max(error(out, exact), error(out2, exact2))})
    return document("grouped-query attention with rotary and cache", "onnxruntime", onnxruntime.__version__,
                    "com.microsoft GroupQueryAttention, CPU, float32, fed in the given steps", cases,
                    note="Keys are rotated when they enter the cache. window counts the own token. In the batch case, padding "
                         "of the first step is set to 0; row b's next token stands at position lengths[b].")


FILES = {
    "attention_sdpa.json": attention_sdpa,
    "attention_softcap.json": attention_softcap,
    "attention_sinks.json": attention_sinks,
    "masks.json": masks,
    "attention_onnxruntime.json": attention_onnxruntime,
}
