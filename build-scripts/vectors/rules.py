"""Door 2, the rules: a model's configuration (and a length) to inverse frequencies and attention factor.

`expected` holds the source's float32 inverse frequencies and its attention factor; `exact` the same formula in
50-digit arithmetic, rounded once to float64; `source_error` is the largest relative difference of a frequency.
"""

import math
import warnings
from importlib.metadata import version

import mpmath
import numpy as np
import transformers
from mpmath import mpf
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import yarn_apply_mscale
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi.modeling_phi import PhiRotaryEmbedding

from common import document, doubles, exact_inv_freq, tensor, to_numpy

VERSION = transformers.__version__
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def relative(source, exact):
    a, b = to_numpy(source).astype(np.float64), np.asarray(exact, dtype=np.float64)
    nonzero = b != 0
    assert (a[~nonzero] == 0).all()
    return float(np.max(np.abs(a[nonzero] / b[nonzero] - 1))) if nonzero.any() else 0.0


def config_of(head_dim, rope, max_positions=4096, cls=transformers.LlamaConfig, **more):
    return cls(hidden_size=2 * head_dim, num_attention_heads=2, num_key_value_heads=2, head_dim=head_dim,
               max_position_embeddings=max_positions, rope_parameters=dict(rope), **more)


def entry(name, parameters, source, source_factor, exact, exact_factor, tolerance=3e-6, **expected):
    assert abs(float(source_factor) - float(exact_factor)) < 1e-12, (name, source_factor, exact_factor)
    distance = relative(source, exact)
    assert distance < tolerance, (name, distance)  # the formula here and the running code are the same function
    return {
        "name": name,
        "parameters": parameters,
        "inputs": {},
        "expected": {"inv_freq": tensor(source), "attention_factor": float(source_factor), **expected},
        "exact": {"inv_freq": tensor(doubles(exact)), "attention_factor": float(exact_factor)},
        "source_error": distance,
    }


def rules_default():
    cases = []
    for head_dim, base, partial in [(8, 10000.0, 1.0), (64, 500000.0, 1.0), (128, 1000000.0, 1.0), (80, 10000.0, 0.4),
                                    (2, 10000.0, 1.0), (256, 10000000.0, 0.25)]:
        cls = transformers.PhiConfig if partial != 1.0 else transformers.LlamaConfig
        rope = {"rope_type": "default", "rope_theta": base}
        if partial != 1.0:
            rope["partial_rotary_factor"] = partial
        embedding = PhiRotaryEmbedding if partial != 1.0 else LlamaRotaryEmbedding
        module = embedding(config_of(head_dim, rope, cls=cls))
        rotary_dim = int(head_dim * partial)
        cases.append(entry(f"head width {head_dim}, base {base:g}, rotated {rotary_dim}",
                           {"head_dim": head_dim, "base": base, "partial_rotary_factor": partial,
                            "rotary_dim": rotary_dim},
                           module.inv_freq, module.attention_scaling, exact_inv_freq(base, rotary_dim), 1.0))
    return document("rule default", "transformers", VERSION,
                    "LlamaRotaryEmbedding.compute_default_rope_parameters, PhiRotaryEmbedding", cases)


def hf(kind, head_dim, rope, max_positions=4096, seq_len=None):
    config = config_of(head_dim, {"rope_type": kind, **rope}, max_positions)
    return ROPE_INIT_FUNCTIONS[kind](config, seq_len=seq_len)


def rules_linear():
    cases = []
    for head_dim, base, factor, partial in [(8, 10000.0, 4.0, 1.0), (16, 1000000.0, 8.0, 1.0), (8, 10000.0, 1.0, 1.0),
                                            (16, 10000.0, 2.5, 0.5)]:
        rope = {"rope_theta": base, "factor": factor}
        if partial != 1.0:
            rope["partial_rotary_factor"] = partial
        got, a = hf("linear", head_dim, rope)
        rotary_dim = int(head_dim * partial)
        exact = [f / mpf(factor) for f in exact_inv_freq(base, rotary_dim)]
        cases.append(entry(f"factor {factor:g}, rotated {rotary_dim} of {head_dim}",
                           {"head_dim": head_dim, "base": base, "factor": factor, "partial_rotary_factor": partial,
                            "rotary_dim": rotary_dim}, got, a, exact, 1.0))
    return document("rule linear", "transformers", VERSION, 'ROPE_INIT_FUNCTIONS["linear"]', cases)


def rules_ntk_static():
    import rotary_embedding_torch as ret
    from x_transformers.x_transformers import RotaryEmbedding
    cases = []
    for dim, factor in [(8, 2.0), (64, 8.0), (4, 1.5), (16, 1.0)]:
        got = ret.RotaryEmbedding(dim, theta_rescale_factor=factor).freqs.detach()
        other = RotaryEmbedding(dim, base_rescale_factor=factor).inv_freq
        base = mpf(10000) * mpf(factor) ** (mpf(dim) / (dim - 2))
        exact = exact_inv_freq(base, dim)
        cases.append(entry(f"width {dim}, factor {factor:g}",
                           {"base": 10000.0, "rotary_dim": dim, "factor": factor, "scaled_base": float(base)},
                           got, 1.0, exact, 1.0, x_transformers_inv_freq=tensor(other)))
    return document("rule NTK static", "rotary-embedding-torch and x-transformers",
                    f"{version('rotary-embedding-torch')}, {version('x-transformers')}",
                    "RotaryEmbedding(theta_rescale_factor=s).freqs; RotaryEmbedding(base_rescale_factor=s).inv_freq",
                    cases, note="base' = base * s^(d/(d-2)).")


def rules_dynamic_ntk():
    cases = []
    for head_dim, base, factor, trained, lengths in [(16, 10000.0, 2.0, 32, [None, 1, 31, 32, 33, 64, 127, 1000]),
                                                     (64, 500000.0, 4.0, 4096, [4096, 4097, 16384]),
                                                     (4, 10000.0, 1.0, 16, [16, 48])]:
        for length in lengths:
            got, a = hf("dynamic", head_dim, {"rope_theta": base, "factor": factor}, trained, length)
            n = max(length or trained, trained)
            scaled = mpf(base) * (mpf(factor) * n / trained - (mpf(factor) - 1)) ** (mpf(head_dim) / (head_dim - 2))
            cases.append(entry(f"width {head_dim}, factor {factor:g}, configured maximum {trained}, length "
                               f"{'not given' if length is None else length}",
                               {"base": base, "rotary_dim": head_dim, "factor": factor,
                                "max_position_embeddings": trained,
                                "length": trained if length is None else length, "scaled_base": float(scaled)},
                               got, a, exact_inv_freq(scaled, head_dim), 1.0))
    return document("rule dynamic NTK", "transformers", VERSION, 'ROPE_INIT_FUNCTIONS["dynamic"](config, seq_len=length)',
                    cases, note="base' = base * (s n / M - (s - 1))^(d/(d-2)) with n = max(length, M), M the configured "
                                "maximum (not an original maximum).")


def yarn_exact(dim, base, factor, original, beta_fast=32.0, beta_slow=1.0, truncate=True):
    base, factor, original = mpf(base), mpf(factor), mpf(original)

    def correction(rotations):
        return dim * mpmath.log(original / (mpf(rotations) * 2 * mpmath.pi)) / (2 * mpmath.log(base))

    low, high = correction(beta_fast), correction(beta_slow)
    if truncate:
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, mpf(0)), min(high, mpf(dim - 1))
    shown = (float(low), float(high))
    if low == high:
        high += mpf("0.001")
    out = []
    for i, f in enumerate(exact_inv_freq(base, dim)):
        ramp = min(max((i - low) / (high - low), mpf(0)), mpf(1))
        out.append(f / factor * ramp + f * (1 - ramp))
    return out, shown


def g(scale, m=1.0):
    return mpf(1) if scale <= 1 else mpf(m) * mpmath.log(mpf(scale)) / 10 + 1


def yarn_factor(factor, attention_factor=None, mscale=None, mscale_all_dim=None):
    if attention_factor is not None:
        return mpf(attention_factor)
    if mscale and mscale_all_dim:
        return g(factor, mscale) / g(factor, mscale_all_dim)
    return g(factor)


def rules_yarn():
    # name, rotary width, base, original maximum, configured maximum, rule keys
    table = [
        ("Qwen2.5 shape, factor 4", 128, 1000000.0, 32768, 131072, {"factor": 4.0}),
        ("small width", 16, 10000.0, 64, 256, {"factor": 4.0}),
        ("factor 1", 16, 10000.0, 64, 64, {"factor": 1.0}),
        ("factor below 1 has attention factor 1", 16, 10000.0, 64, 64, {"factor": 0.5}),
        ("gpt-oss: not truncated", 64, 150000.0, 4096, 131072, {"factor": 32.0, "truncate": False}),
        ("gpt-oss values truncated", 64, 150000.0, 4096, 131072, {"factor": 32.0, "truncate": True}),
        ("betas 64 and 2", 32, 10000.0, 2048, 16384, {"factor": 8.0, "beta_fast": 64.0, "beta_slow": 2.0}),
        ("beta 0 means its default", 32, 10000.0, 2048, 16384, {"factor": 8.0, "beta_fast": 0, "beta_slow": 0}),
        ("attention factor given", 32, 10000.0, 2048, 16384, {"factor": 8.0, "attention_factor": 0.7}),
        ("attention factor given as 1, mscales ignored", 32, 10000.0, 2048, 16384,
         {"factor": 8.0, "attention_factor": 1.0, "mscale": 0.707, "mscale_all_dim": 1.0}),
        ("DeepSeek-V2-Lite: mscale = mscale_all_dim = 0.707", 64, 10000.0, 4096, 163840,
         {"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707}),
        ("mscale 1, mscale_all_dim 0.8", 16, 10000.0, 4096, 163840, {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.8}),
        ("mscale alone is ignored", 16, 10000.0, 4096, 163840, {"factor": 40.0, "mscale": 0.707}),
        ("mscale_all_dim alone is ignored", 16, 10000.0, 4096, 163840, {"factor": 40.0, "mscale_all_dim": 0.707}),
        ("mscale_all_dim 0 is ignored", 16, 10000.0, 4096, 163840, {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.0}),
        ("factor null: configured over original maximum", 16, 10000.0, 1024, 6144, {"factor": None}),
        ("low equals high", 8, 10000.0, 400, 3200, {"factor": 8.0, "beta_fast": 1.0, "beta_slow": 1.0, "truncate": False}),
        ("high below low: nothing is interpolated", 8, 10000.0, 6, 48,
         {"factor": 8.0, "beta_fast": 1.0, "beta_slow": 1.0, "truncate": False}),
        ("range clipped at both ends", 8, 10.0, 1000000, 8000000, {"factor": 8.0}),
        ("whole range below 0", 8, 10000.0, 4, 32, {"factor": 8.0}),
        ("partial width 32 of 64", 64, 10000.0, 2048, 8192, {"factor": 4.0, "partial_rotary_factor": 0.5}),
    ]
    cases = []
    for name, head_dim, base, original, maximum, keys in table:
        rope = {"rope_theta": base, "original_max_position_embeddings": original, **keys}
        got, a = hf("yarn", head_dim, rope, maximum)
        factor = keys["factor"] if keys["factor"] is not None else maximum / original
        dim = int(head_dim * keys.get("partial_rotary_factor", 1.0))
        exact, (low, high) = yarn_exact(dim, base, factor, original, keys.get("beta_fast") or 32,
                                        keys.get("beta_slow") or 1, keys.get("truncate", True))
        exact_a = yarn_factor(factor, keys.get("attention_factor"), keys.get("mscale"), keys.get("mscale_all_dim"))
        cases.append(entry(name, {"head_dim": head_dim, "rotary_dim": dim, "base": base,
                                  "original_max_position_embeddings": original, "max_position_embeddings": maximum,
                                  **keys, "resolved_factor": factor, "low": low, "high": high},
                           got, a, exact, exact_a, tolerance=2e-5))
    return document("rule YaRN", "transformers", VERSION, 'ROPE_INIT_FUNCTIONS["yarn"]', cases,
                    note="low and high are the correction range after truncation and clipping to [0, d-1]; "
                         "a key that is absent or null was not given.")


def rules_yarn_softmax_scale():
    cases = []
    for dim, keys in [(192, {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}),
                      (192, {"rope_type": "yarn", "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707}),
                      (64, {"rope_type": "yarn", "factor": 1.0, "mscale_all_dim": 1.0}),
                      (64, {"rope_type": "yarn", "factor": 4.0}),
                      (64, {"rope_type": "yarn", "factor": 4.0, "mscale_all_dim": 0.0}),
                      (64, {"rope_type": "default", "factor": 4.0, "mscale_all_dim": 1.0})]:
        plain = dim ** -0.5
        got = yarn_apply_mscale(dict(keys), plain)
        m = keys.get("mscale_all_dim", 0)
        factor = g(keys["factor"], m) ** 2 if m and keys["rope_type"] != "default" else mpf(1)
        assert abs(got / plain - float(factor)) < 1e-12
        cases.append({"name": ", ".join(f"{k} {v}" for k, v in keys.items()),
                      "parameters": {"qk_head_dim": dim, **keys}, "inputs": {},
                      "expected": {"softmax_scale": got},
                      "exact": {"softmax_scale_factor": float(factor),
                                "softmax_scale": float(factor / mpmath.sqrt(dim))}})
    return document("YaRN softmax scale of the DeepSeek models", "transformers", VERSION,
                    "models.deepseek_v3.modeling_deepseek_v3.yarn_apply_mscale", cases,
                    note="The softmax scale is multiplied by g(s, mscale_all_dim)^2, apart from the attention factor.")


def rules_longrope():
    cases = []

    def add(name, dim, base, original, maximum, short, long, keys, lengths):
        for length in lengths:
            rope = {"rope_theta": base, "original_max_position_embeddings": original, "short_factor": short,
                    "long_factor": long, **keys}
            got, a = hf("longrope", dim, rope, maximum, length)
            factor = keys.get("factor") or maximum / original
            used = long if length and length > original else short
            exact = [f / mpf(x) for f, x in zip(exact_inv_freq(base, dim), used)]
            if keys.get("attention_factor") is not None:
                exact_a = mpf(keys["attention_factor"])
            else:
                exact_a = mpf(1) if factor <= 1 else mpmath.sqrt(1 + mpmath.log(mpf(factor)) / mpmath.log(mpf(original)))
            cases.append(entry(f"{name}, length {'not given' if length is None else length}",
                               {"rotary_dim": dim, "base": base, "original_max_position_embeddings": original,
                                "max_position_embeddings": maximum, "short_factor": short, "long_factor": long, **keys,
                                "resolved_factor": factor, "length": length},
                               got, a, exact, exact_a))

    short, long = [1.0, 1.05, 1.1, 1.25], [1.0, 1.5, 4.0, 24.5]
    add("Phi-3 ratio 32", 8, 10000.0, 4096, 131072, short, long, {}, [None, 1, 4095, 4096, 4097, 131072])
    add("factor given", 8, 10000.0, 64, 256, short, long, {"factor": 16.0}, [64, 65])
    add("attention factor given", 8, 10000.0, 64, 256, short, long, {"factor": 4.0, "attention_factor": 1.3}, [64, 65])
    add("no extension", 8, 10000.0, 64, 64, short, long, {}, [64, 65])
    # The model picks by the largest position of the forward + 1, not by the number of tokens.
    import torch
    config = config_of(8, {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 16,
                           "short_factor": short, "long_factor": long, "factor": 4.0}, 64)
    module = LlamaRotaryEmbedding(config)
    for positions in ([15], [16], [0, 1, 2]):
        module(torch.zeros(1), torch.tensor([positions]))
        used = long if max(positions) + 1 > 16 else short
        exact = [f / mpf(x) for f, x in zip(exact_inv_freq(10000, 8), used)]
        exact_a = mpmath.sqrt(1 + mpmath.log(mpf(4)) / mpmath.log(mpf(16)))
        cases.append(entry(f"model forward at positions {positions}",
                           {"rotary_dim": 8, "base": 10000.0, "original_max_position_embeddings": 16,
                            "max_position_embeddings": 64, "short_factor": short, "long_factor": long, "factor": 4.0,
                            "resolved_factor": 4.0, "length": max(positions) + 1},
                           module.inv_freq, module.attention_scaling, exact, exact_a))
    return document("rule LongRoPE", "transformers", VERSION,
                    'ROPE_INIT_FUNCTIONS["longrope"](config, seq_len=length); LlamaRotaryEmbedding.forward', cases,
                    note="Long factors when length > original maximum (strictly), else short. Attention factor "
                         "sqrt(1 + ln s / ln L) for s > 1, s = factor or configured over original maximum.")


def llama3_exact(dim, base, factor, low, high, original):
    out = []
    for f in exact_inv_freq(base, dim):
        wavelength = 2 * mpmath.pi / f
        if wavelength < mpf(original) / mpf(high):
            out.append(f)
        elif wavelength > mpf(original) / mpf(low):
            out.append(f / mpf(factor))
        else:
            t = (original / wavelength - mpf(low)) / (mpf(high) - mpf(low))
            out.append((1 - t) * f / mpf(factor) + t * f)
    return out


def rules_llama3():
    cases = []
    for name, dim, base, keys in [
        ("Llama 3.1", 128, 500000.0, {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                      "original_max_position_embeddings": 8192}),
        ("Llama 3.2", 64, 500000.0, {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                     "original_max_position_embeddings": 8192}),
        ("factor 1", 16, 10000.0, {"factor": 1.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                   "original_max_position_embeddings": 64}),
        ("small", 16, 10000.0, {"factor": 4.0, "low_freq_factor": 0.5, "high_freq_factor": 3.0,
                                "original_max_position_embeddings": 100}),
        ("Llama 4: low equals high", 32, 500000.0, {"factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
                                                    "original_max_position_embeddings": 8192}),
    ]:
        got, a = hf("llama3", dim, {"rope_theta": base, **keys}, 131072)
        exact = llama3_exact(dim, base, keys["factor"], keys["low_freq_factor"], keys["high_freq_factor"],
                             keys["original_max_position_embeddings"])
        cases.append(entry(name, {"rotary_dim": dim, "base": base, **keys}, got, a, exact, 1.0, tolerance=1e-5))
    got, a = hf("llama3", 32, {"rope_theta": 10000.0, "partial_rotary_factor": 0.5, "factor": 8.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0, "original_max_position_embeddings": 512}, 4096)
    cases.append(entry("partial width 16 of 32", {"head_dim": 32, "rotary_dim": 16, "partial_rotary_factor": 0.5,
                                                  "base": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                                  "high_freq_factor": 4.0, "original_max_position_embeddings": 512},
                       got, a, llama3_exact(16, 10000.0, 8.0, 1.0, 4.0, 512), 1.0, tolerance=1e-5))
    return document("rule Llama 3", "transformers", VERSION, 'ROPE_INIT_FUNCTIONS["llama3"]', cases)


def rules_proportional():
    cases = []
    for name, dim, base, keys in [
        ("Gemma 4 global layers, a quarter rotated", 256, 1000000.0, {"partial_rotary_factor": 0.25}),
        ("half of 8", 8, 10000.0, {"partial_rotary_factor": 0.5}),
        ("0.3 of 10: int(3.0 // 2) = 1 pair", 10, 10000.0, {"partial_rotary_factor": 0.3}),
        ("factor 4", 8, 10000.0, {"partial_rotary_factor": 0.5, "factor": 4.0}),
        ("all", 8, 10000.0, {"partial_rotary_factor": 1.0}),
        ("none", 8, 10000.0, {"partial_rotary_factor": 0.0}),
    ]:
        got, a = hf("proportional", dim, {"rope_theta": base, **keys})
        pairs = int(keys["partial_rotary_factor"] * dim // 2)
        exact = [f / mpf(keys.get("factor", 1.0)) if i < pairs else mpf(0)
                 for i, f in enumerate(exact_inv_freq(base, dim))]
        cases.append(entry(name, {"head_dim": dim, "base": base, "factor": keys.get("factor", 1.0),
                                  "partial_rotary_factor": keys["partial_rotary_factor"], "rotated_pairs": pairs},
                           got, a, exact, 1.0))
    return document("rule proportional (p-RoPE)", "transformers", VERSION, 'ROPE_INIT_FUNCTIONS["proportional"]', cases,
                    note="All head_dim/2 pairs take part, half-split over the whole head; pairs from "
                         "int(p * head_dim // 2) on have frequency 0. The exponent's denominator is head_dim.")


FILES = {
    "rules_default.json": rules_default,
    "rules_linear.json": rules_linear,
    "rules_ntk_static.json": rules_ntk_static,
    "rules_dynamic_ntk.json": rules_dynamic_ntk,
    "rules_yarn.json": rules_yarn,
    "rules_yarn_softmax_scale.json": rules_yarn_softmax_scale,
    "rules_longrope.json": rules_longrope,
    "rules_llama3.json": rules_llama3,
    "rules_proportional.json": rules_proportional,
}
