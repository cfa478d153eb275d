"""Tiny decoders with seeded random weights: logits of a full forward, of left-padded batches, and greedy generation.

Weights are written as safetensors beside the JSON (float32, and the Llama once more in bfloat16 and float16 with the
logits that the rounded weights give when computed in float32).
"""

import functools
import warnings

import numpy as np
import safetensors.torch
import torch
import transformers

from common import document, tensor

VERSION = transformers.__version__
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

TOKENS = [3, 17, 42, 42, 5, 63, 0, 28, 11, 50, 1, 33, 7]
PADDED = [[9, 8, 7, 6, 5, 4, 3], [20, 21, 22], [60, 2, 41, 13, 37]]
PACKED = [[9, 8, 7, 6], [20, 21], [60]]


def initialise(model, seed):
    """Weights wide enough that attention and position matter, on a grid that float32 holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            spread = 0.25 if p.dim() > 1 else 0.1
            value = torch.randn(p.shape, generator=generator) * spread
            if p.dim() == 1 and name.endswith("weight"):
                value = value + 1.0  # norms
            p.copy_((value * 4096).round() / 4096)
    return model.eval()


def llama_config(scaling):
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    if scaling == "llama3":
        rope = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16}
    return transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False, mlp_bias=False,
        rope_parameters=rope, pad_token_id=None, bos_token_id=None, eos_token_id=None)


@functools.lru_cache
def build(kind):
    if kind in ("llama", "llama3"):
        config = llama_config(kind)
        config._attn_implementation = "eager"
        return initialise(transformers.LlamaForCausalLM(config), 1)
    if kind == "gpt2":
        config = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, n_inner=64,
                                         bos_token_id=None, eos_token_id=None, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
        config._attn_implementation = "eager"
        return initialise(transformers.GPT2LMHeadModel(config), 2)
    if kind == "gemma2":
        config = transformers.Gemma2Config(
            vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=8, max_position_embeddings=128, sliding_window=4, query_pre_attn_scalar=12, attn_logit_softcapping=5.0,
            final_logit_softcapping=3.0, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            layer_types=["sliding_attention", "full_attention"], pad_token_id=None, bos_token_id=None, eos_token_id=None)
        config._attn_implementation = "eager"
        return initialise(transformers.Gemma2ForCausalLM(config), 3)
    if kind == "mpt":
        config = transformers.MptConfig(vocab_size=64, d_model=24, n_heads=3, n_layers=2, expansion_ratio=4, max_seq_len=32,
                                        no_bias=True, bos_token_id=None, eos_token_id=None, pad_token_id=None)
        return initialise(transformers.MptForCausalLM(config), 4)
    raise KeyError(kind)


def weights_bytes(kind, dtype=torch.float32):
    model = build(kind)
    tied = getattr(model.config, "tie_word_embeddings", False)
    state = {n: p.detach().to(dtype).contiguous() for n, p in model.state_dict().items() if not (tied and n == "lm_head.weight")}
    return safetensors.torch.save(state, metadata={"format": "pt"})


def in_dtype(kind, dtype):
    """The model with its weights rounded to dtype, computing in float32."""
    if dtype is torch.float32:
        return build(kind)
    import copy
    model = copy.deepcopy(build(kind))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype).float())
    return model


def logits_of(model, ids, **more):
    with torch.no_grad():
        return model(torch.tensor(ids), **more).logits


def greedy(model, prompts, count):
    """generate() with left padding by token 0, and the same one prompt at a time without padding."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        out = model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=0)
        alone = [model.generate(torch.tensor([p]), attention_mask=torch.ones(1, len(p), dtype=torch.long), max_new_tokens=count,
                                do_sample=False, pad_token_id=0)[0, len(p):].tolist() for p in prompts]
    assert out[:, width:].tolist() == alone
    return alone


def margins(model, prompt, chosen):
    """Gap between the best and the second logit at each generated token: how safe the greedy choice is."""
    ids = list(prompt)
    out = []
    for token in chosen:
        top = logits_of(model, [ids])[0, -1].topk(2)
        assert int(top.indices[0]) == token
        out.append(float(top.values[0] - top.values[1]))
        ids.append(token)
    return out


def cases_of(kind, model, generate=True, padded=True):
    cases = []
    logits = logits_of(model, [TOKENS])[0]
    cases.append({"name": "full forward", "parameters": {}, "inputs": {"tokens": tensor(np.array(TOKENS))},
                  "expected": {"logits": tensor(logits)}})
    if not padded:
        return cases
    positions = [p + 5 for p in range(len(TOKENS))]
    shifted = logits_of(model, [TOKENS], position_ids=torch.tensor([positions]))[0]
    cases.append({"name": "full forward, positions from 5", "parameters": {},
                  "inputs": {"tokens": tensor(np.array(TOKENS)), "positions": tensor(np.array(positions))},
                  "expected": {"last_logits": tensor(shifted[-1])}})
    if padded:
        width = max(map(len, PADDED))
        ids = [[0] * (width - len(p)) + p for p in PADDED]
        mask = [[0] * (width - len(p)) + [1] * len(p) for p in PADDED]
        tmask = torch.tensor(mask)
        position_ids = (tmask.cumsum(-1) - 1).masked_fill(tmask == 0, 0)
        batch = logits_of(model, ids, attention_mask=tmask, position_ids=position_ids)
        for row, prompt in enumerate(PADDED):
            alone = logits_of(model, [prompt])[0]
            assert torch.allclose(batch[row, width - len(prompt):], alone, atol=2e-5), kind
        cases.append({"name": "left-padded batch, last logits of each row", "parameters": {"lengths": [len(p) for p in PADDED]},
                      "inputs": {"tokens": tensor(np.array(ids)), "attention_mask": tensor(np.array(mask)),
                                 "positions": tensor(position_ids)},
                      "expected": {"last_logits": tensor(batch[:, -1].contiguous())}})
        # A packed row: positions start again, documents do not see each other.
        flat = [t for p in PACKED for t in p]
        packed_positions = [i for p in PACKED for i in range(len(p))]
        packed = logits_of(model, [flat], position_ids=torch.tensor([packed_positions]), use_cache=False)[0]
        start = 0
        for prompt in PACKED:
            assert torch.allclose(packed[start:start + len(prompt)], logits_of(model, [prompt])[0], atol=2e-5), (kind, prompt)
            start += len(prompt)
        cases.append({"name": "packed row", "parameters": {"lengths": [len(p) for p in PACKED]},
                      "inputs": {"tokens": tensor(np.array(flat)), "positions": tensor(np.array(packed_positions))},
                      "expected": {"logits": tensor(packed)}})
    if generate:
        prompts = [TOKENS[:4], TOKENS[:9]]
        chosen = greedy(model, prompts, 12)
        for prompt, ids in zip(prompts, chosen):
            cases.append({"name": f"greedy, prompt of {len(prompt)}", "parameters": {"new_tokens": len(ids)},
                          "inputs": {"tokens": tensor(np.array(prompt))},
                          "expected": {"generated": tensor(np.array(ids)), "margins": tensor(np.array(margins(model, prompt, ids)))}})
    return cases


def llama(kind, dtype, file):
    model = in_dtype(kind, dtype)
    config = model.config
    whole = dtype is torch.float32
    cases = cases_of(kind, model, generate=whole, padded=whole)
    if not whole:
        cases = cases[:1]
    rope = dict(config.rope_parameters)
    result = document(
        f"Llama-shaped decoder, {'Llama 3 scaling' if kind == 'llama3' else 'default rotary'}, {str(dtype).split('.')[1]} weights",
        "transformers", VERSION, "LlamaForCausalLM.forward and .generate, eager attention, float32", cases,
        note="Weights: the safetensors file named in config, Hugging Face names, the embedding tied to the output. Padding and "
             "packing equal each row alone to 2e-5 (checked by the script). margins is the gap between the two largest logits.")
    result["config"] = {
        "weights": file, "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        "hidden_act": "silu", "rope_parameters": rope}
    return result


def gpt2():
    model = build("gpt2")
    cases = cases_of("gpt2", model)
    result = document("GPT-2-shaped decoder: learned positions, LayerNorm, GELU", "transformers", VERSION,
                      "GPT2LMHeadModel.forward and .generate, eager attention, float32", cases,
                      note="c_attn, c_proj and c_fc weights are [in, out] (x W + b). The embedding is tied to the output.")
    c = model.config
    result["config"] = {"weights": "tiny_gpt2.safetensors", "vocab_size": 64, "n_positions": 32, "n_embd": 32, "n_layer": 2,
                        "n_head": 4, "n_inner": 64, "layer_norm_epsilon": c.layer_norm_epsilon,
                        "activation_function": c.activation_function, "tie_word_embeddings": True}
    return result


def gemma2():
    model = build("gemma2")
    cases = cases_of("gemma2", model)
    result = document("Gemma-2-shaped decoder: window, soft caps, norms on both sides", "transformers", VERSION,
                      "Gemma2ForCausalLM.forward and .generate, eager attention, float32", cases,
                      note="Layer 0 has a window of 4, layer 1 none. Embeddings are multiplied by sqrt(hidden_size); norms "
                           "multiply by (1 + weight); scores are capped at 5, logits at 3; scale is 12^-0.5.")
    c = model.config
    result["config"] = {"weights": "tiny_gemma2.safetensors", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
                        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                        "rms_norm_eps": c.rms_norm_eps, "sliding_window": 4, "query_pre_attn_scalar": 12,
                        "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0, "hidden_activation": c.hidden_activation,
                        "layer_types": list(c.layer_types), "rope_parameters": dict(c.rope_parameters), "tie_word_embeddings": True}
    return result


def llama_variants():
    """The tiny Llama's weights under other rotary rules, and in the Llama-shaped architectures that change position only."""
    cases = []
    state = build("llama").state_dict()
    common_keys = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=True, pad_token_id=None,
                       bos_token_id=None, eos_token_id=None)
    short, long = [1.0, 1.1, 1.2, 1.5], [1.0, 2.0, 4.0, 8.0]

    def add(name, architecture, model_class, config_class, rope, maximum, **keys):
        config = config_class(**common_keys, max_position_embeddings=maximum, rope_parameters=dict(rope), **keys)
        config._attn_implementation = "eager"
        model = model_class(config).eval()
        model.load_state_dict(state)
        cases.append({"name": name, "parameters": {"architecture": architecture, "max_position_embeddings": maximum,
                                                   "rope_parameters": rope, **keys},
                      "inputs": {"tokens": tensor(np.array(TOKENS))},
                      "expected": {"logits": tensor(logits_of(model, [TOKENS], use_cache=False)[0])}})

    def add_llama(name, rope, maximum=128):
        add(name, "Llama", transformers.LlamaForCausalLM, transformers.LlamaConfig, rope, maximum)

    base = {"rope_theta": 100.0}
    add_llama("linear, factor 4", {"rope_type": "linear", "factor": 4.0, **base})
    add_llama("dynamic NTK, length within the maximum", {"rope_type": "dynamic", "factor": 2.0, **base}, 13)
    add_llama("dynamic NTK, length past the maximum", {"rope_type": "dynamic", "factor": 2.0, **base}, 8)
    add_llama("YaRN, factor 4", {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, **base}, 32)
    add_llama("YaRN, not truncated, betas 4 and 1, attention factor 1.3",
              {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "truncate": False, "beta_fast": 4.0,
               "beta_slow": 1.0, "attention_factor": 1.3, **base}, 256)
    for original in (13, 12):
        add_llama(f"LongRoPE, 13 tokens, original maximum {original}",
                  {"rope_type": "longrope", "short_factor": short, "long_factor": long, "factor": 4.0,
                   "original_max_position_embeddings": original, **base}, 52)
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    add("SmolLM3, layer 1 without position", "SmolLM3", transformers.SmolLM3ForCausalLM, transformers.SmolLM3Config, plain, 128,
        no_rope_layers=[1, 0], layer_types=["full_attention", "full_attention"], use_sliding_window=False)
    add("Ministral 3, temperature from 4 positions on", "Ministral3", transformers.Ministral3ForCausalLM,
        transformers.Ministral3Config,
        {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 4,
         "llama_4_scaling_beta": 0.5, "mscale": 1.0, "mscale_all_dim": 1.0}, 16, sliding_window=None)
    add("Mistral, window of 4", "Mistral", transformers.MistralForCausalLM, transformers.MistralConfig, plain, 128, sliding_window=4)
    result = document("Llama-shaped decoders: rotary rules, layers without position, temperature, window", "transformers", VERSION,
                      "LlamaForCausalLM, SmolLM3ForCausalLM, Ministral3ForCausalLM, MistralForCausalLM .forward, eager attention, "
                      "float32", cases,
                      note="All cases use the tiny Llama's weights and shape; parameters says what differs.")
    result["config"] = {"weights": "tiny_llama_f32.safetensors", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
                        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                        "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "hidden_act": "silu"}
    return result


def mpt():
    model = build("mpt")
    cases = cases_of("mpt", model, generate=False, padded=False)[:1]
    result = document("MPT-shaped decoder: ALiBi with 3 heads, LayerNorm without bias, GELU", "transformers", VERSION,
                      "MptForCausalLM.forward, float32", cases,
                      note="Wqkv is [q; k; v], weights are [out, in], no biases anywhere, the embedding is tied to the output.")
    result["config"] = {"weights": "tiny_mpt.safetensors", "vocab_size": 64, "d_model": 24, "n_heads": 3, "n_layers": 2,
                        "expansion": 4, "layer_norm_epsilon": model.config.layer_norm_epsilon, "activation": "gelu (exact)",
                        "alibi_bias_max": 8, "tie_word_embeddings": True}
    return result


FILES = {
    "tiny_llama_f32.safetensors": lambda: weights_bytes("llama"),
    "tiny_llama_bf16.safetensors": lambda: weights_bytes("llama", torch.bfloat16),
    "tiny_llama_f16.safetensors": lambda: weights_bytes("llama", torch.float16),
    "tiny_gpt2.safetensors": lambda: weights_bytes("gpt2"),
    "tiny_gemma2.safetensors": lambda: weights_bytes("gemma2"),
    "decoder_llama.json": lambda: llama("llama", torch.float32, "tiny_llama_f32.safetensors"),
    "decoder_llama_llama3.json": lambda: llama("llama3", torch.float32, "tiny_llama_f32.safetensors"),
    "decoder_llama_bf16.json": lambda: llama("llama", torch.bfloat16, "tiny_llama_bf16.safetensors"),
    "decoder_llama_f16.json": lambda: llama("llama", torch.float16, "tiny_llama_f16.safetensors"),
    "decoder_llama_variants.json": llama_variants,
    "tiny_mpt.safetensors": lambda: weights_bytes("mpt"),
    "decoder_mpt.json": mpt,
    "decoder_gpt2.json": gpt2,
    "decoder_gemma2.json": gemma2,
}
