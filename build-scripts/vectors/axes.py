"""Door 2 with several axes: M-RoPE (chunked and interleaved) with its position builders, and 2-D rotary of vision models.

Positions are [axes, tokens] (or [axes, batch, tokens]); q and k are [tokens, heads, head_dim]. `axis_of_pair` names,
for each pair, the axis whose position turns it.
"""

import types
from importlib.metadata import version

import mpmath
import numpy as np
import torch
import transformers
from mpmath import mpf
from transformers.models.llama4 import modeling_llama4
from transformers.models.pixtral import modeling_pixtral
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl import modeling_qwen2_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl
from transformers.vision_utils import get_vision_position_ids

import old
from common import document, error, exact_inv_freq, exact_rotation, random_floats, tensor
from rotary import batch, unbatch

VERSION = transformers.__version__
TOKENS = {"image_token_id": 101, "video_token_id": 102, "vision_start_token_id": 100}


def axis_angles(positions, inv_freq, axis_of_pair):
    """positions [axes][tokens]; -> [tokens][pairs]"""
    tokens = len(positions[0])
    return [[mpf(int(positions[a][t])) * f for f, a in zip(inv_freq, axis_of_pair)] for t in range(tokens)]


def mrope_positions(seed, axes, tokens, top):
    rng = np.random.default_rng(seed)
    return np.sort(rng.integers(0, top, size=(axes, tokens)), axis=1)


def mrope_cases(kind, shapes):
    cases = []
    for index, (dim, section, base, positions) in enumerate(shapes):
        rope = {"rope_type": "default", "rope_theta": base, "mrope_section": section}
        module, config_class = {
            "chunked": (modeling_qwen2_vl.Qwen2VLRotaryEmbedding, transformers.Qwen2VLTextConfig),
            "interleaved": (modeling_qwen3_vl.Qwen3VLTextRotaryEmbedding, transformers.Qwen3VLTextConfig),
        }[kind]
        config = config_class(hidden_size=2 * dim, num_attention_heads=2, num_key_value_heads=1, head_dim=dim,
                              rope_parameters=rope)
        tokens = positions.shape[1]
        q, k = random_floats(800 + index, tokens, 2, dim), random_floats(820 + index, tokens, 1, dim)
        cos, sin = module(config)(torch.zeros(1), torch.from_numpy(positions)[:, None, :])
        out_q, out_k = map(unbatch, modeling_qwen2_vl.apply_rotary_pos_emb(batch(q), batch(k), cos, sin))
        if kind == "chunked":
            axis_of_pair = [a for a, n in enumerate(section) for _ in range(n)]
        else:
            axis_of_pair = [a if a and i < 3 * section[a] else 0 for i, a in ((i, i % 3) for i in range(dim // 2))]
        angles = axis_angles(positions, exact_inv_freq(base, dim), axis_of_pair)
        exact_q, exact_k = exact_rotation(q, angles, "half-split"), exact_rotation(k, angles, "half-split")
        cases.append({
            "name": f"width {dim}, sections {section}",
            "parameters": {"base": base, "rotary_dim": dim, "pairing": "half-split", "sections": section,
                           "axis_of_pair": axis_of_pair},
            "inputs": {"positions": tensor(positions), "q": tensor(q), "k": tensor(k)},
            "expected": {"q": tensor(out_q), "k": tensor(out_k)},
            "exact": {"q": tensor(exact_q), "k": tensor(exact_k)},
            "source_error": max(error(out_q, exact_q), error(out_k, exact_k)),
        })
        assert cases[-1]["source_error"] < 1e-2
    return cases


def rotary_mrope_chunked():
    image = np.array([[0, 1, 2, 2, 2, 2, 4], [0, 1, 2, 2, 3, 3, 4], [0, 1, 2, 3, 2, 3, 4]])
    text = np.array([[7, 8]] * 3)
    cases = mrope_cases("chunked", [
        (8, [1, 1, 2], 10000.0, image), (16, [2, 3, 3], 1000000.0, image), (16, [2, 3, 3], 1000000.0, text),
        (128, [16, 24, 24], 1000000.0, mrope_positions(1, 3, 2, 3000))])
    return document("M-RoPE, chunked sections", "transformers", VERSION,
                    "models.qwen2_vl.modeling_qwen2_vl: Qwen2VLRotaryEmbedding, apply_rotary_pos_emb", cases,
                    note="Sections count pairs. The frequency index runs on across sections.")


def rotary_mrope_interleaved():
    image = np.array([[0, 1, 2, 2, 2, 2, 4], [0, 1, 2, 2, 3, 3, 4], [0, 1, 2, 3, 2, 3, 4]])
    cases = mrope_cases("interleaved", [
        (16, [4, 2, 2], 10000.0, image), (16, [2, 3, 3], 10000.0, image),
        (128, [24, 20, 20], 5000000.0, mrope_positions(2, 3, 2, 3000)),
        (128, [16, 24, 24], 5000000.0, mrope_positions(3, 3, 1, 3000)),
        (64, [11, 11, 10], 10000000.0, mrope_positions(4, 3, 2, 3000))])
    return document("M-RoPE, interleaved sections", "transformers", VERSION,
                    "models.qwen3_vl.modeling_qwen3_vl.Qwen3VLTextRotaryEmbedding; "
                    "models.qwen2_vl.modeling_qwen2_vl.apply_rotary_pos_emb", cases,
                    note="Pair i turns by height if i = 1 mod 3 and i < 3 h, by width if i = 2 mod 3 and i < 3 w, else "
                         "by time. The axis order has nothing to do with the pairing, which is half-split.")


# --- the builders ----------------------------------------------------------------------------------------------

def vision_run(kind, grid, merge, split_frames=False):
    t, h, w = grid
    token = TOKENS["image_token_id" if kind == 1 else "video_token_id"]
    count = (h // merge) * (w // merge)
    if split_frames:  # one vision block a frame, with a stand-in for its time stamp before each
        out = []
        for _ in range(t):
            out += [(9, 0), (TOKENS["vision_start_token_id"], 0)] + [(token, kind)] * count + [(103, 0)]
        return out
    return [(TOKENS["vision_start_token_id"], 0)] + [(token, kind)] * (t * count) + [(103, 0)]


def text_run(n):
    return [(i + 1, 0) for i in range(n)]


def build(parts, merge, split_frames=False):
    row, images, videos = [], [], []
    for part in parts:
        if isinstance(part, int):
            row += text_run(part)
        elif isinstance(part, list):  # tokens as given; I stands for an image token
            row += [(TOKENS["image_token_id"], 1) if x == "I" else (x, 0) for x in part[0]]
            images += part[1]
        else:
            kind, grid = part
            (images if kind == 1 else videos).append(list(grid))
            row += vision_run(kind, grid, merge, split_frames and kind == 2)
    return row, images, videos


LAYOUTS = [
    ("text only", [[5]]),
    ("one square image", [[2, (1, (1, 4, 4)), 3]]),
    ("two images", [[2, (1, (1, 4, 4)), 1, (1, (1, 4, 4)), 1]]),
    ("two images without end tokens", [[[[1, 2, 100, "I", "I", "I", "I", 5, 100, "I", "I", "I", "I", 7],
                                         [[1, 4, 4], [1, 4, 4]]]]]),
    ("wide then tall image", [[1, (1, (1, 2, 8)), 2, (1, (1, 6, 2)), 2]]),
    ("image at the start and at the end", [[(1, (1, 4, 2)), 2, (1, (1, 2, 2))]]),
    ("video of three frames", [[3, (2, (3, 4, 4)), 2]]),
    ("video longer than it is wide", [[1, (2, (5, 2, 2)), 2]]),
    ("image and video", [[1, (1, (1, 4, 6)), 1, (2, (2, 4, 2)), 2]]),
    ("batch, left padding", [[1, (1, (1, 4, 4)), 1], [4]]),
    ("batch, right padding", [[1, (1, (1, 4, 4)), 1], [1, (1, (1, 2, 2)), 1]]),
]


def batch_of(rows, merge, side, split_frames=False):
    built = [build(parts, merge, split_frames) for parts in rows]
    width = max(len(row) for row, _, _ in built)
    ids, types_, mask = [], [], []
    for row, _, _ in built:
        gap = width - len(row)
        pad = [(0, 0)] * gap
        keep = [1] * len(row)
        full = pad + row if side == "left" else row + pad
        mask.append([0] * gap + keep if side == "left" else keep + [0] * gap)
        ids.append([i for i, _ in full])
        types_.append([k for _, k in full])
    images = [g for _, im, _ in built for g in im]
    videos = [g for _, _, vi in built for g in vi]
    return ids, types_, mask, images, videos


def index_case(name, ids, types_, mask, images, videos, merge, positions, deltas, **parameters):
    return {
        "name": name,
        "parameters": {"spatial_merge_size": merge, **TOKENS, **parameters},
        "inputs": {"input_ids": tensor(np.array(ids)), "token_types": tensor(np.array(types_)),
                   "attention_mask": tensor(np.array(mask)),
                   "image_grid_thw": tensor(np.array(images, dtype=np.int64).reshape(-1, 3)),
                   "video_grid_thw": tensor(np.array(videos, dtype=np.int64).reshape(-1, 3))},
        "expected": {"positions": tensor(positions), "deltas": tensor(deltas)},
    }


def run_index(method, ids, types_, mask, images, videos, merge, owner, **more):
    config = types.SimpleNamespace(vision_config=types.SimpleNamespace(spatial_merge_size=merge, tokens_per_second=2))
    stand_in = types.SimpleNamespace(config=config)
    stand_in.get_vision_position_ids = types.MethodType(owner.get_vision_position_ids, stand_in)
    grids = {"image_grid_thw": torch.tensor(images) if images else None,
             "video_grid_thw": torch.tensor(videos) if videos else None}
    return method(stand_in, torch.tensor(ids), mm_token_type_ids=torch.tensor(types_), **grids,
                  attention_mask=torch.tensor(mask), **more)


def positions_mrope():
    cases = []
    merge = 2
    for name, rows in LAYOUTS:
        ids, types_, mask, images, videos = batch_of(rows, merge, "right" if "right" in name else "left")
        positions, deltas = run_index(modeling_qwen2_vl.Qwen2VLModel.get_rope_index, ids, types_, mask, images, videos,
                                      merge, modeling_qwen2_vl.Qwen2VLModel)
        cases.append(index_case(f"{name} (5.x)", ids, types_, mask, images, videos, merge, positions, deltas,
                                builder="Qwen2-VL, transformers 5.x"))
        earlier = old.call("qwen2_vl_rope_index", input_ids=ids, image_grid_thw=images or None,
                           video_grid_thw=videos or None, attention_mask=mask, tokens=TOKENS, merge=merge)
        cases.append(index_case(f"{name} (4.x)", ids, types_, mask, images, videos, merge,
                                np.array(earlier["positions"]), np.array(earlier["deltas"]),
                                builder="Qwen2-VL, transformers 4.x"))
    for seconds in (1.0, 0.5, 1.3):
        ids, types_, mask, images, videos = batch_of([[1, (1, (1, 4, 4)), 1, (2, (3, 4, 2)), 2]], merge, "left")
        positions, deltas = run_index(Qwen2_5_VLModel.get_rope_index, ids, types_, mask, images, videos, merge,
                                      Qwen2_5_VLModel, second_per_grid_ts=torch.tensor([seconds]))
        cases.append(index_case(f"time in seconds: 2 positions a second, {seconds:g} s a frame", ids, types_, mask, images,
                                videos, merge, positions, deltas, builder="Qwen2.5-VL, transformers 5.x",
                                tokens_per_second=2, second_per_grid=seconds))
    for name, rows in [("image and video, a block a frame", [[1, (1, (1, 4, 6)), 1, (2, (3, 4, 2)), 2]])]:
        ids, types_, mask, images, videos = batch_of(rows, merge, "left", split_frames=True)
        positions, deltas = run_index(modeling_qwen3_vl.Qwen3VLModel.get_rope_index, ids, types_, mask, images, videos,
                                      merge, modeling_qwen3_vl.Qwen3VLModel)
        cases.append(index_case(name, ids, types_, mask, images, videos, merge, positions, deltas,
                                builder="Qwen3-VL, transformers 5.x"))
    return document(
        "M-RoPE positions for text, images and videos", "transformers",
        f"{VERSION}; 4.x cases: {old.call('versions')['transformers']}",
        "Qwen2VLModel / Qwen2_5_VLModel / Qwen3VLModel .get_rope_index; Qwen2VLForConditionalGeneration.get_rope_index",
        cases,
        note="positions are [3, batch, tokens] (time, height, width); token_types: 0 text, 1 image, 2 video. "
             "The versions differ: text after a vision block starts at the largest position + 1 (4.x) or at the "
             "block's start + max(h, w)/merge (5.x), which differ when a video has more frames than rows and columns; "
             "padding is 1 (4.x) or 0 (5.x); delta is the largest position + 1 minus the padded row length (4.x) or "
             "minus the number of real tokens (5.x).")


# --- 2-D rotary --------------------------------------------------------------------------------------------------

def axial_case(name, parameters, positions, q, k, out_q, out_k, angles, pairing, source="half-split"):
    exact_q, exact_k = exact_rotation(q, angles, pairing), exact_rotation(k, angles, pairing)
    distance = max(error(out_q, exact_q), error(out_k, exact_k))
    assert distance < 1e-4, (name, distance)
    return {
        "name": name, "parameters": {"pairing": pairing, **parameters},
        "inputs": {"positions": tensor(positions), "q": tensor(q), "k": tensor(k)},
        "expected": {"q": tensor(out_q), "k": tensor(out_k)},
        "exact": {"q": tensor(exact_q), "k": tensor(exact_k)},
        "source_error": distance,
    }


def rotary_axial_qwen2vl():
    cases = []
    for index, (dim, grid, merge) in enumerate([(8, (1, 4, 6), 2), (16, (2, 2, 2), 1), (80, (1, 2, 2), 2)]):
        ids = get_vision_position_ids(torch.tensor([grid]), merge)  # [tokens, 2]
        config = transformers.models.qwen2_vl.configuration_qwen2_vl.Qwen2VLVisionConfig(embed_dim=dim, num_heads=1)
        module = modeling_qwen2_vl.Qwen2VLVisionRotaryEmbedding(config)
        cos, sin = module(torch.zeros(1), ids)
        tokens = ids.shape[0]
        q, k = random_floats(900 + index, tokens, 1, dim), random_floats(910 + index, tokens, 1, dim)
        out_q, out_k = modeling_qwen2_vl.apply_rotary_pos_emb_vision(torch.from_numpy(q), torch.from_numpy(k), cos, sin)
        ladder = exact_inv_freq(10000, dim // 2)
        axis_of_pair = [0] * (dim // 4) + [1] * (dim // 4)
        positions = ids.T.numpy()
        angles = axis_angles(positions, ladder + ladder, axis_of_pair)
        cases.append(axial_case(f"head width {dim}, grid {grid}, merge {merge}",
                                {"base": 10000.0, "head_dim": dim, "grid_thw": list(grid), "merge": merge,
                                 "axis_of_pair": axis_of_pair, "ladder_index_of_pair": list(range(dim // 4)) * 2,
                                 "ladder_dim": dim // 2},
                                positions, q, k, out_q.numpy(), out_k.numpy(), angles, "half-split"))
    return document("2-D rotary, Qwen2-VL vision", "transformers", VERSION,
                    "vision_utils.get_vision_position_ids; models.qwen2_vl.modeling_qwen2_vl: "
                    "Qwen2VLVisionRotaryEmbedding, apply_rotary_pos_emb_vision", cases,
                    note="Ladder over head_dim/2, the same for rows and columns; first quarter of the head's pairs rows, "
                         "second columns, then half-split over the whole head. Positions [2, tokens] are (row, column) "
                         "in the order of merge x merge blocks.")


def rotary_axial_pixtral():
    cases = []
    for index, (dim, height, width) in enumerate([(8, 2, 3), (16, 3, 1), (64, 1, 2)]):
        config = transformers.PixtralVisionConfig(hidden_size=dim, num_attention_heads=1, head_dim=dim)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        ids = torch.stack([rows.flatten(), columns.flatten()], -1)
        module = modeling_pixtral.PixtralVisionRotaryEmbedding(config)
        cos, sin = module(torch.zeros(1), ids)
        tokens = height * width
        q, k = random_floats(920 + index, tokens, 1, dim), random_floats(930 + index, tokens, 1, dim)
        out_q, out_k = map(unbatch, modeling_pixtral.apply_rotary_pos_emb(batch(q), batch(k), cos, sin, unsqueeze_dim=0))
        ladder = exact_inv_freq(config.rope_parameters["rope_theta"], dim)
        picked = ladder[0::2] + ladder[1::2]
        axis_of_pair = [0] * (dim // 4) + [1] * (dim // 4)
        positions = ids.T.numpy()
        cases.append(axial_case(f"head width {dim}, {height} x {width} patches",
                                {"base": config.rope_parameters["rope_theta"], "head_dim": dim,
                                 "height": height, "width": width, "axis_of_pair": axis_of_pair,
                                 "ladder_index_of_pair": list(range(0, dim // 2, 2)) + list(range(1, dim // 2, 2)),
                                 "ladder_dim": dim},
                                positions, q, k, out_q, out_k, axis_angles(positions, picked, axis_of_pair), "half-split"))
    return document("2-D rotary, Pixtral", "transformers", VERSION,
                    "models.pixtral.modeling_pixtral: PixtralVisionRotaryEmbedding, apply_rotary_pos_emb", cases,
                    note="Ladder over head_dim; its even entries turn by the row, its odd entries by the column; "
                         "half-split over the whole head.")


def rotary_axial_llama4():
    cases = []
    for index, (dim, side) in enumerate([(8, 3), (16, 2)]):
        config = transformers.Llama4VisionConfig(hidden_size=dim, num_attention_heads=1, image_size=side * 4, patch_size=4)
        table = modeling_llama4.Llama4VisionRotaryEmbedding(config)(torch.zeros(1))
        tokens = side * side + 1
        q, k = random_floats(940 + index, tokens, 1, dim), random_floats(950 + index, tokens, 1, dim)
        out_q, out_k = modeling_llama4.vision_apply_rotary_emb(torch.from_numpy(q)[None], torch.from_numpy(k)[None], table)
        base = config.rope_parameters["rope_theta"]
        ladder = exact_inv_freq(base, dim // 2)
        axis_of_pair = [0] * (dim // 4) + [1] * (dim // 4)
        flat = np.arange(side * side)
        positions = np.stack([np.append(flat % side + 1, 0), np.append(flat // side + 1, 0)])
        cases.append(axial_case(f"head width {dim}, {side} x {side} patches and the class token",
                                {"base": base, "head_dim": dim, "height": side, "width": side, "axis_of_pair": axis_of_pair,
                                 "ladder_index_of_pair": list(range(dim // 4)) * 2, "ladder_dim": dim // 2,
                                 "axes": ["column + 1", "row + 1"]},
                                positions, q, k, out_q[0].numpy(), out_k[0].numpy(),
                                axis_angles(positions, ladder + ladder, axis_of_pair), "interleaved"))
    return document("2-D rotary, Llama 4 vision", "transformers", VERSION,
                    "models.llama4.modeling_llama4: Llama4VisionRotaryEmbedding, vision_apply_rotary_emb", cases,
                    note="Positions [2, tokens] are (column + 1, row + 1); the class token comes last and is not rotated "
                         "(position 0). Interleaved pairs; the first half of the pairs turns by the column.")


def rotary_axial_lucidrains():
    import rotary_embedding_torch as ret
    cases = []
    for index, (dim, dims, max_freq) in enumerate([(4, (2, 3), 10), (8, (3, 3), 256), (4, (5, 1), 10)]):
        module = ret.RotaryEmbedding(dim, freqs_for="pixel", max_freq=max_freq)
        freqs = module.get_axial_freqs(*dims).detach()  # [h, w, 2 dim]
        flat = freqs.reshape(-1, freqs.shape[-1])
        tokens, width = flat.shape
        q, k = random_floats(960 + index, tokens, 1, width), random_floats(970 + index, tokens, 1, width)
        out_q, out_k = (unbatch(ret.apply_rotary_emb(flat, batch(x))) for x in (q, k))

        def line(low, high, n):
            return [mpf(low) + (mpf(high) - mpf(low)) * i / (n - 1) if n > 1 else mpf(low) for i in range(n)]

        ladder = [x * mpmath.pi for x in line(1, mpf(max_freq) / 2, dim // 2)]
        grid = [(r, c) for r in line(-1, 1, dims[0]) for c in line(-1, 1, dims[1])]
        angles = [[r * f for f in ladder] + [c * f for f in ladder] for r, c in grid]
        exact_q, exact_k = exact_rotation(q, angles, "interleaved"), exact_rotation(k, angles, "interleaved")
        cases.append({
            "name": f"{dims[0]} x {dims[1]}, {dim} features an axis, max_freq {max_freq}",
            "parameters": {"pairing": "interleaved", "features_per_axis": dim, "height": dims[0], "width": dims[1],
                           "max_freq": max_freq},
            "inputs": {"coordinates": tensor(np.array([[float(r), float(c)] for r, c in grid]).T), "q": tensor(q),
                       "k": tensor(k)},
            "expected": {"q": tensor(out_q), "k": tensor(out_k), "angles": tensor(flat[:, ::2].contiguous())},
            "exact": {"q": tensor(exact_q), "k": tensor(exact_k),
                      "angles": tensor(np.array([[float(a) for a in row] for row in angles]))},
            "source_error": max(error(out_q, exact_q), error(out_k, exact_k)),
        })
    return document("2-D rotary, pixel frequencies", "rotary-embedding-torch", version("rotary-embedding-torch"),
                    'RotaryEmbedding(freqs_for="pixel").get_axial_freqs, apply_rotary_emb', cases,
                    note="Frequencies linspace(1, max_freq/2) * pi over coordinates linspace(-1, 1) of each axis "
                         "(an axis of length 1 is at -1); rows first, then columns; interleaved pairs.")


def rotary_axial_timm():
    """Frequencies are powers of two in pixel mode, a ladder over half the width otherwise; the reference shape is EVA's
    way to stretch a grid to the one trained on."""
    import timm
    from timm.layers import pos_embed_sincos as source
    cases = []
    for index, (dim, dims, pixels, reference) in enumerate([
            (16, (3, 5), True, None), (8, (1, 4), True, None), (16, (2, 3), False, None), (32, (4, 2), False, (2, 3))]):
        sines, cosines = source.build_rotary_pos_embed(list(dims), dim=dim, in_pixels=pixels,
                                                       ref_feat_shape=list(reference) if reference else None)
        tokens = sines.shape[0]
        q, k = random_floats(980 + index, tokens, 1, dim), random_floats(990 + index, tokens, 1, dim)
        out_q, out_k = (unbatch(source.apply_rot_embed(batch(x), sines, cosines)) for x in (q, k))
        bands = dim // 4
        if pixels:
            exponents = [(mpmath.log(224, 2) - 1) * i / (bands - 1) for i in range(bands)]
            ladder = [mpmath.pi * mpf(2) ** e for e in exponents]
            lines = [[mpf(-1) + mpf(2) * i / (n - 1) if n > 1 else mpf(-1) for i in range(n)] for n in dims]
        else:
            ladder = [mpf(10000) ** (-mpf(i) / bands) for i in range(bands)]
            scale = [mpf(r) / n for r, n in zip(reference, dims)] if reference else [mpf(1), mpf(1)]
            lines = [[i * f for i in range(n)] for n, f in zip(dims, scale)]
        angles = [[r * f for f in ladder] + [c * f for f in ladder] for r in lines[0] for c in lines[1]]
        exact_q, exact_k = exact_rotation(q, angles, "interleaved"), exact_rotation(k, angles, "interleaved")
        cases.append({
            "name": f"{dims[0]} x {dims[1]}, width {dim}, " + ("pixels" if pixels else "positions") +
                    (f", reference {reference[0]} x {reference[1]}" if reference else ""),
            "parameters": {"pairing": "interleaved", "head_dim": dim, "height": dims[0], "width": dims[1], "max_res": 224,
                           "temperature": 10000.0, "in_pixels": pixels, "reference": list(reference) if reference else None},
            "inputs": {"q": tensor(q), "k": tensor(k)},
            "expected": {"q": tensor(out_q), "k": tensor(out_k)},
            "exact": {"q": tensor(exact_q), "k": tensor(exact_k),
                      "angles": tensor(np.array([[float(a) for a in row] for row in angles]))},
            "source_error": max(error(out_q, exact_q), error(out_k, exact_k)),
        })
    return document("2-D rotary, timm", "timm", timm.__version__,
                    "layers.pos_embed_sincos: build_rotary_pos_embed, apply_rot_embed", cases,
                    note="Rows first, then columns; interleaved pairs. In pixel mode pi * 2^linspace(0, log2(max_res) - 1) over "
                         "coordinates linspace(-1, 1); else theta^(-4i/width) over 0, 1, ..., times reference / size where one "
                         "is given.")


FILES = {
    "rotary_mrope_chunked.json": rotary_mrope_chunked,
    "rotary_mrope_interleaved.json": rotary_mrope_interleaved,
    "positions_mrope.json": positions_mrope,
    "rotary_axial_qwen2vl.json": rotary_axial_qwen2vl,
    "rotary_axial_pixtral.json": rotary_axial_pixtral,
    "rotary_axial_llama4.json": rotary_axial_llama4,
    "rotary_axial_pixel.json": rotary_axial_lucidrains,
    "rotary_axial_timm.json": rotary_axial_timm,
}
