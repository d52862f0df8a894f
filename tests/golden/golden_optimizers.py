#!/usr/bin/env python3
"""Writes optimizers.json: a small matrix after 24 steps of PyTorch's optimisers, in float32 and in float64.

The default dtype is the parameter's, so that the scalars that PyTorch keeps in tensors have its precision, too.
"""
import json
from pathlib import Path

import torch

STEPS, LR, SHAPE = 24, 0.02, (4, 3)
USUAL = {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.3}
CASES = {
    "Adam": [{}, {"amsgrad": True}, USUAL | {"amsgrad": True}],
    "AdamW": [{}, {"amsgrad": True}, USUAL | {"amsgrad": True}],
    "NAdam": [{}, USUAL, USUAL | {"decoupled_weight_decay": True}, {"momentum_decay": 0}, USUAL | {"momentum_decay": 0.5}],
}
torch.set_num_threads(1)


def numbers(t, dtype):
    """Multiples of 2^-10, which every type has exactly. Step 0 is for the parameter; gradients shrink, which amsgrad shows."""
    k = torch.arange(SHAPE[0] * SHAPE[1])
    values = ((37 * k * k + 101 * k * t + 13 * t + 5 * k) % 1021 - 510).to(torch.float64) / 1024
    return (values / 2 ** (t // 6)).reshape(SHAPE).to(dtype)


def run(kind, options, dtype):
    torch.set_default_dtype(dtype)
    p = torch.nn.Parameter(numbers(0, dtype))
    optimizer = getattr(torch.optim, kind)([p], lr=LR, foreach=False, **options)
    for t in range(1, STEPS + 1):
        p.grad = numbers(t, dtype)
        optimizer.step()
    return p.detach().flatten().tolist()


def main():
    cases = [{"kind": kind, "options": options, "f32": run(kind, options, torch.float32),
              "f64": run(kind, options, torch.float64)} for kind, rows in CASES.items() for options in rows]
    golden = {"torch": torch.__version__, "lr": LR, "steps": STEPS, "shape": SHAPE, "cases": cases}
    Path(__file__).with_name("optimizers.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
