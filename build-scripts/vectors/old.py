"""Calls that need older packages, run in a second environment: transformers 4.46.3 (Transformer-XL, BERT's relative
keys, the checkpoint conversion script, the earlier M-RoPE builder) and TensorFlow for tensor2tensor's functions.

From the main environment: old.call("name", **arguments). Arguments and results are JSON; arrays travel as nested
lists. The interpreter is $VECTORS_OLD_PYTHON, or the environment's folder with "-old" appended.
"""

import json
import os
import subprocess
import sys


_workers = {}


def call(function, **arguments):
    # TensorFlow and torch do not share a process; each keeps one worker, since importing them takes seconds.
    side = "tensorflow" if function.startswith("t2t") else "torch"
    if side not in _workers:
        python = os.environ.get("VECTORS_OLD_PYTHON", sys.prefix.rstrip("/") + "-old/bin/python")
        environment = dict(os.environ, USE_TF="0", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
        _workers[side] = subprocess.Popen([python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, text=True, env=environment)
    worker = _workers[side]
    worker.stdin.write(json.dumps([function, arguments]) + "\n")
    worker.stdin.flush()
    for line in worker.stdout:
        if line.startswith("answer "):
            answer = json.loads(line[len("answer "):])
            if "error" in answer:
                raise RuntimeError(f"{function} failed in the second environment:\n{answer['error']}")
            return answer["result"]
    raise RuntimeError(f"the second environment ended while it ran {function}")


# --- below: runs in the second environment ------------------------------------------------------------------------

def nested_function(module, name, **globals_):
    """A function defined inside another one (or in a module that is not importable), from its source text."""
    import ast
    import pathlib

    tree = ast.parse(pathlib.Path(module).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            node.decorator_list = []
            node.args.defaults = []  # defaults name variables of the surrounding function
            scope = dict(globals_)
            exec(compile(ast.Module([node], []), module, "exec"), scope)
            return scope[name]
    raise LookupError(f"{name} in {module}")


def versions():
    from importlib.metadata import version
    return {name: version(name) for name in ("transformers", "tensor2tensor", "tensorflow-cpu")}


def llama_permute(weight, n_heads, dim1, dim2):
    import importlib.util
    import torch
    path = importlib.util.find_spec("transformers.models.llama.convert_llama_weights_to_hf").origin
    permute = nested_function(path, "permute")
    return permute(torch.tensor(weight), n_heads, dim1, dim2).tolist()


def qwen2_vl_rope_index(input_ids, image_grid_thw, video_grid_thw, attention_mask, tokens, merge):
    import types
    import torch
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLForConditionalGeneration as Model
    config = types.SimpleNamespace(vision_config=types.SimpleNamespace(spatial_merge_size=merge), **tokens)

    def maybe(x):
        return None if x is None else torch.tensor(x)

    positions, deltas = Model.get_rope_index(types.SimpleNamespace(config=config), torch.tensor(input_ids),
                                             maybe(image_grid_thw), maybe(video_grid_thw), maybe(attention_mask))
    return {"positions": positions.tolist(), "deltas": deltas.tolist()}


def t2t_module():
    """tensor2tensor's common_attention.py: its imports need TensorFlow 1, its functions do not."""
    import importlib.metadata
    files = importlib.metadata.files("tensor2tensor")
    return str(next(f for f in files if str(f).endswith("layers/common_attention.py")).locate())


def t2t_timing_signal(length, channels, min_timescale, max_timescale, start_index):
    import math
    import tensorflow.compat.v1 as tf
    function = nested_function(t2t_module(), "get_timing_signal_1d", tf=tf, math=math)
    return function(length, channels, min_timescale, max_timescale, start_index).numpy()[0].tolist()


def t2t_shaw(q, k, v, keys, values, bias, max_relative_position, cache):
    """The body of dot_product_attention_relative with given tables; q is [1, heads, length, depth], scaled already."""
    import tensorflow.compat.v1 as tf
    path = t2t_module()
    matrix = nested_function(path, "_generate_relative_positions_matrix", tf=tf)
    inner = nested_function(path, "_relative_attention_inner", tf=tf)
    q, k, v, keys, values = (tf.constant(x, tf.float32) for x in (q, k, v, keys, values))
    index = matrix(q.shape[2], k.shape[2], max_relative_position, cache)
    logits = inner(q, k, tf.gather(keys, index), True)
    if bias is not None:
        logits += tf.constant(bias, tf.float32)
    weights = tf.nn.softmax(logits)
    output = inner(weights, v, tf.gather(values, index), False)
    return {"index": index.numpy().tolist(), "logits": logits.numpy().tolist(), "weights": weights.numpy().tolist(),
            "output": output.numpy().tolist()}


def bert_relative(kind, q, k, v, table, mask):
    """BertSelfAttention on given q, k, v [tokens, heads, dim] (its projections replaced)."""
    import torch
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertSelfAttention
    q, k, v, table = (torch.tensor(x) for x in (q, k, v, table))
    tokens, heads, dim = q.shape
    config = BertConfig(hidden_size=heads * dim, num_attention_heads=heads, max_position_embeddings=(len(table) + 1) // 2,
                        position_embedding_type=kind)
    module = BertSelfAttention(config).eval()
    with torch.no_grad():
        module.distance_embedding.weight.copy_(table)
        for name, x in (("query", q), ("key", k), ("value", v)):
            setattr(module, name, Given(x.reshape(1, tokens, heads * dim)))
        context, weights = module(torch.zeros(1, tokens, heads * dim), output_attentions=True,
                                  attention_mask=None if mask is None else torch.tensor(mask)[None, None])
    return {"output": context.reshape(tokens, heads, dim).tolist(), "weights": weights[0].tolist()}


def transfo_xl(q, k, v, r, content_bias, position_bias, mask):
    """RelPartialLearnableMultiHeadAttn on given q [tokens, heads, dim], k, v [keys, heads, dim], r [keys, heads, dim]."""
    import torch
    from transformers.models.deprecated.transfo_xl.modeling_transfo_xl import RelPartialLearnableMultiHeadAttn
    q, k, v, r, u, w = (torch.tensor(x) for x in (q, k, v, r, content_bias, position_bias))
    tokens, heads, dim = q.shape
    keys = k.shape[0]
    module = RelPartialLearnableMultiHeadAttn(heads, heads * dim, dim, 0.0).eval()
    with torch.no_grad():
        module.r_w_bias.copy_(u)
        module.r_r_bias.copy_(w)
        padded = torch.cat([torch.zeros(keys - tokens, heads, dim), q])  # rows of the memory are dropped from the queries
        module.qkv_net = Given(torch.cat([x.reshape(keys, 1, heads * dim) for x in (padded, k, v)], -1))
        module.r_net = Given(r.reshape(keys, heads * dim))
        module.o_net = torch.nn.Identity()
        module.layer_norm = torch.nn.Identity()
        out, weights = module(torch.zeros(tokens, 1, heads * dim), torch.zeros(keys, heads * dim),
                              attn_mask=None if mask is None else torch.tensor(mask),
                              mems=torch.zeros(keys - tokens, 1, heads * dim), output_attentions=True)
    return {"output": out.reshape(tokens, heads, dim).tolist(), "weights": weights[:, :, 0].permute(2, 0, 1).tolist()}


def transfo_xl_shift(x):
    import torch
    from transformers.models.deprecated.transfo_xl.modeling_transfo_xl import RelPartialLearnableMultiHeadAttn
    return RelPartialLearnableMultiHeadAttn._rel_shift(None, torch.tensor(x)).tolist()


def transfo_xl_table(positions, width):
    import torch
    from transformers.models.deprecated.transfo_xl.modeling_transfo_xl import PositionalEmbedding
    return PositionalEmbedding(width)(torch.tensor(positions, dtype=torch.float))[:, 0].tolist()


def Given(x):
    """A module that answers with x, whatever it is asked."""
    import torch

    class Answer(torch.nn.Module):
        def forward(self, _):
            return x

    return Answer()


if __name__ == "__main__":
    import traceback
    import warnings
    warnings.filterwarnings("ignore")
    for request in sys.stdin:
        name, given = json.loads(request)
        try:
            reply = {"result": globals()[name](**given)}
        except Exception:
            reply = {"error": traceback.format_exc()}
        print("answer " + json.dumps(reply), flush=True)
