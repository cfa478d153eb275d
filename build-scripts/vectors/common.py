"""Shared pieces of the vector scripts: tensors as JSON, seeded inputs, exact rotation in high precision.

A tensor in a file is {"dtype", "shape", "data"} with data flat and row-major. float32 values are printed with the
shortest decimal that reads back to the same float32, float64 values likewise. Non-finite values are the strings
"NaN", "Infinity" and "-Infinity".
"""

import json
import math
from pathlib import Path

import mpmath
import numpy as np

mpmath.mp.dps = 50

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "tests" / "vectors"

DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16",
    "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "bool",
}


def to_numpy(value):
    """A numpy array from numpy, torch (any float type up to float64), mlx or nested lists."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) in ("torch.bfloat16", "torch.float16"):
            value = value.float()
        value = value.numpy()
    return np.asarray(value)


def _scalar(x, dtype):
    if dtype == "bool":
        return bool(x)
    if dtype in ("i64", "i32", "u8"):
        return int(x)
    x_float = float(x)
    if math.isnan(x_float):
        return "NaN"
    if math.isinf(x_float):
        return "Infinity" if x_float > 0 else "-Infinity"
    if dtype == "f64":
        return x_float
    return float(str(x))  # shortest decimal of the narrow type


def tensor(value, dtype=None):
    array = to_numpy(value)
    if dtype is not None:
        array = array.astype(dtype)
    if array.dtype == np.int64:
        array = array.astype(np.int64)
        if array.size == 0 or (abs(array) < 2**31).all():
            array = array.astype(np.int32)
    name = DTYPES[array.dtype.name]
    flat = array.reshape(-1)
    return {"dtype": name, "shape": list(array.shape), "data": [_scalar(x, name) for x in flat]}


def untensor(node):
    """Back from the JSON form; float32 stays float32."""
    kinds = {v: k for k, v in DTYPES.items()}
    data = [float(x) if isinstance(x, str) else x for x in node["data"]]
    return np.array(data, dtype=kinds[node["dtype"]]).reshape(node["shape"])


def scalar(x):
    """A plain number for parameters and scalar results."""
    x = float(x)
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return x


def is_tensor(node):
    return isinstance(node, dict) and set(node) == {"dtype", "shape", "data"}


def write_json(document, path):
    path.write_text(render(document) + "\n")


def render(node, indent=0):
    pad = "  " * indent
    if is_tensor(node):
        return json.dumps(node, separators=(",", ":"), allow_nan=False)
    if isinstance(node, dict):
        if not node:
            return "{}"
        flat = json.dumps(node, allow_nan=False)
        if len(flat) < 110 and not any(isinstance(v, dict) for v in node.values()):
            return flat
        rows = [f'{pad}  {json.dumps(k)}: {render(v, indent + 1)}' for k, v in node.items()]
        return "{\n" + ",\n".join(rows) + f"\n{pad}}}"
    if isinstance(node, list) and any(isinstance(x, dict) for x in node):
        rows = [f"{pad}  {render(x, indent + 1)}" for x in node]
        return "[\n" + ",\n".join(rows) + f"\n{pad}]"
    return json.dumps(node, separators=(",", ":"), allow_nan=False)


def document(method, package, version, call, cases, kind="running code", note=""):
    return {
        "method": method,
        "source": {"package": package, "version": version, "call": call},
        "kind": kind,
        "note": note,
        "cases": cases,
    }


# --- seeded inputs -------------------------------------------------------------------------------------------------

def random_floats(seed, *shape, scale=1.0):
    """Values on a grid of 1/1024 in about +-2 scale: exact in float32 and short in the file."""
    rng = np.random.default_rng(seed)
    values = np.clip(rng.standard_normal(shape), -2, 2) * scale
    return (np.round(values * 1024) / 1024).astype(np.float32)


# --- exact values --------------------------------------------------------------------------------------------------

def exact_inv_freq(base, dim, rotary_dim=None):
    """theta^(-2i/dim), i < rotary_dim/2, as mpmath numbers."""
    count = (dim if rotary_dim is None else rotary_dim) // 2
    return [mpmath.mpf(base) ** (mpmath.mpf(-2 * i) / dim) for i in range(count)]


def doubles(values):
    return np.array([float(v) for v in values], dtype=np.float64)


def exact_rotation(x, angles, pairing, attention_factor=1.0, start=0):
    """Rotates [tokens, heads, head_dim] by angles[token][pair] (mpmath) in float64, from `start` on.

    The sines come from mpmath, so the only error is that of a few float64 operations.
    """
    x = np.asarray(x, dtype=np.float64)
    out = x.copy()
    tokens = x.shape[0]
    pairs = len(angles[0])
    cos = np.array([[float(mpmath.cos(a)) for a in row] for row in angles]) * attention_factor
    sin = np.array([[float(mpmath.sin(a)) for a in row] for row in angles]) * attention_factor
    for t in range(tokens):
        for i in range(pairs):
            if pairing == "half-split":
                a, b = start + i, start + i + pairs
            else:
                a, b = start + 2 * i, start + 2 * i + 1
            out[t, :, a] = x[t, :, a] * cos[t, i] - x[t, :, b] * sin[t, i]
            out[t, :, b] = x[t, :, b] * cos[t, i] + x[t, :, a] * sin[t, i]
    return out


def angles_of(positions, inv_freq):
    return [[mpmath.mpf(int(p)) * f for f in inv_freq] for p in positions]


def error(source, exact):
    """Largest absolute difference over the finite entries."""
    a = to_numpy(source).astype(np.float64)
    b = to_numpy(exact).astype(np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.max(np.abs(a[both] - b[both]))) if both.any() else 0.0
