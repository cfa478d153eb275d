"""What differs from layer to layer: rotary parameters by layer type, layers without position, attention temperature;
and the permutation of weights between the two pairings.
"""

import warnings

import mpmath
import numpy as np
import torch
import transformers
from mpmath import mpf
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextRotaryEmbedding
from transformers.models.llama4 import modeling_llama4
from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale
from transformers.models.modernbert.modeling_modernbert import ModernBertRotaryEmbedding

import old
from common import document, doubles, error, exact_inv_freq, random_floats, tensor
from rules import relative

VERSION = transformers.__version__
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def rotary_layer_types():
    cases = []

    def add(name, module, config, parameters, exact_of):
        for kind in sorted(set(config.layer_types)):
            got = getattr(module, f"{kind}_inv_freq")
            exact = exact_of(kind)
            cases.append({
                "name": f"{name}, {kind}",
                "parameters": {**parameters, "layer_type": kind,
                               "layers_of_this_type": [i for i, t in enumerate(config.layer_types) if t == kind],
                               "num_layers": len(config.layer_types),
                               "rope_parameters": {k: v for k, v in config.rope_parameters[kind].items()}},
                "inputs": {},
                "expected": {"inv_freq": tensor(got),
                             "attention_factor": float(getattr(module, f"{kind}_attention_scaling"))},
                "exact": {"inv_freq": tensor(doubles(exact))},
                "source_error": relative(got, doubles(exact)),
            })
            assert cases[-1]["source_error"] < 1e-6

    config = transformers.Gemma3TextConfig(num_hidden_layers=13, hidden_size=32, num_attention_heads=2, head_dim=16,
                                           rope_scaling={"rope_type": "linear", "factor": 8.0})
    add("Gemma 3, linear 8 given", Gemma3RotaryEmbedding(config), config,
        {"head_dim": 16, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        lambda kind: [f / 8 for f in exact_inv_freq(1000000, 16)] if kind == "full_attention" else exact_inv_freq(10000, 16))
    config = transformers.Gemma3TextConfig(num_hidden_layers=6, hidden_size=32, num_attention_heads=2, head_dim=16)
    add("Gemma 3, no scaling given", Gemma3RotaryEmbedding(config), config, {"head_dim": 16},
        lambda kind: exact_inv_freq(1000000 if kind == "full_attention" else 10000, 16))
    config = transformers.ModernBertConfig(num_hidden_layers=7, hidden_size=32, num_attention_heads=2)
    add("ModernBERT", ModernBertRotaryEmbedding(config), config, {"head_dim": 16},
        lambda kind: exact_inv_freq(160000 if kind == "full_attention" else 10000, 16))
    config = transformers.ModernBertConfig(num_hidden_layers=4, hidden_size=32, num_attention_heads=2,
                                           rope_scaling={"rope_type": "linear", "factor": 4.0})
    add("ModernBERT, linear 4 given", ModernBertRotaryEmbedding(config), config,
        {"head_dim": 16, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        lambda kind: [f / 4 for f in exact_inv_freq(160000 if kind == "full_attention" else 10000, 16)])
    config = transformers.Gemma4TextConfig(num_hidden_layers=12, hidden_size=64, num_attention_heads=2, head_dim=16,
                                           global_head_dim=32)

    def gemma4(kind):
        if kind == "sliding_attention":
            return exact_inv_freq(10000, 16)
        return [f if i < 4 else mpf(0) for i, f in enumerate(exact_inv_freq(1000000, 32))]

    add("Gemma 4, global head width 32", Gemma4TextRotaryEmbedding(config), config,
        {"head_dim": 16, "global_head_dim": 32}, gemma4)
    return document("rotary parameters by layer type", "transformers", VERSION,
                    "Gemma3TextConfig + Gemma3RotaryEmbedding, ModernBertConfig + ModernBertRotaryEmbedding, "
                    "Gemma4TextConfig + Gemma4TextRotaryEmbedding", cases,
                    note="Gemma 3 gives a scaling rule to its full-attention layers only, ModernBERT to both kinds.")


def layers_without_position():
    cases = []
    for name, cls, keys in [("SmolLM3, 36 layers", transformers.SmolLM3Config, {"num_hidden_layers": 36}),
                            ("SmolLM3, interval 3", transformers.SmolLM3Config,
                             {"num_hidden_layers": 7, "no_rope_layer_interval": 3}),
                            ("SmolLM3, list given", transformers.SmolLM3Config,
                             {"num_hidden_layers": 4, "no_rope_layers": [1, 0, 0, 1]}),
                            ("Llama 4, 48 layers", transformers.Llama4TextConfig, {"num_hidden_layers": 48}),
                            ("Llama 4, empty list means the default", transformers.Llama4TextConfig,
                             {"num_hidden_layers": 5, "no_rope_layers": []})]:
        config = cls(**keys)
        flags = list(config.no_rope_layers)
        cases.append({"name": name, "parameters": keys, "inputs": {},
                      "expected": {"uses_rotation": tensor(np.array(flags).astype(bool)),
                                   "layers_without_position": [i for i, f in enumerate(flags) if not f]}})
    return document("layers without position", "transformers", VERSION, "SmolLM3Config, Llama4TextConfig .no_rope_layers",
                    cases, note="In the configuration key no_rope_layers, 1 means that the layer does rotate.")


def attention_temperature():
    cases = []
    positions = np.array([0, 1, 8190, 8191, 8192, 16382, 16383, 16384, 40000, 131071, 1048575, 10485759])
    captured = {}

    def capture(module, query, key, value, mask, **kwargs):
        captured["query"] = query
        return torch.zeros_like(query.transpose(1, 2)), None

    def llama4(token_positions, floor_scale, attn_scale):
        """Runs the attention module's forward with a cache that claims a past length and reads off the query."""
        config = transformers.Llama4TextConfig(
            hidden_size=4, num_attention_heads=1, num_key_value_heads=1, head_dim=4, num_hidden_layers=1,
            no_rope_layers=[0], floor_scale=floor_scale, attn_scale=attn_scale, attention_bias=False)
        module = modeling_llama4.Llama4TextAttention(config, 0).eval()
        with torch.no_grad():
            module.q_proj.weight.copy_(torch.eye(4))

        class Past:
            def get_seq_length(self, layer):
                return self.length

            def update(self, k, v, *args, **kwargs):
                return k, v

        past = Past()
        out = []
        keep = modeling_llama4.ALL_ATTENTION_FUNCTIONS.get_interface
        modeling_llama4.ALL_ATTENTION_FUNCTIONS.get_interface = lambda *a, **k: capture
        try:
            for p in token_positions:
                past.length = int(p)
                with torch.no_grad():
                    module(torch.ones(1, 1, 4), None, None, cache=past)
                out.append(float(captured["query"][0, 0, 0, 0]))
        finally:
            modeling_llama4.ALL_ATTENTION_FUNCTIONS.get_interface = keep
        return np.array(out, dtype=np.float32)

    for floor_scale, attn_scale, where in [(8192, 0.1, positions), (4, 0.5, np.arange(13))]:
        got = llama4(where, floor_scale, attn_scale)
        exact = doubles([1 + mpf(attn_scale) * mpmath.log(1 + mpmath.floor(mpf(int(p) + 1) / floor_scale)) for p in where])
        cases.append({"name": f"Llama 4, floor {floor_scale}, scale {attn_scale:g}",
                      "parameters": {"rule": "llama4", "floor_scale": floor_scale, "attn_scale": attn_scale,
                                     "position_offset": 1},
                      "inputs": {"positions": tensor(where)}, "expected": {"temperature": tensor(got)},
                      "exact": {"temperature": tensor(exact)}, "source_error": error(got, exact)})
    for length, beta, where in [(16384, 0.1, positions), (4, 0.5, np.arange(13))]:
        got = get_llama_4_attn_scale(torch.from_numpy(where)[None], beta, length).flatten()
        exact = doubles([1 + mpf(beta) * mpmath.log(1 + mpmath.floor(mpf(int(p)) / length)) for p in where])
        cases.append({"name": f"Ministral 3, length {length}, beta {beta:g}",
                      "parameters": {"rule": "ministral3", "floor_scale": length, "attn_scale": beta,
                                     "position_offset": 0},
                      "inputs": {"positions": tensor(where)}, "expected": {"temperature": tensor(got)},
                      "exact": {"temperature": tensor(exact)}, "source_error": error(got, exact)})
    for case in cases:
        assert case["source_error"] < 1e-6
    return document("attention temperature by position", "transformers", VERSION,
                    "models.llama4.modeling_llama4.Llama4TextAttention.forward (its scaled query); "
                    "models.ministral3.modeling_ministral3.get_llama_4_attn_scale", cases,
                    note="Queries are multiplied by 1 + scale * ln(1 + floor((p + offset) / floor)). Llama 4 does so in "
                         "layers without rotation only, and takes p from the cache's length, not from position_ids.")


def rotary_weight_permutation():
    cases = []
    for name, heads, head_dim, columns in [("4 query heads of 6", 4, 6, 3), ("2 key heads of 6", 2, 6, 3),
                                           ("one head of 2", 1, 2, 2), ("3 heads of 8, head_dim * heads != hidden", 3, 8, 5)]:
        rows = heads * head_dim
        weight = random_floats(1000 + rows, rows, columns)
        order = np.arange(rows, dtype=np.float32).reshape(rows, 1)
        got = np.array(old.call("llama_permute", weight=weight.tolist(), n_heads=heads, dim1=rows, dim2=columns), np.float32)
        index = np.array(old.call("llama_permute", weight=order.tolist(), n_heads=heads, dim1=rows, dim2=1)).reshape(-1)
        cases.append({"name": name, "parameters": {"heads": heads, "head_dim": head_dim, "columns": columns},
                      "inputs": {"interleaved_weight": tensor(weight)},
                      "expected": {"half_split_weight": tensor(got),
                                   "source_row": tensor(index.astype(np.int64))}})
    return document("weights between pairings", "transformers", old.call("versions")["transformers"],
                    "models.llama.convert_llama_weights_to_hf: permute (Meta's layout to Hugging Face's)", cases,
                    note="Row r of the half-split weight is row source_row[r] of the interleaved weight. Keys are permuted "
                         "with the number of key heads.")


FILES = {
    "rotary_layer_types.json": rotary_layer_types,
    "layers_without_position.json": layers_without_position,
    "attention_temperature.json": attention_temperature,
    "rotary_weight_permutation.json": rotary_weight_permutation,
}
