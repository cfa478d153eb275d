"""What is left of a row of logits after temperature, top-k and top-p, in that order."""

import numpy as np
import torch
import transformers
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from common import document, random_floats, tensor

VERSION = transformers.__version__


def sampling():
    cases = []
    rows = {"random": random_floats(3000, 12, scale=2.0), "wide": random_floats(3001, 12, scale=20.0),
            "two equal at the top": np.array([1.0, 3.0, 3.0, 0.5, -1.0], np.float32),
            "all equal": np.full(4, 0.25, np.float32), "one token": np.array([0.5], np.float32),
            "with -inf": np.array([0.0, -np.inf, 1.0, -np.inf, 2.0], np.float32)}
    settings = [dict(temperature=1.0), dict(temperature=0.5), dict(temperature=2.0), dict(top_k=1), dict(top_k=3), dict(top_k=100),
                dict(top_p=0.9), dict(top_p=0.5), dict(top_p=1e-6), dict(temperature=0.7, top_k=5, top_p=0.8)]
    for label, logits in rows.items():
        for keys in settings:
            if label in ("all equal", "two equal at the top") and "top_p" in keys and keys["top_p"] < 0.99:
                continue  # which of several equals survives depends on the sort
            scores = torch.from_numpy(logits)[None]
            ids = torch.zeros(1, 1, dtype=torch.long)
            if keys.get("temperature", 1.0) != 1.0:
                scores = TemperatureLogitsWarper(keys["temperature"])(ids, scores)
            if "top_k" in keys:
                scores = TopKLogitsWarper(keys["top_k"])(ids, scores)
            if "top_p" in keys:
                scores = TopPLogitsWarper(keys["top_p"])(ids, scores)
            probabilities = torch.softmax(scores.double(), -1)[0]
            cases.append({"name": f"{label}: " + ", ".join(f"{k} {v:g}" for k, v in keys.items()), "parameters": keys,
                          "inputs": {"logits": tensor(logits)},
                          "expected": {"kept": tensor((scores[0] > float("-inf")).numpy().astype(np.uint8)),
                                       "probabilities": tensor(probabilities)}})
    return document("temperature, top-k, top-p", "transformers", VERSION,
                    "generation.logits_process: TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, softmax in float64",
                    cases, note="top-k keeps every logit that is not below the k-th largest, so equals at the edge all stay. top-p "
                                "keeps the smallest set of largest probabilities whose sum reaches p, at least one.")


FILES = {"sampling.json": sampling}
