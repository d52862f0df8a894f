#!/usr/bin/env python3
"""Writes row_selection.json: draws of torch.utils.data's random_split and WeightedRandomSampler."""
import json
from pathlib import Path

import torch
from torch.utils.data import WeightedRandomSampler, random_split

WEIGHTS = [0.5, 0, 3, 1.25, 0, 0.0625, 7, 2, 1e-9, 4]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def main():
    splits = []
    for seed, rows, lengths in [(1, 10, [7, 3]), (2, 11, [0.5, 0.3, 0.2]), (3, 23, [0.8, 0.1, 0.1]), (4, 5, [0, 5])]:
        parts = random_split(range(rows), lengths, generator=seeded(seed))
        splits.append({"seed": seed, "rows": rows, "lengths": lengths, "parts": [list(part) for part in parts]})
    samples = []
    for seed, count, replacement in [(1, 40, True), (2, 1, True), (3, 8, False), (4, 3, False), (5, 1, False)]:
        sampler = WeightedRandomSampler(WEIGHTS, count, replacement, generator=seeded(seed))
        samples.append({"seed": seed, "replacement": replacement, "rows": list(sampler)})
    golden = {"torch": torch.__version__, "splits": splits, "weights": WEIGHTS, "samples": samples}
    Path(__file__).with_name("row_selection.json").write_text(json.dumps(golden) + "\n")


main()
