"""Activations and losses of autograd/ops/composed_ops.h in PyTorch, with gradients, at ordinary and special points.

usage: python3 tests/golden/golden_losses.py, with PyTorch, numpy and safetensors
"""

import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

UNARY = {
    "leaky_relu": F.leaky_relu, "leaky_relu(0.2)": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu, "elu(0.5)": lambda x: F.elu(x, 0.5), "mish": F.mish,
}
BINARY = {
    "l1_loss": F.l1_loss, "l1_loss(none)": lambda x, t: F.l1_loss(x, t, reduction="none"),
    "smooth_l1_loss": F.smooth_l1_loss, "smooth_l1_loss(0.5,sum)": lambda x, t: F.smooth_l1_loss(x, t, reduction="sum", beta=0.5),
    "smooth_l1_loss(none)": lambda x, t: F.smooth_l1_loss(x, t, reduction="none"),
    "huber_loss": F.huber_loss, "huber_loss(0.5,sum)": lambda x, t: F.huber_loss(x, t, reduction="sum", delta=0.5),
    "huber_loss(none)": lambda x, t: F.huber_loss(x, t, reduction="none"),
}
POINTS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.3, -2.7, 3.0, -3.0, 40.0, -40.0, 200.0, -200.0]

if __name__ == "__main__":
    tensors = {}
    for dtype, label in [(torch.float32, "f32"), (torch.float64, "f64")]:
        points = torch.tensor(POINTS, dtype=dtype)
        for name, op in (UNARY | BINARY).items():
            # A target of zeros, and one that is equal to x somewhere and beyond it elsewhere.
            for case, target in enumerate([torch.zeros_like(points), points.roll(2).abs()][: 1 if name in UNARY else 2]):
                inputs = [t.clone().requires_grad_() for t in ([points] if name in UNARY else [points, target])]
                y = op(*inputs)
                grads = torch.autograd.grad(y.sum(), inputs)
                for key, t in [("out", y), *((f"in{i}", x) for i, x in enumerate(inputs)), *((f"grad{i}", g) for i, g in enumerate(grads))]:
                    tensors[f"{name}@{case}/{label}/{key}"] = t.detach().contiguous().clone()
    save_file(tensors, pathlib.Path(__file__).parent / "losses.safetensors")
