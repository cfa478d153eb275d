"""Door 2, the rotation itself: pairings, partial width, attention factor, MLA's decoupled part, xPos, weight permutation.

Inputs q and k are [tokens, heads, head_dim]. `expected` is what the source computed in float32; `exact` is the same
rotation with angles position * theta^(-2i/d) from 50-digit arithmetic and float64 multiplications; `source_error` is
the largest difference between the two over q and k.
"""

import mpmath
import numpy as np
import torch
import transformers
from transformers.models.cohere import modeling_cohere
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.glm import modeling_glm
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from transformers.models.phi import modeling_phi

from common import (angles_of, document, error, exact_inv_freq, exact_rotation, random_floats, tensor)

VERSION = transformers.__version__


def batch(x):
    """[tokens, heads, dim] -> [1, heads, tokens, dim], the layout of the models."""
    return torch.from_numpy(np.asarray(x)).transpose(0, 1)[None]


def unbatch(x):
    return x[0].transpose(0, 1).contiguous().numpy()


def case(name, parameters, positions, q, k, out_q, out_k, exact_q, exact_k, **extra):
    return {
        "name": name,
        "parameters": parameters,
        "inputs": {"positions": tensor(np.array(positions, dtype=np.int64)), "q": tensor(q), "k": tensor(k)},
        "expected": {"q": tensor(out_q), "k": tensor(out_k)},
        "exact": {"q": tensor(exact_q), "k": tensor(exact_k)},
        "source_error": max(error(out_q, exact_q), error(out_k, exact_k)),
        **extra,
    }


# name, q heads, kv heads, head_dim, base, positions
SHAPES = [
    ("width 8 from position 0", 2, 1, 8, 10000.0, [0, 1, 2, 7, 100]),
    ("width 2, one pair", 1, 1, 2, 10000.0, [0, 1, 3, 6]),
    ("width 6, base 100, repeated and falling positions", 3, 3, 6, 100.0, [5, 5, 4, 0]),
    ("width 16, base 500000, far positions", 2, 2, 16, 500000.0, [4095, 131071, 1000003]),
    ("width 64", 1, 1, 64, 10000.0, [3, 2048]),
    ("width 8, the last int32 position", 1, 1, 8, 10000.0, [2147483646, 2147483647]),
]


def rotary_half_split():
    cases = []
    for index, (name, heads, kv_heads, dim, base, positions) in enumerate(SHAPES):
        config = transformers.LlamaConfig(
            hidden_size=heads * dim, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=dim,
            rope_parameters={"rope_type": "default", "rope_theta": base})
        q = random_floats(100 + index, len(positions), heads, dim)
        k = random_floats(200 + index, len(positions), kv_heads, dim)
        cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(torch.zeros(1), torch.tensor([positions]))
        out_q, out_k = map(unbatch, modeling_llama.apply_rotary_pos_emb(batch(q), batch(k), cos, sin))
        angles = angles_of(positions, exact_inv_freq(base, dim))
        cases.append(case(name, {"base": base, "rotary_dim": dim, "rotary_start": 0, "pairing": "half-split",
                                 "attention_factor": 1.0}, positions, q, k, out_q, out_k,
                          exact_rotation(q, angles, "half-split"), exact_rotation(k, angles, "half-split")))
    # An attention factor other than 1 multiplies both cosine and sine.
    dim, base, positions = 8, 10000.0, [0, 1, 9]
    config = transformers.LlamaConfig(
        hidden_size=dim, num_attention_heads=1, head_dim=dim, max_position_embeddings=64,
        rope_parameters={"rope_type": "yarn", "rope_theta": base, "factor": 1.0, "attention_factor": 1.25,
                         "original_max_position_embeddings": 64})
    q, k = random_floats(190, 3, 1, dim), random_floats(191, 3, 1, dim)
    cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(torch.zeros(1), torch.tensor([positions]))
    out_q, out_k = map(unbatch, modeling_llama.apply_rotary_pos_emb(batch(q), batch(k), cos, sin))
    angles = angles_of(positions, exact_inv_freq(base, dim))
    cases.append(case("attention factor 1.25", {"base": base, "rotary_dim": dim, "rotary_start": 0,
                                                "pairing": "half-split", "attention_factor": 1.25},
                      positions, q, k, out_q, out_k,
                      exact_rotation(q, angles, "half-split", 1.25), exact_rotation(k, angles, "half-split", 1.25)))
    return document(
        "rotary, half-split pairing", "transformers", VERSION,
        "models.llama.modeling_llama: LlamaRotaryEmbedding.forward, apply_rotary_pos_emb", cases,
        note="Pair i is (x[i], x[i + d/2]). The source forms angles in float32; at far positions use exact.")


def rotary_interleaved():
    cases = []
    for index, (name, heads, kv_heads, dim, base, positions) in enumerate(SHAPES):
        q = random_floats(300 + index, len(positions), heads, dim)
        k = random_floats(400 + index, len(positions), kv_heads, dim)
        config = transformers.CohereConfig(
            hidden_size=heads * dim, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=dim,
            rope_parameters={"rope_type": "default", "rope_theta": base})
        cos, sin = modeling_cohere.CohereRotaryEmbedding(config)(torch.zeros(1), torch.tensor([positions]))
        out_q, out_k = map(unbatch, modeling_cohere.apply_rotary_pos_emb(batch(q), batch(k), cos, sin))
        angles = angles_of(positions, exact_inv_freq(base, dim))
        cases.append(case(name, {"base": base, "rotary_dim": dim, "rotary_start": 0, "pairing": "interleaved",
                                 "attention_factor": 1.0}, positions, q, k, out_q, out_k,
                          exact_rotation(q, angles, "interleaved"), exact_rotation(k, angles, "interleaved"),
                          call="models.cohere.modeling_cohere: CohereRotaryEmbedding, apply_rotary_pos_emb"))
    dim, positions = 8, [0, 1, 2, 30]
    q, k = random_floats(390, 4, 2, dim), random_floats(391, 4, 2, dim)
    table = modeling_gptj.create_sinusoidal_positions(64, dim)[torch.tensor([positions])]
    sin, cos = torch.split(table, dim // 2, dim=-1)
    out_q = modeling_gptj.apply_rotary_pos_emb(torch.from_numpy(q)[None], sin, cos)[0].numpy()
    out_k = modeling_gptj.apply_rotary_pos_emb(torch.from_numpy(k)[None], sin, cos)[0].numpy()
    angles = angles_of(positions, exact_inv_freq(10000, dim))
    cases.append(case("GPT-J's table and rotation", {"base": 10000.0, "rotary_dim": dim, "rotary_start": 0,
                                                      "pairing": "interleaved", "attention_factor": 1.0},
                      positions, q, k, out_q, out_k,
                      exact_rotation(q, angles, "interleaved"), exact_rotation(k, angles, "interleaved"),
                      call="models.gptj.modeling_gptj: create_sinusoidal_positions, apply_rotary_pos_emb"))
    return document("rotary, interleaved pairing", "transformers", VERSION, "named in each case", cases,
                    note="Pair i is (x[2i], x[2i + 1]).")


def rotary_partial():
    cases = []
    # Phi: half-split inside the first rotary_dim features.
    for index, (dim, factor, base, positions) in enumerate([(8, 0.5, 10000.0, [0, 1, 5, 77]),
                                                            (80, 0.4, 10000.0, [9, 2047]),
                                                            (10, 0.4, 100.0, [1, 2])]):
        rotary_dim = int(dim * factor)
        config = transformers.PhiConfig(
            hidden_size=2 * dim, num_attention_heads=2, partial_rotary_factor=factor,
            rope_parameters={"rope_type": "default", "rope_theta": base, "partial_rotary_factor": factor})
        q, k = random_floats(500 + index, len(positions), 2, dim), random_floats(510 + index, len(positions), 2, dim)
        cos, sin = modeling_phi.PhiRotaryEmbedding(config)(torch.zeros(1), torch.tensor([positions]))
        assert cos.shape[-1] == rotary_dim
        # As PhiAttention.forward slices and joins.
        bq, bk = batch(q), batch(k)
        rq, rk = modeling_phi.apply_rotary_pos_emb(bq[..., :rotary_dim], bk[..., :rotary_dim], cos, sin)
        out_q = unbatch(torch.cat((rq, bq[..., rotary_dim:]), -1))
        out_k = unbatch(torch.cat((rk, bk[..., rotary_dim:]), -1))
        angles = angles_of(positions, exact_inv_freq(base, rotary_dim))
        cases.append(case(f"half-split, first {rotary_dim} of {dim}",
                          {"base": base, "head_dim": dim, "rotary_dim": rotary_dim, "rotary_start": 0,
                           "pairing": "half-split", "attention_factor": 1.0},
                          positions, q, k, out_q, out_k, exact_rotation(q, angles, "half-split"),
                          exact_rotation(k, angles, "half-split"),
                          call="models.phi.modeling_phi: PhiRotaryEmbedding, apply_rotary_pos_emb, sliced as in PhiAttention"))
    # GLM: interleaved inside the first half.
    dim, positions = 12, [0, 3, 64]
    config = transformers.GlmConfig(hidden_size=2 * dim, num_attention_heads=2, head_dim=dim,
                                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                                     "partial_rotary_factor": 0.5})
    q, k = random_floats(520, 3, 2, dim), random_floats(521, 3, 1, dim)
    cos, sin = modeling_glm.GlmRotaryEmbedding(config)(torch.zeros(1), torch.tensor([positions]))
    out_q, out_k = map(unbatch, modeling_glm.apply_rotary_pos_emb(batch(q), batch(k), cos, sin))
    angles = angles_of(positions, exact_inv_freq(10000, 6))
    cases.append(case("interleaved, first 6 of 12", {"base": 10000.0, "head_dim": dim, "rotary_dim": 6,
                                                     "rotary_start": 0, "pairing": "interleaved",
                                                     "attention_factor": 1.0},
                      positions, q, k, out_q, out_k, exact_rotation(q, angles, "interleaved"),
                      exact_rotation(k, angles, "interleaved"),
                      call="models.glm.modeling_glm: GlmRotaryEmbedding, apply_rotary_pos_emb"))
    # A start inside the head: lucidrains' start_index.
    import rotary_embedding_torch as ret
    dim, start, rotary_dim, positions = 10, 3, 4, [0, 1, 2, 3, 4]
    q, k = random_floats(530, 5, 2, dim), random_floats(531, 5, 2, dim)
    table = ret.RotaryEmbedding(rotary_dim)(torch.arange(5))
    out_q = unbatch(ret.apply_rotary_emb(table, batch(q), start_index=start).detach())
    out_k = unbatch(ret.apply_rotary_emb(table, batch(k), start_index=start).detach())
    angles = angles_of(positions, exact_inv_freq(10000, rotary_dim))
    cases.append(case("interleaved, features 3 to 6 of 10", {"base": 10000.0, "head_dim": dim, "rotary_dim": rotary_dim,
                                                             "rotary_start": start, "pairing": "interleaved",
                                                             "attention_factor": 1.0},
                      positions, q, k, out_q, out_k, exact_rotation(q, angles, "interleaved", start=start),
                      exact_rotation(k, angles, "interleaved", start=start),
                      call="rotary-embedding-torch: RotaryEmbedding.forward, apply_rotary_emb(start_index=3)"))
    return document("rotary, partial width", "transformers and rotary-embedding-torch",
                    f"{VERSION}, {package_version('rotary-embedding-torch')}", "named in each case", cases,
                    note="Frequencies are theta^(-2i/rotary_dim): the exponent's denominator is the rotated width.")


def package_version(name):
    from importlib.metadata import version
    return version(name)


def rotary_mla():
    """DeepSeek-V3: only the last qk_rope_head_dim features of a query and one shared key part are rotated."""
    cases = []
    for index, (heads, nope, rope, positions) in enumerate([(2, 4, 8, [0, 1, 6]), (3, 5, 4, [11, 4000])]):
        base = 10000.0
        q = random_floats(600 + index, len(positions), heads, nope + rope)
        k_nope = random_floats(610 + index, len(positions), heads, nope)
        k_rope = random_floats(620 + index, len(positions), 1, rope)
        config = transformers.DeepseekV3Config(
            hidden_size=16, num_attention_heads=heads, num_key_value_heads=heads, qk_nope_head_dim=nope,
            qk_rope_head_dim=rope, rope_parameters={"rope_type": "default", "rope_theta": base})
        cos, sin = modeling_deepseek_v3.DeepseekV3RotaryEmbedding(config)(torch.zeros(1), torch.tensor([positions]))
        q_rot, k_rot = modeling_deepseek_v3.apply_rotary_pos_emb_interleave(
            batch(q[..., nope:]), batch(k_rope), cos, sin)
        out_q = np.concatenate([q[..., :nope], unbatch(q_rot)], -1)
        out_k = np.concatenate([k_nope, np.repeat(unbatch(k_rot), heads, 1)], -1)
        angles = angles_of(positions, exact_inv_freq(base, rope))
        order = list(range(0, rope, 2)) + list(range(1, rope, 2))

        def relaid(x):  # the source writes the pairs' first members, then the second members
            return exact_rotation(x, angles, "interleaved")[..., order]

        exact_q = np.concatenate([q[..., :nope].astype(np.float64), relaid(q[..., nope:])], -1)
        exact_k = np.concatenate([k_nope.astype(np.float64), np.repeat(relaid(k_rope), heads, 1)], -1)
        plain_q = np.concatenate([q[..., :nope].astype(np.float64), exact_rotation(q[..., nope:], angles, "interleaved")], -1)
        plain_k = np.concatenate([k_nope.astype(np.float64),
                                  np.repeat(exact_rotation(k_rope, angles, "interleaved"), heads, 1)], -1)
        scores = np.einsum("qhd,khd->hqk", exact_q, exact_k)
        assert np.allclose(scores, np.einsum("qhd,khd->hqk", plain_q, plain_k), atol=1e-12)
        cases.append({
            "name": f"{heads} heads, {nope} plain + {rope} rotated features",
            "parameters": {"base": base, "nope_dim": nope, "rope_dim": rope, "pairing": "interleaved", "heads": heads},
            "inputs": {"positions": tensor(np.array(positions)), "q": tensor(q), "k_nope": tensor(k_nope),
                       "k_rope": tensor(k_rope)},
            "expected": {"q": tensor(out_q), "k": tensor(out_k)},
            "exact": {"q": tensor(exact_q), "k": tensor(exact_k), "q_in_place": tensor(plain_q),
                      "k_in_place": tensor(plain_k), "scores": tensor(scores)},
            "source_error": max(error(out_q, exact_q), error(out_k, exact_k)),
        })
    return document("rotary, decoupled (latent attention)", "transformers", VERSION,
                    "models.deepseek_v3.modeling_deepseek_v3: DeepseekV3RotaryEmbedding, apply_rotary_pos_emb_interleave, joined as in "
                    "DeepseekV3Attention", cases,
                    note="The source reads interleaved pairs and writes all first members, then all second members; "
                         "q_in_place and k_in_place keep each pair where it was. The unscaled scores [heads, q, k] "
                         "are the same for both.")


def rotary_xpos():
    import rotary_embedding_torch as ret
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb
    cases = []
    for index, (dim, length, scale_base) in enumerate([(8, 6, 512.0), (4, 9, 4.0), (16, 2, 512.0)]):
        q, k = random_floats(700 + index, length, 1, dim), random_floats(710 + index, length, 1, dim)
        module = RotaryEmbedding(dim, use_xpos=True, scale_base=scale_base)
        freqs, scale = module.forward_from_seq_len(length)
        out_q = unbatch(apply_rotary_pos_emb(batch(q), freqs, scale))
        out_k = unbatch(apply_rotary_pos_emb(batch(k), freqs, scale ** -1))
        other = ret.RotaryEmbedding(dim, use_xpos=True, xpos_scale_base=scale_base)
        ret_q, ret_k = map(unbatch, other.rotate_queries_and_keys(batch(q), batch(k)))
        center = length // 2
        angles = angles_of(range(length), exact_inv_freq(10000, dim))
        zeta = [(2 * i + mpmath.mpf(4) / 10 * dim) / (mpmath.mpf(14) / 10 * dim) for i in range(dim // 2)]
        factor = np.array([[float(z ** ((mpmath.mpf(t) - center) / scale_base)) for z in zeta] for t in range(length)])
        factor = np.repeat(factor, 2, axis=1)[:, None, :]
        exact_q = exact_rotation(q, angles, "interleaved") * factor
        exact_k = exact_rotation(k, angles, "interleaved") / factor
        cases.append({
            "name": f"width {dim}, length {length}, scale base {scale_base:g}",
            "parameters": {"base": 10000.0, "rotary_dim": dim, "pairing": "interleaved", "scale_base": scale_base,
                           "center": center},
            "inputs": {"positions": tensor(np.arange(length)), "q": tensor(q), "k": tensor(k)},
            "expected": {"q": tensor(out_q), "k": tensor(out_k), "rotary_embedding_torch_q": tensor(ret_q.astype(np.float32)),
                         "rotary_embedding_torch_k": tensor(ret_k.astype(np.float32))},
            "exact": {"q": tensor(exact_q), "k": tensor(exact_k), "zeta": tensor(np.array([float(z) for z in zeta])),
                      "scores": tensor(np.einsum("qhd,khd->hqk", exact_q, exact_k))},
            "source_error": max(error(out_q, exact_q), error(out_k, exact_k), error(ret_q, exact_q), error(ret_k, exact_k)),
        })
    return document("xPos", "x-transformers and rotary-embedding-torch",
                    f"{package_version('x-transformers')}, {package_version('rotary-embedding-torch')}",
                    "RotaryEmbedding(use_xpos=True).forward_from_seq_len, apply_rotary_pos_emb; "
                    "RotaryEmbedding(use_xpos=True).rotate_queries_and_keys", cases,
                    note="q is multiplied by zeta^((m-c)/B), k by zeta^(-(n-c)/B), c = length // 2 in both sources; "
                         "c cancels in the scores, so any fixed centre gives the same scores.")


FILES = {
    "rotary_half_split.json": rotary_half_split,
    "rotary_interleaved.json": rotary_interleaved,
    "rotary_partial.json": rotary_partial,
    "rotary_mla.json": rotary_mla,
    "rotary_xpos.json": rotary_xpos,
}
