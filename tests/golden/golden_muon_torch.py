#!/usr/bin/env python3
"""Writes muon_torch.json: ten steps of torch.optim.Muon, as it is and without its rounding to bf16.

Needs PyTorch 2.9 or later. Each case has three results: `bf16` is torch.optim.Muon of float32 parameters as PyTorch
ships it; `f32` and `f64` are of parameters of that type, with the only change that Newton-Schulz iterations keep the
type of the gradient. The text of PyTorch's own function is changed, so all else in it is PyTorch's.
With an argument, prints instead how far bf16 is from f32 on matrices of the sizes of real models.
"""
import inspect
import itertools
import json
import sys
from pathlib import Path

import torch
from torch.optim import _muon

STEPS, LR = 10, 0.05
SHAPES = {"tall": (12, 5), "wide": (5, 12), "square": (8, 8)}
CASES = {
    "defaults": {},
    "match": {"adjust_lr_fn": "match_rms_adamw"},
    "plain": {"nesterov": False, "weight_decay": 0},
    "plain match": {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "momentum": 0.9},
    "three": {"ns_steps": 3, "momentum": 0.8},
    "three match": {"ns_steps": 3, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.5},
    "three plain": {"ns_steps": 3, "nesterov": False, "momentum": 0.3, "weight_decay": 0.5},
    "no momentum": {"momentum": 0, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0},
}
torch.set_num_threads(1)
shipped = _muon._zeropower_via_newtonschulz


def unrounded():
    text = inspect.getsource(shipped)
    assert text.count(".bfloat16()") == 1, "PyTorch rounds to bf16 elsewhere now"
    names = dict(vars(_muon))
    exec(text.replace(".bfloat16()", ".clone()"), names)
    return names[shipped.__name__]


def numbers(shape, t, dtype):
    """Multiples of 2^-10, which every type has exactly. Step 0 is for the parameters."""
    k = torch.arange(shape[0] * shape[1])
    return (((37 * k * k + 101 * k * t + 13 * t + 5 * k) % 1021 - 510).to(torch.float64) / 1024).reshape(shape).to(dtype)


def run(shape, options, dtype, newton_schulz, numbers=numbers):
    _muon._zeropower_via_newtonschulz = newton_schulz
    p = torch.nn.Parameter(numbers(shape, 0, dtype))
    optimizer = torch.optim.Muon([p], lr=LR, **options)
    for t in range(1, STEPS + 1):
        p.grad = numbers(shape, t, dtype)
        optimizer.step()
    return p.detach()


def distances():
    def normal(shape, t, dtype):
        return torch.randn(shape, generator=torch.Generator().manual_seed(t), dtype=torch.float64).to(dtype)

    print(f"PyTorch {torch.__version__}")
    for shape, steps in itertools.product([(128, 128), (512, 128), (128, 512), (384, 384)], [3, 5]):
        options = {"ns_steps": steps, "weight_decay": 0, "momentum": 0.95}
        start = normal(shape, 0, torch.float64)
        way = [run(shape, options, dtype, function, normal).double() - start
               for dtype, function in [(torch.float32, shipped), (torch.float64, shipped), (torch.float32, unrounded()),
                                       (torch.float64, unrounded())]]
        print(shape, steps, *(f"{((w - way[3]).norm() / way[3].norm()).item():.2e}" for w in way[:3]),
              f"{((way[0] - way[3]).abs().max() / way[3].abs().max()).item():.2e}")


def main():
    kinds = {"bf16": (torch.float32, shipped), "f32": (torch.float32, unrounded()), "f64": (torch.float64, unrounded())}
    golden = {"torch": torch.__version__, "lr": LR, "steps": STEPS, "shapes": SHAPES, "cases": {}}
    for name, options in CASES.items():
        golden["cases"][name] = {"options": options} | {
            kind: {label: run(shape, options, *how).flatten().tolist() for label, shape in SHAPES.items()}
            for kind, how in kinds.items()}
    text = json.dumps(golden, indent=1)
    Path(__file__).with_name("muon_torch.json").write_text(text + "\n")


distances() if len(sys.argv) > 1 else main()
