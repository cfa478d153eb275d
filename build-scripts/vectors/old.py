"""Calls that need older packages, run in a second environment: transformers 4.46.3 (Transformer-XL, BERT's relative
keys, the checkpoint conversion script, the earlier M-RoPE builder) and TensorFlow for tensor2tensor's functions.

From the main environment: old.call("name", **arguments). Arguments and results are JSON; arrays travel as nested
lists. The interpreter is $VECTORS_OLD_PYTHON, or the environment's folder with "-old" appended.
"""

import json
import os
import subprocess
import sys


def call(function, **arguments):
    python = os.environ.get("VECTORS_OLD_PYTHON", sys.prefix.rstrip("/") + "-old/bin/python")
    environment = dict(os.environ, USE_TF="0", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    done = subprocess.run([python, __file__, function], input=json.dumps(arguments), text=True, env=environment,
                          capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{function} failed in the second environment:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


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


if __name__ == "__main__":
    import warnings
    warnings.filterwarnings("ignore")
    answer = globals()[sys.argv[1]](**json.loads(sys.stdin.read()))
    print(json.dumps(answer))
