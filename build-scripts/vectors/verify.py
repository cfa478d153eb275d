"""Second formulas over the committed files: written differently from the generators, numpy alone.

Each check reads a file as a test would and recomputes what it can by another route (complex numbers instead of
paired multiplications, a loop instead of a gather, ...). Prints one line a file.
"""

import json
import math

import numpy as np

import common


def load(name):
    return json.loads((common.VECTORS / name).read_text())


def get(case, group, key):
    return common.untensor(case[group][key])


class Mismatch(Exception):
    pass


def near(got, want, tolerance, what):
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    if got.shape != want.shape:
        raise Mismatch(f"{what}: shape {got.shape} against {want.shape}")
    distance = np.max(np.abs(got - want)) if got.size else 0.0
    if not distance <= tolerance:
        raise Mismatch(f"{what}: differs by {distance:.3g}, allowed {tolerance:.3g}")


# --- rotation: multiply complex numbers ----------------------------------------------------------------------------

def turn(x, positions, inv_freq, pairing, factor=1.0, start=0):
    x = np.asarray(x, dtype=np.float64)
    out = x.copy()
    half = len(inv_freq)
    part = x[..., start:start + 2 * half]
    z = part[..., :half] + 1j * part[..., half:] if pairing == "half-split" else part[..., 0::2] + 1j * part[..., 1::2]
    # Reduce in exact integer steps: position * f / 2 pi loses its fraction at far positions otherwise.
    phase = np.array([[math.fmod(float(p) * f, 2 * math.pi) for f in inv_freq] for p in positions])
    z = z * (factor * np.exp(1j * phase))[:, None, :]
    if pairing == "half-split":
        out[..., start:start + half], out[..., start + half:start + 2 * half] = z.real, z.imag
    else:
        out[..., start:start + 2 * half:2], out[..., start + 1:start + 2 * half:2] = z.real, z.imag
    return out


def plain_frequencies(base, dim):
    return np.exp(-np.log(base) * np.arange(0, dim, 2) / dim)


def check_rotation(document):
    for case in document["cases"]:
        p = case["parameters"]
        positions = get(case, "inputs", "positions")
        inv_freq = plain_frequencies(p["base"], p["rotary_dim"])
        # A double's angle is off by about position * 2^-52.
        tolerance = 1e-12 + 4e-15 * positions.max()
        for name in ("q", "k"):
            got = turn(get(case, "inputs", name), positions, inv_freq, p["pairing"], p["attention_factor"],
                       p["rotary_start"])
            near(got, get(case, "exact", name), tolerance, f"{case['name']}: {name} against exact")
            near(get(case, "expected", name), get(case, "exact", name), case["source_error"] * 1.000001,
                 f"{case['name']}: stated source error")


def check_mla(document):
    for case in document["cases"]:
        p = case["parameters"]
        positions = get(case, "inputs", "positions")
        inv_freq = plain_frequencies(p["base"], p["rope_dim"])
        q = turn(get(case, "inputs", "q"), positions, inv_freq, "interleaved", start=p["nope_dim"])
        k_rope = turn(get(case, "inputs", "k_rope"), positions, inv_freq, "interleaved")
        k = np.concatenate([get(case, "inputs", "k_nope"), np.repeat(k_rope, p["heads"], 1)], -1)
        near(np.einsum("qhd,khd->hqk", q, k), get(case, "exact", "scores"), 1e-10, case["name"])


def check_xpos(document):
    for case in document["cases"]:
        p = case["parameters"]
        d = p["rotary_dim"]
        positions = get(case, "inputs", "positions")
        q, k = get(case, "inputs", "q").astype(float), get(case, "inputs", "k").astype(float)
        zq, zk = q[:, 0, 0::2] + 1j * q[:, 0, 1::2], k[:, 0, 0::2] + 1j * k[:, 0, 1::2]
        zeta = (np.arange(0, d, 2) + 0.4 * d) / (1.4 * d)
        f = plain_frequencies(p["base"], d)
        scores = np.zeros((1, len(positions), len(positions)))
        for m in positions:
            for n in positions:  # only m - n matters: no centre appears
                scores[0, m, n] = np.sum((zq[m] * np.conj(zk[n]) * np.exp(1j * f * (m - n))).real
                                         * zeta ** ((m - n) / p["scale_base"]))
        near(scores, get(case, "exact", "scores"), 1e-10, case["name"])


# --- rules: everything from wavelengths ----------------------------------------------------------------------------

def check_yarn(document):
    for case in document["cases"]:
        p = case["parameters"]
        d, s, length = p["rotary_dim"], p["resolved_factor"], p["original_max_position_embeddings"]
        plain = plain_frequencies(p["base"], d)
        ends = []
        for turns in (p.get("beta_fast") or 32, p.get("beta_slow") or 1):
            # the (real-valued) pair index whose wavelength fits `turns` times into the original length
            ends.append(math.log(length / (2 * math.pi * turns), p["base"]) * d / 2)
        if p.get("truncate", True):
            ends = [math.floor(ends[0]), math.ceil(ends[1])]
        low, high = max(ends[0], 0), min(ends[1], d - 1)
        high = high + 0.001 if low == high else high
        out = []
        for i, f in enumerate(plain):
            share = (i - low) / (high - low)
            share = 0.0 if share < 0 else 1.0 if share > 1 else share
            out.append(f * (1 + share * (1 / s - 1)))
        near(np.array(out) / plain, get(case, "exact", "inv_freq") / plain, 1e-10, case["name"])


def check_llama3(document):
    for case in document["cases"]:
        p = case["parameters"]
        plain = plain_frequencies(p["base"], p["rotary_dim"])
        turns = p["original_max_position_embeddings"] * plain / (2 * np.pi)
        low, high = p["low_freq_factor"], p["high_freq_factor"]
        if low == high:
            keep = (turns > low).astype(float)
        else:
            keep = np.clip((turns - low) / (high - low), 0, 1)
        near((keep + (1 - keep) / p["factor"]), get(case, "exact", "inv_freq") / plain, 1e-10, case["name"])


def check_frequencies(document):
    """Every other rule is a plain ladder over some base, divided by something."""
    for case in document["cases"]:
        p = case["parameters"]
        base = p.get("scaled_base", p["base"])
        if "rotated_pairs" in p:
            want = plain_frequencies(base, p["head_dim"]) / p["factor"]
            want[p["rotated_pairs"]:] = 0
        else:
            want = plain_frequencies(base, p["rotary_dim"])
            if "short_factor" in p:
                longer = (p["length"] or 0) > p["original_max_position_embeddings"]
                want = want / np.array(p["long_factor" if longer else "short_factor"])
            elif "factor" in p and "scaled_base" not in p:
                want = want / p["factor"]
        near(get(case, "exact", "inv_freq"), want, 1e-13, case["name"])


# --- several axes ----------------------------------------------------------------------------------------------------

def check_axes(document):
    for case in document["cases"]:
        p = case["parameters"]
        positions = get(case, "inputs", "positions").astype(float)
        axis = np.array(p.get("axis_of_pair"))
        if "sections" in p:
            ladder = plain_frequencies(p["base"], p["rotary_dim"])
        else:
            ladder = plain_frequencies(p["base"], p["ladder_dim"])[p["ladder_index_of_pair"]]
        phase = positions[axis].T * ladder  # [tokens, pairs]
        for name in ("q", "k"):
            x = get(case, "inputs", name).astype(float)
            half = x.shape[-1] // 2
            if p["pairing"] == "half-split":
                z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * phase)[:, None]
                got = np.concatenate([z.real, z.imag], -1)
            else:
                z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * phase)[:, None]
                got = np.stack([z.real, z.imag], -1).reshape(x.shape)
            near(got, get(case, "exact", name), 1e-10, f"{case['name']}: {name}")


def check_pixel(document):
    for case in document["cases"]:
        p = case["parameters"]
        ladder = np.linspace(1, p["max_freq"] / 2, p["features_per_axis"] // 2) * np.pi
        rows, columns = get(case, "inputs", "coordinates")
        near(rows, np.repeat(np.linspace(-1, 1, p["height"]), p["width"]), 1e-15, "rows")
        phase = np.concatenate([np.outer(rows, ladder), np.outer(columns, ladder)], 1)
        near(phase, get(case, "exact", "angles"), 1e-9, case["name"])


def check_timm(document):
    for case in document["cases"]:
        p = case["parameters"]
        bands = p["head_dim"] // 4
        sides = (p["height"], p["width"])
        if p["in_pixels"]:
            ladder = 2 ** np.linspace(0, np.log2(p["max_res"] / 2), bands) * np.pi
            lines = [np.linspace(-1, 1, n) for n in sides]
        else:
            ladder = np.exp(-np.log(p["temperature"]) * np.arange(bands) / bands)
            lines = [np.arange(n) * (r / n) for n, r in zip(sides, p["reference"] or sides)]
        rows, columns = np.meshgrid(*lines, indexing="ij")
        phase = np.concatenate([np.outer(rows.ravel(), ladder), np.outer(columns.ravel(), ladder)], 1)
        near(phase, get(case, "exact", "angles"), 1e-9, case["name"])


def check_mrope_positions(document):
    """Walks the row token by token instead of group by group."""
    for case in document["cases"]:
        p = case["parameters"]
        merge = p["spatial_merge_size"]
        late = "4.x" in p["builder"]
        kinds, mask = get(case, "inputs", "token_types"), get(case, "inputs", "attention_mask")
        images, videos = get(case, "inputs", "image_grid_thw").tolist(), get(case, "inputs", "video_grid_thw").tolist()
        if "Qwen3" in p["builder"]:
            videos = [[1, h, w] for t, h, w in videos for _ in range(t)]
        want, deltas = get(case, "expected", "positions"), get(case, "expected", "deltas")
        has_vision = bool(images or videos)
        for row in range(kinds.shape[0]):
            current, inside, real, largest = 0, None, 0, -1
            for column in range(kinds.shape[1]):
                if not mask[row, column]:
                    near(want[:, row, column], [1 if late else 0] * 3, 0, f"{case['name']}: padding")
                    continue
                real += 1
                kind = kinds[row, column]
                if kind == 0:
                    got = [current] * 3
                    current += 1
                    inside = None
                else:
                    if inside is None or inside[0] == 0:
                        t, h, w = (images if kind == 1 else videos).pop(0)
                        h, w = h // merge, w // merge
                        inside = [t * h * w, 0, t, h, w, current]
                    left, n, t, h, w, start = inside
                    step = p["tokens_per_second"] * p["second_per_grid"] if "tokens_per_second" in p and kind == 2 else 1
                    got = [start + int(n // (h * w) * step), start + n // w % h, start + n % w]
                    inside[0], inside[1] = left - 1, n + 1
                    if inside[0] == 0:
                        current = start + (max(t, h, w) if late else max(h, w))
                largest = max(largest, *got)
                near(want[:, row, column], got, 0, f"{case['name']}: token {column}")
            length = kinds.shape[1] if late else real
            near(deltas[row, 0], largest + 1 - length, 0, f"{case['name']}: delta")


# --- layers ----------------------------------------------------------------------------------------------------------

def check_temperature(document):
    for case in document["cases"]:
        p = case["parameters"]
        steps = (get(case, "inputs", "positions").astype(np.int64) + p["position_offset"]) // p["floor_scale"]
        near(1 + p["attn_scale"] * np.log(1.0 + steps), get(case, "exact", "temperature"), 1e-13, case["name"])


def check_permutation(document):
    for case in document["cases"]:
        heads, dim = case["parameters"]["heads"], case["parameters"]["head_dim"]
        index = get(case, "expected", "source_row")
        want = [h * dim + (2 * i if i < dim // 2 else 2 * (i - dim // 2) + 1) for h in range(heads) for i in range(dim)]
        near(index, want, 0, case["name"])
        near(get(case, "inputs", "interleaved_weight")[index], get(case, "expected", "half_split_weight"), 0, case["name"])


# --- door 1 ----------------------------------------------------------------------------------------------------------

def check_sinusoids(document):
    """As the imaginary and real parts of powers of one rotation, pair by pair."""
    method = document["method"]
    for case in document["cases"]:
        p, want = case["parameters"], get(case, "exact", "table")
        positions = get(case, "inputs", "positions").astype(np.float64)
        width = p["width"]
        if "interleaved" in method or "concatenated" in method:
            pairs = (width + 1) // 2
            ladder = p["base"] ** (-2.0 * np.arange(pairs) / width)
        elif "MLX" in method:
            ladder = np.geomspace(p["max_freq"], p["min_freq"], width // 2) if width > 2 else np.array([p["max_freq"]])
            ladder = ladder * (2 * np.pi if p["full_turns"] else 1)
        else:
            n = width // 2
            ladder = p["min_timescale"] * np.geomspace(1, p["min_timescale"] / p["max_timescale"], n) if n > 1 \
                else np.array([p["min_timescale"]])
        z = np.exp(1j * np.fmod(np.outer(positions, ladder), 2 * np.pi))
        sines, cosines = z.imag, z.real
        if "interleaved" in method:
            got = np.stack([sines, cosines], -1).reshape(len(positions), -1)[:, :width]
        elif "concatenated" in method:
            got = np.concatenate([sines, cosines[:, :width // 2]], 1)
        elif "MLX" in method:
            got = p["scale"] * np.concatenate([cosines, sines] if p["cos_first"] else [sines, cosines], 1)
        else:
            got = np.concatenate([sines, cosines, np.zeros((len(positions), width % 2))], 1)
        near(got, want, 1e-12 + 1e-15 * positions.max(), case["name"])


def axis_weights(old, new, mode, corners, antialias):
    """Resampling one axis is a matrix [new, old]."""
    out = np.zeros((new, old))
    scale = old / new
    if corners and not antialias:
        centers = [i * (old - 1) / (new - 1) if new > 1 else 0.0 for i in range(new)]
    else:
        centers = [(i + 0.5) * scale - 0.5 for i in range(new)]
    if mode == "linear" or mode == "bilinear":
        reach, kernel = 1.0, lambda t: max(0.0, 1 - abs(t))
    else:
        a, reach = (-0.5 if antialias else -0.75), 2.0

        def kernel(t):
            t = abs(t)
            if t < 1:
                return (a + 2) * t ** 3 - (a + 3) * t ** 2 + 1
            return a * t ** 3 - 5 * a * t ** 2 + 8 * a * t - 4 * a if t < 2 else 0.0

    stretch = max(scale, 1.0) if antialias else 1.0
    for i, c in enumerate(centers):
        if antialias:
            for j in range(old):
                out[i, j] = kernel((j - c) / stretch)
            out[i] /= out[i].sum()
        else:
            if mode != "bicubic" and not corners:
                c = max(c, 0.0)
            for j in range(math.floor(c) - 2, math.floor(c) + 4):
                out[i, min(max(j, 0), old - 1)] += kernel(j - c)
    return out


def check_linear(document):
    for case in document["cases"]:
        p, table = case["parameters"], get(case, "inputs", "table").astype(float)
        weights = axis_weights(len(table), p["rows"], "linear", p["align_corners"], False)
        near(weights @ table, get(case, "exact", "table"), 1e-12, case["name"])


def check_grid(document):
    for case in document["cases"]:
        p, table = case["parameters"], get(case, "inputs", "table").astype(float)
        (h, w), (nh, nw), prefix = p["from"], p["to"], p["prefix_rows"]
        rows = axis_weights(h, nh, p["mode"], p["align_corners"], p["antialias"])
        columns = axis_weights(w, nw, p["mode"], p["align_corners"], p["antialias"])
        got = np.einsum("ih,jw,hwd->ijd", rows, columns, table[prefix:].reshape(h, w, -1))
        m = p.get("merge", 1)
        order = sorted(((r, c) for r in range(nh) for c in range(nw)),
                       key=lambda rc: (rc[0] // m, rc[1] // m, rc[0] % m, rc[1] % m)) if m > 1 else \
            [(r, c) for r in range(nh) for c in range(nw)]
        got = np.concatenate([table[:prefix], np.array([got[r, c] for r, c in order])])
        near(got, get(case, "exact", "table"), 1e-12, case["name"])


def check_rows(document):
    for case in document["cases"]:
        p, want = case["parameters"], get(case, "expected", "rows")
        past = p.get("cache_length", 0)
        if p["method"] == "OPT":
            mask = get(case, "inputs", "attention_mask")
            got = [[row[:c + 1].sum() * row[c] - 1 + 2 for c in range(past, len(row))] for row in mask]
        elif p["method"] == "BART":
            got = [[past + 2 + c for c in range(p["tokens"])]] * 2
        elif p["method"] == "RoBERTa embeddings":
            got = [[p["padding_idx"] + 1 + c for c in range(p["tokens"])]] * p["batch"]
        else:
            pad = p["padding_idx"]
            got = [[pad if x == pad else pad + past + sum(y != pad for y in row[:c + 1]) for c, x in enumerate(row)]
                   for row in get(case, "inputs", "input_ids").tolist()]
        near(got, want, 0, case["name"])


# --- door 3 ----------------------------------------------------------------------------------------------------------

T5_STARTS = {  # first distance of each bucket, by hand from the definition
    (True, 32, 128): [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91],
    (False, 32, 128): list(range(17)) + [19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113],
}


def check_t5(document):
    for case in document["cases"]:
        p = case["parameters"]
        if "displacement" not in case["inputs"]:
            continue
        d = get(case, "inputs", "displacement").astype(np.int64)
        got = get(case, "expected", "bucket")
        near(got, get(case, "exact", "bucket"), 0, case["name"])
        half = p["buckets"] // 2 if p["bidirectional"] else p["buckets"]
        distance = np.abs(d) if p["bidirectional"] else np.maximum(-d, 0)
        starts = T5_STARTS.get((p["bidirectional"], p["buckets"], p["max_distance"]))
        if starts is not None:
            want = np.searchsorted(starts, distance, side="right") - 1
        else:
            exact = half // 2
            ratio = np.log(np.maximum(distance, 1) / exact) / np.log(p["max_distance"] / exact) * (half - exact)
            want = np.where(distance < exact, distance, np.minimum(exact + np.floor(ratio + 1e-9), half - 1))
        if p["bidirectional"]:
            want = want + np.where(d > 0, half, 0)
        near(got, want, 0, case["name"])


def slopes_by_recursion(n, top=8):
    if n & (n - 1) == 0:
        ratio = 2.0 ** (-top / n)
        return [ratio ** (k + 1) for k in range(n)]
    c = 1 << (n.bit_length() - 1)
    return slopes_by_recursion(c, top) + slopes_by_recursion(2 * c, top)[0::2][:n - c]


def check_slopes(document):
    for case in document["cases"]:
        p = case["parameters"]
        if "last_heads" in p:
            want = np.concatenate([slopes_by_recursion(n) for n in range(p["first_heads"], p["last_heads"] + 1)])
            near(get(case, "expected", "slopes") / want, np.ones_like(want), 1e-6, case["name"])
        else:
            near(get(case, "exact", "slopes"), slopes_by_recursion(p["heads"], p["bias_max"]), 1e-15, case["name"])


def check_kerple(document):
    for case in document["cases"]:
        p, d = case["parameters"], get(case, "inputs", "distance").astype(float)
        want = -p["r1"] * (np.log1p(p["r2"] * d) if p["kind"] == "logarithmic" else d ** p["r2"])
        near(get(case, "exact", "bias") / (1 + np.abs(want)), want / (1 + np.abs(want)), 1e-14, case["name"])


def check_fire(document):
    for case in document["cases"]:
        p = case["parameters"]
        w1, b1, w2, b2 = (get(case, "inputs", n).astype(float) for n in ("w1", "b1", "w2", "b2"))
        i, j = np.indices((p["length"], p["length"]))
        x = np.log1p(p["c"] * np.maximum(i - j, 0)) / (np.log1p(p["c"] * np.maximum(i, p["threshold"])) + p["epsilon"])
        hidden = np.maximum(x[..., None] * w1 + b1, 0)
        want = np.where(i >= j, np.moveaxis(hidden @ w2.T + b2, -1, 0), 0)
        near(get(case, "exact", "bias"), want, 1e-12, case["name"])


def check_sandwich(document):
    for case in document["cases"]:
        p = case["parameters"]
        d = np.subtract.outer(np.arange(p["length"]), np.arange(p["length"]))
        waves = np.real(np.exp(1j * d[..., None] * plain_frequencies(p["base"], p["width"]))).sum(-1)
        want = np.stack([waves * p["heads"] / (8 * (h + 1)) for h in range(p["heads"])])
        near(get(case, "exact", "bias"), want, 1e-11, case["name"])


def check_t5_attention(document):
    """Bias by counting how many thresholds a distance has reached, then each query on its own."""
    for case in document["cases"]:
        p = case["parameters"]
        q, k, v, table = (get(case, "inputs", n).astype(float) for n in ("q", "k", "v", "table"))
        side = p["buckets"] // 2 if p["bidirectional"] else p["buckets"]
        exact = side // 2
        starts = [exact * (p["max_distance"] / exact) ** (m / (side - exact)) - 1e-9 for m in range(side - exact)]
        out = np.zeros((len(q), q.shape[1], v.shape[2]))
        for t in range(len(q)):
            at = len(k) - len(q) + t
            for h in range(q.shape[1]):
                seen = range(at + 1) if p["causal"] else range(len(k))
                s = []
                for j in seen:
                    r = abs(j - at) if p["bidirectional"] else max(at - j, 0)
                    bucket = r if r < exact else exact - 1 + sum(r >= start for start in starts)
                    s.append(q[t, h] @ k[j, h] + table[bucket + (side if p["bidirectional"] and j > at else 0), h])
                w = np.exp(np.array(s) - max(s))
                out[t, h] = w / w.sum() @ v[list(seen), h]
        near(out, get(case, "exact", "output"), 1e-12, case["name"])


def check_shaw(document):
    for case in document["cases"]:
        if "BERT" in case["name"]:
            continue
        p = case["parameters"]
        q, k, v, a, b = (get(case, "inputs", n).astype(float) for n in ("q", "k", "v", "key_table", "value_table"))
        offset = len(k) - len(q)
        out = np.zeros((len(q), q.shape[1], v.shape[2]))
        for t in range(len(q)):
            for h in range(q.shape[1]):
                seen = range(offset + t + 1) if p["causal"] else range(len(k))
                rows = [max(-p["clip"], min(p["clip"], j - offset - t)) + p["clip"] for j in seen]
                s = np.array([p["scale"] * q[t, h] @ (k[j, h] + a[r]) for j, r in zip(seen, rows)])
                w = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
                out[t, h] = sum(x * (v[j, h] + b[r]) for x, j, r in zip(w, seen, rows))
        near(out, get(case, "exact", "output"), 1e-12, case["name"])


def check_shift(document):
    """The shift of a counter as a rule on indices."""
    for case in document["cases"]:
        if "shifted" not in case["expected"]:
            continue
        x, want = get(case, "inputs", "x"), get(case, "expected", "shifted")
        rows, columns = x.shape
        flat = []
        for r in range(rows):
            flat += ([0.0] if case["parameters"]["method"] == "Transformer-XL" else []) + list(x[r])
        if case["parameters"]["method"] == "Transformer-XL":
            got = np.array(flat[rows:]).reshape(rows, columns)
        else:
            got = np.array(flat[rows:]).reshape(rows, columns - 1)[:, :case["parameters"]["keys"]]
        near(got, want, 0, case["name"])


def check_deberta_buckets(document):
    for case in document["cases"]:
        p, r = case["parameters"], get(case, "inputs", "query_minus_key").astype(float)
        mid = p["buckets"] // 2
        far = mid + np.ceil(np.log(np.maximum(abs(r), 1) / mid) / np.log((p["max_position"] - 1) / mid) * (mid - 1) - 1e-9)
        near(get(case, "exact", "bucket"), np.where(abs(r) <= mid, r, np.sign(r) * far), 0, case["name"])
        near(get(case, "expected", "bucket"), get(case, "exact", "bucket"), 0, case["name"])


# --- attention and decoder -------------------------------------------------------------------------------------------

def check_sdpa(document):
    """Scores of every pair, then a softmax over the visible ones, all heads at once."""
    for case in document["cases"]:
        p = case["parameters"]
        q, k, v = (get(case, "inputs", n).astype(float) for n in "qkv")
        seen = get(case, "inputs", "visible").astype(bool)
        group = p["heads"] // p["kv_heads"]
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        s = np.einsum("qhd,khd->hqk", q, k) * p["scale"]
        if "softcap" in p:
            s = p["softcap"] * np.tanh(s / p["softcap"])
        if "bias" in case["inputs"]:
            s = s + get(case, "inputs", "bias")
        top = np.where(seen, s, -1e300).max(-1, keepdims=True)
        e = np.where(seen, np.exp(np.minimum(s - top, 0)), 0)
        total = e.sum(-1, keepdims=True)
        if "sinks" in case["inputs"]:
            total = total + np.exp(get(case, "inputs", "sinks")[:, None, None] - top)
        w = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
        near(np.einsum("hqk,khd->qhd", w, v), get(case, "exact" if "exact" in case else "expected", "output"), 1e-11, case["name"])


def read_safetensors(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    out = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        part = raw[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(part, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(part, {"F32": np.float32, "F16": np.float16}[entry["dtype"]])
        out[name] = values.astype(np.float64).reshape(entry["shape"])
    return out


def rule_ladder(rope, dim, maximum, length):
    """Inverse frequencies and attention factor of a rule, from the papers."""
    kind, base = rope["rope_type"], rope["rope_theta"]
    ladder, factor = plain_frequencies(base, dim), 1.0
    s = rope.get("factor")
    if kind == "linear":
        ladder = ladder / s
    elif kind == "dynamic" and length > maximum:
        ladder = plain_frequencies(base * (s * length / maximum - (s - 1)) ** (dim / (dim - 2)), dim)
    elif kind == "llama3":
        turns = rope["original_max_position_embeddings"] * ladder / (2 * np.pi)
        keep = np.clip((turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"]), 0, 1)
        ladder = ladder * (keep + (1 - keep) / s)
    elif kind == "longrope":
        original = rope["original_max_position_embeddings"]
        ladder = ladder / np.array(rope["long_factor" if length > original else "short_factor"])
        factor = math.sqrt(1 + math.log(s) / math.log(original))
    elif kind == "yarn":
        ends = [math.log(rope["original_max_position_embeddings"] / (2 * math.pi * turns), base) * dim / 2
                for turns in (rope.get("beta_fast", 32), rope.get("beta_slow", 1))]
        if rope.get("truncate", True):
            ends = [math.floor(ends[0]), math.ceil(ends[1])]
        low, high = max(ends[0], 0), min(ends[1], dim - 1)
        high = high + 0.001 if low == high else high
        share = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        ladder = ladder * (1 - share + share / s)
        grown = lambda m: 0.1 * m * math.log(s) + 1 if s > 1 else 1.0
        factor = rope["attention_factor"] if "attention_factor" in rope else \
            grown(rope["mscale"]) / grown(rope["mscale_all_dim"]) if "mscale" in rope else grown(1)
    return ladder, factor


def llama_logits(weights, config, tokens, positions, segments):
    """A Llama forward in float64, from the paper's parts."""
    heads, kv_heads, dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    rope = config["rope_parameters"]
    ladder, factor = rule_ladder(rope, dim, config.get("max_position_embeddings"), int(max(positions)) + 1)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weights[name]

    count = len(tokens)
    seen = (np.arange(count)[None] <= np.arange(count)[:, None]) & (segments[None] == segments[:, None])
    if config.get("sliding_window"):
        seen &= np.arange(count)[:, None] - np.arange(count)[None] < config["sliding_window"]
    heat = np.ones(count)
    if "llama_4_scaling_beta" in rope:
        heat = 1 + rope["llama_4_scaling_beta"] * np.log(1 + np.array(positions) // rope["original_max_position_embeddings"])
    x = weights["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        h = norm(x, prefix + "input_layernorm.weight")
        q, k, v = (h @ weights[f"{prefix}self_attn.{n}_proj.weight"].T for n in "qkv")
        q, k, v = q.reshape(count, heads, dim), k.reshape(count, kv_heads, dim), v.reshape(count, kv_heads, dim)
        if config.get("no_rope_layers", [1] * 9)[layer]:
            q, k = (turn(z, positions, ladder, "half-split", factor) for z in (q, k))
        q = q * heat[:, None, None]
        k, v = k.repeat(heads // kv_heads, 1), v.repeat(heads // kv_heads, 1)
        s = np.where(seen, np.einsum("qhd,khd->hqk", q, k) / math.sqrt(dim), -np.inf)
        w = np.exp(s - s.max(-1, keepdims=True))
        w = w / w.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", w, v).reshape(count, -1) @ weights[prefix + "self_attn.o_proj.weight"].T
        h = norm(x, prefix + "post_attention_layernorm.weight")
        gate = h @ weights[prefix + "mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ weights[prefix + "mlp.up_proj.weight"].T)) @ weights[prefix + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight") @ weights["model.embed_tokens.weight"].T


def check_variants(document):
    weights = read_safetensors(common.VECTORS / document["config"]["weights"])
    for case in document["cases"]:
        tokens = get(case, "inputs", "tokens")
        got = llama_logits(weights, {**document["config"], **case["parameters"]}, tokens, np.arange(len(tokens)), np.zeros(len(tokens), int))
        near(got, get(case, "expected", "logits"), 3e-5, case["name"])


def check_llama(document):
    config = document["config"]
    weights = read_safetensors(common.VECTORS / config["weights"])
    for case in document["cases"]:
        tokens = get(case, "inputs", "tokens")
        if tokens.ndim == 2:
            mask, places, want = get(case, "inputs", "attention_mask"), get(case, "inputs", "positions"), get(case, "expected", "last_logits")
            for row in range(len(tokens)):
                keep = mask[row] == 1
                got = llama_logits(weights, config, tokens[row][keep], places[row][keep], np.zeros(keep.sum(), int))
                near(got[-1], want[row], 3e-5, f"{case['name']}, row {row}")
            continue
        if "generated" in case["expected"]:
            ids = list(tokens)
            for token in get(case, "expected", "generated"):
                logits = llama_logits(weights, config, np.array(ids), np.arange(len(ids)), np.zeros(len(ids), int))[-1]
                near(int(logits.argmax()), token, 0, case["name"])
                ids.append(int(token))
            continue
        positions = get(case, "inputs", "positions") if "positions" in case["inputs"] else np.arange(len(tokens))
        segments = np.repeat(np.arange(len(case["parameters"].get("lengths", [0]))), case["parameters"].get("lengths", [len(tokens)]))
        got = llama_logits(weights, config, tokens, positions, segments)
        if "logits" in case["expected"]:
            near(got, get(case, "expected", "logits"), 3e-5, case["name"])
        else:
            near(got[-1], get(case, "expected", "last_logits"), 3e-5, case["name"])


def check_sampling(document):
    for case in document["cases"]:
        p = case["parameters"]
        z = get(case, "inputs", "logits").astype(float) / p.get("temperature", 1.0)
        kept = np.isfinite(z)
        if "top_k" in p:
            kept &= z >= np.sort(z)[::-1][min(p["top_k"], len(z)) - 1]
        w = np.where(kept, np.exp(z - z.max()), 0)
        w = w / w.sum()
        if "top_p" in p:
            total, chosen = 0.0, []
            for i in np.argsort(-w, kind="stable"):
                if chosen and total >= p["top_p"]:
                    break
                chosen.append(i)
                total += w[i]
            kept &= np.isin(np.arange(len(z)), chosen)
            w = np.where(kept, w, 0)
            w = w / w.sum()
        near(kept, get(case, "expected", "kept"), 0, case["name"])
        near(w, get(case, "expected", "probabilities"), 1e-6, case["name"])


CHECKS = {
    "rotary_half_split.json": check_rotation,
    "rotary_interleaved.json": check_rotation,
    "rotary_partial.json": check_rotation,
    "rotary_mla.json": check_mla,
    "rotary_xpos.json": check_xpos,
    "rules_default.json": check_frequencies,
    "rules_linear.json": check_frequencies,
    "rules_ntk_static.json": check_frequencies,
    "rules_dynamic_ntk.json": check_frequencies,
    "rules_longrope.json": check_frequencies,
    "rules_proportional.json": check_frequencies,
    "rules_yarn.json": check_yarn,
    "rules_llama3.json": check_llama3,
    "rotary_mrope_chunked.json": check_axes,
    "rotary_mrope_interleaved.json": check_axes,
    "rotary_axial_qwen2vl.json": check_axes,
    "rotary_axial_pixtral.json": check_axes,
    "rotary_axial_llama4.json": check_axes,
    "rotary_axial_pixel.json": check_pixel,
    "rotary_axial_timm.json": check_timm,
    "positions_mrope.json": check_mrope_positions,
    "attention_temperature.json": check_temperature,
    "rotary_weight_permutation.json": check_permutation,
    "sinusoidal_interleaved.json": check_sinusoids,
    "sinusoidal_concatenated.json": check_sinusoids,
    "sinusoidal_t2t.json": check_sinusoids,
    "sinusoidal_mlx.json": check_sinusoids,
    "table_interpolation_linear.json": check_linear,
    "table_interpolation_grid.json": check_grid,
    "positions_learned.json": check_rows,
    "bias_t5.json": check_t5,
    "bias_alibi_slopes.json": check_slopes,
    "bias_kerple.json": check_kerple,
    "bias_fire.json": check_fire,
    "bias_sandwich.json": check_sandwich,
    "bias_shaw.json": check_shaw,
    "bias_transformer_xl.json": check_shift,
    "bias_t5_attention.json": check_t5_attention,
    "bias_deberta_buckets.json": check_deberta_buckets,
    "attention_sdpa.json": check_sdpa,
    "attention_softcap.json": check_sdpa,
    "attention_sinks.json": check_sdpa,
    "sampling.json": check_sampling,
    "decoder_llama.json": check_llama,
    "decoder_llama_llama3.json": check_llama,
    "decoder_llama_bf16.json": check_llama,
    "decoder_llama_variants.json": check_variants,
    "decoder_llama_f16.json": check_llama,
}


def run(only=()):
    failed = 0
    for name, check in CHECKS.items():
        if only and not any(part in name for part in only):
            continue
        try:
            check(load(name))
            print(f"verified  {name}")
        except Mismatch as problem:
            print(f"WRONG  {name}: {problem}")
            failed += 1
    return failed
