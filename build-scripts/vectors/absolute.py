"""Door 1: sinusoids in their four conventions, 2-D sine-cosine, learned tables (row numbers, interpolation)."""

import types
from importlib.metadata import version

import mpmath
import numpy as np
import torch
import transformers
from mpmath import mpf
from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.omdet_turbo import modeling_omdet_turbo
from transformers.models.vit_mae import modeling_vit_mae
from transformers.models.whisper.modeling_whisper import sinusoids
from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

import old
from common import document, error, random_floats, tensor

VERSION = transformers.__version__


def rows(positions, columns):
    """columns: list of (function, frequency) with mpmath frequencies; a None frequency is a column of zeros."""
    out = np.zeros((len(positions), len(columns)))
    for r, p in enumerate(positions):
        for c, (function, f) in enumerate(columns):
            out[r, c] = 0.0 if f is None else float(function(mpf(p) * f))
    return out


def interleaved_columns(width, base=10000):
    return [((mpmath.cos if j % 2 else mpmath.sin), mpf(base) ** (mpf(-2 * (j // 2)) / width)) for j in range(width)]


def concatenated_columns(width, base=10000):
    columns = interleaved_columns(width, base)
    return columns[0::2] + columns[1::2]


def t2t_columns(width, minimum=1, maximum=10000):
    n = width // 2
    ratio = mpf(maximum) / mpf(minimum)
    ladder = [ratio ** (mpf(-i) / max(n - 1, 1)) * mpf(minimum) for i in range(n)]
    return [(mpmath.sin, f) for f in ladder] + [(mpmath.cos, f) for f in ladder] + [(None, None)] * (width % 2)


def table_case(name, parameters, positions, got, exact, tolerance=1e-6, **extra):
    case = {"name": name, "parameters": parameters, "inputs": {"positions": tensor(np.array(positions, dtype=np.int64))},
            "expected": {}, "exact": {"table": tensor(exact)}}
    if got is not None:
        case["expected"]["table"] = tensor(got)
        case["source_error"] = error(got, exact)
        assert case["source_error"] < tolerance, (name, case["source_error"])
    case.update(extra)
    return case


def sinusoidal_interleaved():
    cases = []
    for width, positions in [(4, [0, 1, 2, 3]), (6, [0, 1, 4]), (7, [0, 1, 2, 50]), (1, [0, 1, 2]), (2, [0, 1, 2]),
                             (64, [17, 300]), (5, [65535])]:
        table = create_sinusoidal_embeddings(max(positions) + 1, width, torch.zeros(max(positions) + 1, width))
        cases.append(table_case(f"width {width}, positions {positions}", {"width": width, "base": 10000.0}, positions,
                                table[positions], rows(positions, interleaved_columns(width))))
    for width, base, positions in [(6, 100.0, [0, 1, 9]), (8, 500000.0, [3, 1000000]), (6, 10000.0, [2147483646, 2147483647])]:
        cases.append(table_case(f"width {width}, base {base:g}, positions {positions} (exact only)",
                                {"width": width, "base": base}, positions, None,
                                rows(positions, interleaved_columns(width, base)), kind="formula only"))
    return document("sinusoidal, interleaved", "transformers", VERSION,
                    "models.xlm.modeling_xlm.create_sinusoidal_embeddings (DistilBERT's is the same)", cases,
                    note="Column 2i is sin(p / base^(2i/d)), column 2i+1 the cosine of the same angle. An odd width ends "
                         "with a sine. The source works in float64 and rounds once; other bases are exact only.")


def sinusoidal_concatenated():
    cases = []
    for width, positions in [(4, [0, 1, 2, 3]), (7, [0, 1, 2, 50]), (5, [0, 3]), (1, [0, 1]), (64, [17, 300])]:
        module = MarianSinusoidalPositionalEmbedding(max(positions) + 1, width)
        cases.append(table_case(f"width {width}, positions {positions}", {"width": width, "base": 10000.0}, positions,
                                module.create_weight()[positions], rows(positions, concatenated_columns(width))))
    cases.append(table_case("the last int32 position (exact only)", {"width": 6, "base": 10000.0}, [2147483647], None,
                            rows([2147483647], concatenated_columns(6)), kind="formula only"))
    return document("sinusoidal, concatenated", "transformers", VERSION,
                    "models.marian.modeling_marian.MarianSinusoidalPositionalEmbedding.create_weight", cases,
                    note="All sines, then all cosines, frequencies base^(-2i/d); an odd width has one sine more.")


def sinusoidal_t2t():
    cases = []
    for width, length, start, low, high in [(4, 4, 0, 1.0, 1.0e4), (7, 3, 0, 1.0, 1.0e4), (2, 3, 0, 1.0, 1.0e4),
                                            (3, 3, 0, 1.0, 1.0e4), (64, 2, 300, 1.0, 1.0e4), (6, 3, 5, 2.0, 50.0)]:
        got = np.array(old.call("t2t_timing_signal", length=length, channels=width, min_timescale=low, max_timescale=high,
                                start_index=start), dtype=np.float32)
        positions = list(range(start, start + length))
        # tensor2tensor: inverse timescales are min * (max/min)^(-i/(n-1)).
        cases.append(table_case(f"tensor2tensor, width {width}, start {start}, timescales {low:g} to {high:g}",
                                {"width": width, "min_timescale": low, "max_timescale": high}, positions, got,
                                rows(positions, t2t_columns(width, low, high)), 3e-5,
                                call="tensor2tensor common_attention.get_timing_signal_1d"))
    for width, count in [(8, 6), (7, 5)]:
        got = M2M100SinusoidalPositionalEmbedding.get_embedding(count, width, None)
        cases.append(table_case(f"M2M100, width {width}", {"width": width, "min_timescale": 1.0, "max_timescale": 10000.0},
                                list(range(count)), got, rows(range(count), t2t_columns(width)),
                                call="models.m2m_100.modeling_m2m_100: M2M100SinusoidalPositionalEmbedding.get_embedding"))
    got = sinusoids(5, 8)
    cases.append(table_case("Whisper, width 8", {"width": 8, "min_timescale": 1.0, "max_timescale": 10000.0}, list(range(5)),
                            got, rows(range(5), t2t_columns(8)), call="models.whisper.modeling_whisper.sinusoids"))
    return document("sinusoidal, tensor2tensor", "tensor2tensor and transformers",
                    f"{old.call('versions')['tensor2tensor']}, {VERSION}", "named in each case", cases,
                    note="Sines, then cosines; n = width // 2 frequencies min * (max/min)^(-i/(n-1)); an odd width ends "
                         "with a column of zeros. Width 2 or 3: one frequency, min; tensor2tensor only (M2M100 and "
                         "Whisper divide by zero there).")


def sinusoidal_mlx():
    import mlx.core as mx
    import mlx.nn
    cases = []
    for width, keys in [(8, {}), (8, {"cos_first": True}), (8, {"full_turns": True}), (8, {"scale": 1.0}), (2, {}),
                        (6, {"min_freq": 0.01, "max_freq": 2.0})]:
        positions = [0, 1, 2, 100]
        got = np.array(mlx.nn.SinusoidalPositionalEncoding(width, **keys)(mx.array(positions, dtype=mx.float32)))
        n = width // 2
        low, high = mpmath.log(mpf(keys.get("min_freq", 0.0001))), mpmath.log(mpf(keys.get("max_freq", 1)))
        share = [1 - mpf(i) / (n - 1) if n > 1 else mpf(1) for i in range(n)]
        ladder = [mpmath.exp(s * (high - low) + low) * (2 * mpmath.pi if keys.get("full_turns") else 1) for s in share]
        first, second = (mpmath.cos, mpmath.sin) if keys.get("cos_first") else (mpmath.sin, mpmath.cos)
        scale = keys.get("scale", float(mpmath.sqrt(mpf(2) / width)))
        exact = rows(positions, [(first, f) for f in ladder] + [(second, f) for f in ladder]) * scale
        cases.append(table_case(f"width {width}" + "".join(f", {k} {v}" for k, v in keys.items()),
                                {"width": width, "min_freq": 0.0001, "max_freq": 1.0, "cos_first": False,
                                 "full_turns": False, "scale": scale, **keys}, positions, got, exact, 1e-4))
    return document("sinusoidal, MLX", "mlx", version("mlx"), "mlx.nn.SinusoidalPositionalEncoding", cases,
                    note="Frequencies fall geometrically from max_freq to min_freq over n-1 steps; the whole is multiplied "
                         "by scale, sqrt(2/width) unless given.")


def sinusoidal_2d():
    cases = []

    def quarter_columns(width):
        ladder = [mpf(10000) ** (mpf(-i) / (width // 4)) for i in range(width // 4)]
        return [(mpmath.sin, f) for f in ladder] + [(mpmath.cos, f) for f in ladder]

    for height, width_, dim in [(2, 3, 8), (3, 1, 4), (2, 2, 16)]:
        grid = [(r, c) for r in range(height) for c in range(width_)]
        columns = quarter_columns(dim)
        by_row, by_column = rows([r for r, _ in grid], columns), rows([c for _, c in grid], columns)
        got = modeling_vit_mae.build_2d_sinusoidal_position_embedding(height, width_, dim)
        parameters = {"height": height, "width": width_, "features": dim, "base": 10000.0, "order": "row-major"}
        cases.append({"name": f"{height} x {width_}, {dim} features, rows first",
                      "parameters": {**parameters, "layout": "sin row, cos row, sin column, cos column"}, "inputs": {},
                      "expected": {"table": tensor(got)},
                      "exact": {"table": tensor(np.concatenate([by_row, by_column], 1))},
                      "call": "models.vit_mae.modeling_vit_mae.build_2d_sinusoidal_position_embedding"})
    # The table that MAE models are initialised with, class token included.
    side, dim = 3, 8
    config = transformers.ViTMAEConfig(hidden_size=dim, num_attention_heads=1, image_size=side * 2, patch_size=2,
                                       num_hidden_layers=1, intermediate_size=4)
    embeddings = modeling_vit_mae.ViTMAEEmbeddings(config)
    embeddings.initialize_weights()
    grid = [(r, c) for r in range(side) for c in range(side)]
    columns = quarter_columns(dim)
    exact = np.concatenate([rows([c for _, c in grid], columns), rows([r for r, _ in grid], columns)], 1)
    exact = np.concatenate([np.zeros((1, dim)), exact])
    cases.append({"name": "MAE 3 x 3, columns first, class token", "parameters": {
        "height": side, "width": side, "features": dim, "base": 10000.0, "order": "row-major", "class_token": True,
        "layout": "sin column, cos column, sin row, cos row"}, "inputs": {},
        "expected": {"table": tensor(embeddings.position_embeddings.detach()[0])}, "exact": {"table": tensor(exact)},
        "call": "models.vit_mae.modeling_vit_mae.ViTMAEEmbeddings.initialize_weights"})
    # Width-major order.
    height, width_, dim = 2, 3, 8
    find = next(v for v in vars(modeling_omdet_turbo).values()
                if isinstance(v, type) and hasattr(v, "build_2d_sincos_position_embedding"))
    got = find.build_2d_sincos_position_embedding(width_, height, dim)[0]
    grid = [(r, c) for c in range(width_) for r in range(height)]
    exact = np.concatenate([rows([c for _, c in grid], columns), rows([r for r, _ in grid], columns)], 1)
    cases.append({"name": "2 x 3, column-major order of patches", "parameters": {
        "height": height, "width": width_, "features": dim, "base": 10000.0, "order": "column-major",
        "layout": "sin column, cos column, sin row, cos row"}, "inputs": {},
        "expected": {"table": tensor(got)}, "exact": {"table": tensor(exact)},
        "call": f"models.omdet_turbo.modeling_omdet_turbo.{find.__name__}.build_2d_sincos_position_embedding"})
    for case in cases:
        from common import untensor
        case["source_error"] = error(untensor(case["expected"]["table"]), untensor(case["exact"]["table"]))
        assert case["source_error"] < 1e-6, case["name"]
    # DETR: positions count from 1, optionally scaled to (0, 2 pi].
    for height, width_, features, normalize, mask in [(2, 3, 4, False, None), (2, 3, 4, True, None), (3, 2, 6, True, None),
                                                      (2, 3, 4, True, [[1, 1, 0], [1, 1, 0]])]:
        module = DetrSinePositionEmbedding(features, normalize=normalize)
        shape = torch.Size((1, 3, height, width_))
        tmask = None if mask is None else torch.tensor([mask])
        got = module(shape, torch.device("cpu"), torch.float32, tmask)[0].permute(1, 2, 0)  # [h, w, 2 features]
        keep = np.ones((height, width_), int) if mask is None else np.array(mask)
        y, x = np.cumsum(keep, 0), np.cumsum(keep, 1)

        def scaled(count, last):
            return mpf(int(count)) / (mpf(int(last)) + mpf(10) ** -6) * 2 * mpmath.pi if normalize else mpf(int(count))

        exact = np.zeros((height, width_, 2 * features))
        for r in range(height):
            for c in range(width_):
                for half, p in enumerate((scaled(y[r, c], y[-1, c]), scaled(x[r, c], x[r, -1]))):
                    for j in range(features):
                        angle = p / mpf(10000) ** (mpf(2 * (j // 2)) / features)
                        exact[r, c, half * features + j] = float((mpmath.cos if j % 2 else mpmath.sin)(angle))
        distance = error(got, exact)
        assert distance < 3e-6, distance
        cases.append({"name": f"DETR {height} x {width_}, {features} features an axis"
                              + (", normalized" if normalize else "") + (", masked column" if mask else ""),
                      "parameters": {"height": height, "width": width_, "features_per_axis": features, "base": 10000.0,
                                     "normalize": normalize, "scale": float(2 * mpmath.pi), "epsilon": 1e-6,
                                     "layout": "row interleaved, column interleaved"},
                      "inputs": {} if mask is None else {"mask": tensor(np.array(mask))},
                      "expected": {"table": tensor(got.contiguous())}, "exact": {"table": tensor(exact)},
                      "source_error": distance,
                      "call": "models.detr.modeling_detr.DetrSinePositionEmbedding.forward"})
    return document("sinusoidal, two axes", "transformers", VERSION, "named in each case", cases,
                    note="Tables are [patches, features], DETR's [height, width, features]. Vision transformers use "
                         "frequencies base^(-i/(d/4)) and concatenate; DETR interleaves sine and cosine within each axis "
                         "and counts positions from 1.")


# --- learned tables ------------------------------------------------------------------------------------------------

def positions_learned():
    from transformers.models.bart.modeling_bart import BartLearnedPositionalEmbedding
    from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
    from transformers.models.roberta.modeling_roberta import RobertaEmbeddings
    cases = []
    counter = torch.arange(64, dtype=torch.float32)[:, None]  # row r of the table holds r

    def used(module, *args, **kwargs):
        with torch.no_grad():
            module.weight.copy_(counter[:module.weight.shape[0]])
            return module(*args, **kwargs)[..., 0].long()

    masks = [("no padding", [[1, 1, 1, 1]]), ("left padding", [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
             ("right padding", [[1, 1, 1, 0, 0]]), ("hole", [[1, 0, 1, 1]])]
    for name, mask in masks:
        m = torch.tensor(mask)
        cases.append({"name": f"OPT, {name}", "parameters": {"method": "OPT", "offset": 2, "cache_length": 0},
                      "inputs": {"attention_mask": tensor(m)},
                      "expected": {"rows": tensor(used(OPTLearnedPositionalEmbedding(62, 1), m))}})
    m = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
    cases.append({"name": "OPT, three rows cached, left padding", "parameters": {"method": "OPT", "offset": 2, "cache_length": 3},
                  "inputs": {"attention_mask": tensor(m)},
                  "expected": {"rows": tensor(used(OPTLearnedPositionalEmbedding(62, 1), m, cache_length=3))}})
    for length, past in [(4, 0), (2, 5)]:
        ids = torch.ones(2, length, dtype=torch.long)
        cases.append({"name": f"BART, {length} tokens after {past}",
                      "parameters": {"method": "BART", "offset": 2, "cache_length": past, "tokens": length}, "inputs": {},
                      "expected": {"rows": tensor(used(BartLearnedPositionalEmbedding(62, 1), ids, past).expand(2, -1))}})
    for name, ids, pad, past in [("right padding", [[5, 6, 7, 1, 1]], 1, 0), ("left padding", [[1, 1, 5, 6], [4, 5, 6, 7]], 1, 0),
                                 ("padding inside", [[5, 1, 6, 7]], 1, 0), ("padding_idx 0", [[0, 4, 5]], 0, 0),
                                 ("three cached", [[5, 6]], 1, 3), ("all padding", [[1, 1]], 1, 0)]:
        t = torch.tensor(ids)
        cases.append({"name": f"RoBERTa, {name}", "parameters": {"method": "RoBERTa", "padding_idx": pad, "cache_length": past},
                      "inputs": {"input_ids": tensor(t)},
                      "expected": {"rows": tensor(RobertaEmbeddings.create_position_ids_from_input_ids(t, pad, past))}})
        cases.append({"name": f"M2M100, {name}", "parameters": {"method": "M2M100", "padding_idx": pad, "cache_length": past},
                      "inputs": {"input_ids": tensor(t)},
                      "expected": {"rows": tensor(M2M100SinusoidalPositionalEmbedding.create_position_ids_from_input_ids(t, pad, past))}})
    t = torch.zeros(2, 4, 3)
    cases.append({"name": "RoBERTa, embeddings instead of ids: padding cannot be seen",
                  "parameters": {"method": "RoBERTa embeddings", "padding_idx": 1, "tokens": 4, "batch": 2}, "inputs": {},
                  "expected": {"rows": tensor(RobertaEmbeddings.create_position_ids_from_inputs_embeds(t, 1))}})
    return document("rows of learned tables", "transformers", VERSION,
                    "OPTLearnedPositionalEmbedding, BartLearnedPositionalEmbedding (on a table whose row r holds r), "
                    "RobertaEmbeddings.create_position_ids_from_input_ids / _inputs_embeds, "
                    "M2M100SinusoidalPositionalEmbedding.create_position_ids_from_input_ids", cases,
                    note="rows are table rows, offset included. OPT's padding reads row 1, RoBERTa's row padding_idx.")


def table_interpolation_linear():
    cases = []
    for index, (old_rows, new_rows, width, corners) in enumerate([
            (4, 7, 2, False), (4, 7, 2, True), (8, 3, 2, False), (8, 3, 2, True), (5, 5, 1, False), (1, 4, 2, False),
            (6, 1, 2, False), (6, 1, 2, True), (16, 33, 1, False), (2, 3, 1, True)]):
        table = random_floats(1100 + index, old_rows, width)
        def run(x):
            return torch.nn.functional.interpolate(x.T[None], size=new_rows, mode="linear", align_corners=corners)[0].T.contiguous()
        got, exact = run(torch.from_numpy(table)), run(torch.from_numpy(table).double())
        cases.append({"name": f"{old_rows} rows to {new_rows}, align_corners {corners}",
                      "parameters": {"rows": new_rows, "align_corners": corners}, "inputs": {"table": tensor(table)},
                      "expected": {"table": tensor(got)}, "exact": {"table": tensor(exact)},
                      "source_error": error(got, exact)})
    return document("table interpolation, linear", "torch", torch.__version__.split("+")[0],
                    'torch.nn.functional.interpolate(mode="linear") over the rows; exact: the same call in float64', cases,
                    note="align_corners False samples at (i + 1/2) L/N - 1/2, clamped to the table; True at i (L-1)/(N-1).")


def table_interpolation_grid():
    import timm.layers
    from transformers.models.dinov2.modeling_dinov2 import Dinov2Embeddings
    from transformers.models.dinov2_with_registers.modeling_dinov2_with_registers import Dinov2WithRegistersEmbeddings
    from transformers.models.siglip2.modeling_siglip2 import Siglip2VisionEmbeddings
    from transformers.models.vit.modeling_vit import ViTEmbeddings
    from transformers.vision_utils import get_vision_interpolation_indices_and_weights
    cases = []

    def reference(table, side, size, prefix, mode, corners, antialias):
        """The same resampling in float64, without the model code around it."""
        t = torch.from_numpy(table).double()
        grid = t[prefix:].reshape(1, side[0], side[1], -1).permute(0, 3, 1, 2)
        out = torch.nn.functional.interpolate(grid, size=size, mode=mode, align_corners=corners, antialias=antialias)
        return torch.cat([t[:prefix], out.permute(0, 2, 3, 1).reshape(size[0] * size[1], -1)]).numpy()

    def add(name, table, side, size, prefix, got, mode, corners, antialias, call, exact=None, **more):
        exact = reference(table, side, size, prefix, mode, corners, antialias) if exact is None else exact
        distance = error(got, exact)
        assert distance < 3e-6, (name, distance)
        cases.append({"name": name, "parameters": {"from": list(side), "to": list(size), "prefix_rows": prefix, "mode": mode,
                                                   "align_corners": corners, "antialias": antialias, **more},
                      "inputs": {"table": tensor(table)}, "expected": {"table": tensor(got)},
                      "exact": {"table": tensor(exact)}, "source_error": distance, "call": call})

    dim = 2
    for index, (cls, config, antialias) in enumerate([
            (ViTEmbeddings, transformers.ViTConfig, False), (Dinov2Embeddings, transformers.Dinov2Config, False),
            (Dinov2WithRegistersEmbeddings, transformers.Dinov2WithRegistersConfig, True)]):
        for size in [(5, 7), (2, 2), (4, 3)]:
            side = 4
            module = cls(config(hidden_size=dim, num_attention_heads=1, image_size=side * 2, patch_size=2,
                                num_hidden_layers=1, intermediate_size=4))
            table = random_floats(1200 + index, side * side + 1, dim)
            with torch.no_grad():
                module.position_embeddings.copy_(torch.from_numpy(table)[None])
                got = module.interpolate_pos_encoding(torch.zeros(1, size[0] * size[1] + 1, dim), size[0] * 2, size[1] * 2)[0]
            name = cls.__name__.removesuffix("Embeddings")
            add(f"{name}: 4 x 4 to {size[0]} x {size[1]}", table, (side, side), size, 1, got, "bicubic", False, antialias,
                f"{cls.__module__.removeprefix('transformers.')}.{cls.__name__}.interpolate_pos_encoding")
    for size, antialias, prefix in [((3, 5), True, 1), ((3, 5), False, 0), ((9, 2), True, 0)]:
        table = random_floats(1230 + prefix, 24 + prefix, dim)
        got = timm.layers.resample_abs_pos_embed(torch.from_numpy(table)[None], list(size), [4, 6], prefix, "bicubic", antialias)[0]
        add(f"timm: 4 x 6 to {size[0]} x {size[1]}, antialias {antialias}", table, (4, 6), size, prefix, got, "bicubic", False,
            antialias, f"timm {timm.__version__}: layers.resample_abs_pos_embed")
    table = random_floats(1240, 16, dim)
    for size in [(2, 3), (6, 5)]:
        got = Siglip2VisionEmbeddings.resize_positional_embeddings(
            torch.from_numpy(table).reshape(4, 4, dim), torch.tensor([size]), size[0] * size[1])[0]
        add(f"SigLIP 2: 4 x 4 to {size[0]} x {size[1]}", table, (4, 4), size, 0, got, "bilinear", False, True,
            "models.siglip2.modeling_siglip2.Siglip2VisionEmbeddings.resize_positional_embeddings")
    for size, merge in [((4, 6), 2), ((3, 2), 1)]:
        table = random_floats(1250, 25, dim)
        indices, weights = get_vision_interpolation_indices_and_weights(
            torch.tensor([[1, *size]]), 5, mode="bilinear", align_corners=True, spatial_merge_size=merge)
        got = (torch.from_numpy(table)[indices] * weights[..., None]).sum(1)
        plain = reference(table, (5, 5), size, 0, "bilinear", True, False)
        blocks = plain.reshape(size[0] // merge, merge, size[1] // merge, merge, dim).transpose(0, 2, 1, 3, 4).reshape(-1, dim)
        add(f"Qwen3-VL: 5 x 5 to {size[0]} x {size[1]}, rows in {merge} x {merge} blocks", table, (5, 5), size, 0,
            got.float(), "bilinear", True, False, "vision_utils.get_vision_interpolation_indices_and_weights", exact=blocks,
            merge=merge)
    return document("table interpolation, grids", "transformers, timm, torch",
                    f"{VERSION}, {timm.__version__}, {torch.__version__.split('+')[0]}", "named in each case", cases,
                    note="Tables are [prefix + height * width, features]; prefix rows (class token) are kept. "
                         "Bicubic is the cubic convolution kernel, a = -0.75 without antialias (taps outside clamped to the "
                         "border) and a = -0.5 with antialias (support scaled when shrinking, weights renormalized at the "
                         "border). exact: the same resampling by torch in float64.")


FILES = {
    "sinusoidal_interleaved.json": sinusoidal_interleaved,
    "sinusoidal_concatenated.json": sinusoidal_concatenated,
    "sinusoidal_t2t.json": sinusoidal_t2t,
    "sinusoidal_mlx.json": sinusoidal_mlx,
    "sinusoidal_2d.json": sinusoidal_2d,
    "positions_learned.json": positions_learned,
    "table_interpolation_linear.json": table_interpolation_linear,
    "table_interpolation_grid.json": table_interpolation_grid,
}
