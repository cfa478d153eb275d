"""Positions of padded, continued and packed batches, and what two detectors of packing read out of position_ids."""

import types
import warnings

import numpy as np
import torch
import transformers
from transformers import modeling_flash_attention_utils as flash
from transformers.data.data_collator import DataCollatorWithFlattening
from transformers.generation.utils import GenerationMixin
from transformers.masking_utils import find_packed_sequence_indices

from common import document, tensor

VERSION = transformers.__version__
warnings.filterwarnings("ignore")


def positions_padded():
    cases = []
    for name, mask in [("no padding", [[1, 1, 1]]), ("left padding", [[0, 0, 1, 1, 1], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]),
                       ("right padding", [[1, 1, 1, 0, 0]]), ("both sides", [[0, 1, 1, 0]]), ("hole", [[1, 0, 1, 1]]),
                       ("a row of padding only", [[0, 0, 0], [1, 1, 1]]), ("one token", [[1]])]:
        m = torch.tensor(mask)
        got = GenerationMixin._prepare_position_ids_for_generation(None, torch.zeros(m.shape, dtype=torch.long),
                                                                   {"attention_mask": m})
        indices, cu_seqlens, longest = flash._get_unpad_data(m)
        cases.append({"name": name, "parameters": {}, "inputs": {"attention_mask": tensor(m)},
                      "expected": {"positions": tensor(got), "next_position": tensor(got[:, -1] + 1),
                                   "valid_index": tensor(indices), "cu_seqlens": tensor(cu_seqlens), "longest": int(longest)}})
    past = types.SimpleNamespace(get_seq_length=lambda: 4)
    got = GenerationMixin._prepare_position_ids_for_generation(None, torch.zeros(2, 3, dtype=torch.long), {"cache": past})
    cases.append({"name": "no mask, four cached, three new", "parameters": {"cached": 4, "tokens": 3}, "inputs": {},
                  "expected": {"positions": tensor(got)}})
    return document("positions of padded batches", "transformers", VERSION,
                    "GenerationMixin._prepare_position_ids_for_generation; modeling_flash_attention_utils._get_unpad_data", cases,
                    note="Padding has position 0 in this version (1 before 5.x). next_position is what generation gives the next "
                         "token: the row's last entry + 1, so with right padding it is wrong (1). Without a mask, positions cover "
                         "cached and new tokens.")


def positions_packed():
    cases = []
    for name, lengths, start in [("three documents", [3, 1, 4], 0), ("one document", [5], 0), ("documents of one token", [1, 1, 1], 0),
                                 ("an empty document is dropped", [2, 0, 2], 0), ("starting at 2 (RoBERTa)", [3, 2], 2)]:
        collate = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True, position_ids_start=start)
        features = [{"input_ids": list(range(10 * i + 1, 10 * i + 1 + n))} for i, n in enumerate(lengths)]
        got = collate(features, return_tensors="pt")
        cases.append({"name": name, "parameters": {"lengths": lengths, "start": start}, "inputs": {},
                      "expected": {"positions": tensor(got["position_ids"]), "segments": tensor(got["seq_idx"]),
                                   "cu_seqlens": tensor(got["cu_seq_lens_q"]), "longest": int(got["max_length_q"]),
                                   "labels": tensor(got["labels"])}})
    return document("positions of packed rows", "transformers", VERSION,
                    "data.data_collator.DataCollatorWithFlattening(return_flash_attn_kwargs, return_seq_idx)", cases,
                    note="labels hold -100 at each document's first token.")


def positions_detect():
    cases = []
    for name, ids in [("one document", [0, 1, 2, 3]), ("two documents", [0, 1, 2, 0, 1]),
                      ("a document of one token", [0, 1, 2, 0, 0, 1, 2]), ("starting at 2", [2, 3, 4, 2, 3]),
                      ("continuing at 7", [7, 8, 9]), ("continuing at 7, then a new document", [7, 8, 0, 1]),
                      ("left padding by zeros", [0, 0, 0, 1, 2]), ("left padding by ones", [1, 1, 0, 1, 2]),
                      ("right padding by zeros", [0, 1, 2, 0, 0]), ("a jump (prefix then text)", [0, 1, 2, 10, 11]),
                      ("image tokens share a position", [0, 1, 2, 2, 2, 2, 4, 5]), ("one token", [5]), ("all zero", [0, 0, 0]),
                      ("second document shorter than an offset", [0, 1, 2, 1, 2]), ("falling", [3, 2, 1, 0])]:
        t = torch.tensor([ids])
        segments = find_packed_sequence_indices(t)
        packed = bool(flash._is_packed_sequence(t, 1))
        (cu_seqlens, _), _ = flash.prepare_fa_kwargs_from_position_ids(t)
        mask_bounds = [0] if segments is None else [0] + [i for i in range(1, len(ids)) if segments[0, i] != segments[0, i - 1]]
        mask_bounds = mask_bounds + [len(ids)]
        varlen_bounds = cu_seqlens.tolist() if packed else [0, len(ids)]
        cases.append({"name": name, "parameters": {}, "inputs": {"positions": tensor(t)},
                      "expected": {"mask_segments": tensor(torch.zeros_like(t) if segments is None else segments),
                                   "mask_boundaries": mask_bounds, "varlen_packed": packed,
                                   "varlen_boundaries": varlen_bounds, "agree": mask_bounds == varlen_bounds}})
    return document("packing read out of position_ids", "transformers", VERSION,
                    "masking_utils.find_packed_sequence_indices; modeling_flash_attention_utils: _is_packed_sequence, "
                    "prepare_fa_kwargs_from_position_ids", cases,
                    note="The mask path cuts wherever the difference is not 1; the variable-length path cuts at every entry that "
                         "equals the row's minimum, if the row is not a plain count. agree says whether both cut alike. A first "
                         "varlen boundary other than 0 leaves the tokens before it out.")


FILES = {
    "positions_padded.json": positions_padded,
    "positions_packed.json": positions_packed,
    "positions_detect.json": positions_detect,
}
