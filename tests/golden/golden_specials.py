"""Ops at special values in PyTorch: results, gradients, and gradients of the gradients.

usage: python3 tests/golden/golden_specials.py, with PyTorch 2.14, numpy and safetensors. In 2.6, clamp passes a gradient at
its limits, that of atan2 is NaN at (0, 0), and elu is 0 for -1e-30. The sign of a NaN depends on the processor.
"""

import itertools
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

INF, NAN = float("inf"), float("nan")
TINY = {torch.float32: 1e-40, torch.float64: 1e-310}  # denormals


def specials(dtype):
    t = TINY[dtype]
    return [0.0, -0.0, t, -t, 1e-30, -1e-30, 1.0, -1.0, 2.5, -2.5, 1e30, -1e30, INF, -INF, NAN]


def attention(q, k, v):
    return F.scaled_dot_product_attention(q.view(1, 1, 1, 1), k.view(1, 1, 2, 1), v.view(1, 1, 2, 1)).view(1)


def with_logits(x, target):
    return F.binary_cross_entropy_with_logits(x, torch.full_like(x, target), reduction="none")


# Elementwise ops meet all values (or all pairs) in one tensor.
UNARY = {
    "neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "erf": torch.erf, "relu": torch.relu, "abs": torch.abs,
    "clamp(-1,1)": lambda x: x.clamp(-1, 1), "gelu(tanh)": lambda x: F.gelu(x, approximate="tanh"), "gelu(erf)": F.gelu,
    "pow(0)": lambda x: x ** 0, "pow(3)": lambda x: x ** 3, "pow(-1)": lambda x: x ** -1, "pow(0.5)": lambda x: x ** 0.5,
    "inverse": lambda x: torch.div(torch.ones((), dtype=x.dtype), x), "dropout(0.15)": lambda x: dropout(x),
    "sin": torch.sin, "cos": torch.cos, "log1p": torch.log1p, "expm1": torch.expm1, "softplus": F.softplus, "silu": F.silu,
    "with_logits(0)": lambda x: with_logits(x, 0), "with_logits(0.25)": lambda x: with_logits(x, 0.25),
    "with_logits(1)": lambda x: with_logits(x, 1), "round": torch.round, "floor": torch.floor, "ceil": torch.ceil,
    "trunc": torch.trunc, "sign": torch.sign, "tan": torch.tan, "log2": torch.log2, "leaky_relu": F.leaky_relu, "elu": F.elu,
    "mish": F.mish, "hardswish": F.hardswish, "hardtanh": F.hardtanh, "hardtanh(-2.5,1)": lambda x: F.hardtanh(x, -2.5, 1),
    "hardsigmoid": F.hardsigmoid,
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "maximum": torch.maximum,
    "where": lambda a, b: torch.where(torch.arange(a.numel()) % 2 == 0, a, b), "mse_loss": lambda a, b: (a - b) ** 2,
    "kl_div": lambda a, b: F.kl_div(a, b, reduction="none"),
    "kl_div(log_target)": lambda a, b: F.kl_div(a, b, reduction="none", log_target=True),
    "swiglu": lambda a, b: F.silu(a) * b, "atan2": torch.atan2, "l1_loss": lambda a, b: F.l1_loss(a, b, reduction="none"),
    "smooth_l1_loss": lambda a, b: F.smooth_l1_loss(a, b, reduction="none"),
    "huber_loss": lambda a, b: F.huber_loss(a, b, reduction="none"),
}
# Ops on a row of two meet each pair by itself.
ROWS = {
    "sum": torch.sum, "mean": torch.mean, "var": torch.var, "max": torch.max, "max(0)": lambda x: x.max(0).values,
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1), "layer_norm": lambda x: F.layer_norm(x, (2,)),
    "cumsum": lambda x: x.cumsum(0), "sort": lambda x: x.sort(stable=True).values,
    "sort(descending)": lambda x: x.sort(stable=True, descending=True).values, "topk(1)": lambda x: x.topk(1).values,
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor(0)),
    "matmul": lambda x: torch.matmul(x, torch.tensor([1.0, 2.0], dtype=x.dtype)),
    "attention": lambda k: attention(torch.ones(1, dtype=k.dtype), k, torch.tensor([3.0, 5.0], dtype=k.dtype)),
}


def dropout(x):
    torch.manual_seed(3)
    return F.dropout(x, 0.15)


def derivatives(f, inputs, dy):
    """→ out, the gradients of Σ dy·out, and those of a weighted sum of these gradients."""
    xs = [x.clone().requires_grad_() for x in inputs]
    y = f(*xs)
    first = torch.autograd.grad(y, xs, torch.full_like(y, dy), create_graph=True, allow_unused=True)
    first = [torch.zeros_like(x) if g is None else g for g, x in zip(first, xs)]
    roots = [g for g in first if g.requires_grad]
    weights = [1.0 - 3.0 * (torch.arange(g.numel(), dtype=g.dtype) % 2) if g.numel() == 2 else torch.ones_like(g) for g in roots]
    zeros = [torch.zeros_like(x) for x in xs]
    try:
        second = torch.autograd.grad(roots, xs, weights, allow_unused=True) if roots else zeros
    except RuntimeError:  # fused attention has no second derivative
        second = []
    second = [z if g is None or g._is_zerotensor() else g for g, z in zip(second, zeros)]
    first = [z if g._is_zerotensor() else g for g, z in zip(first, zeros)]
    return [y.detach(), *(g.detach() for g in first), *second]


def special_tensors():
    tensors = {}
    for dtype, label in [(torch.float32, "f32"), (torch.float64, "f64")]:
        values = torch.tensor(specials(dtype), dtype=dtype)
        pairs = torch.tensor(list(itertools.product(specials(dtype), repeat=2)), dtype=dtype)
        tensors[f"values/{label}"], tensors[f"pairs/{label}"] = values, pairs

        def put(name, op, inputs, dy):
            results = derivatives(op, inputs, dy)
            for part, t in zip(["out", *(f"{k}{i}" for k in "gh" for i in range(len(inputs)))], results):
                tensors[f"{name}/{label}/{part}"] = t

        for name, op in UNARY.items():
            put(name, op, [values], 1.0)
            put(f"{name};dy=inf", op, [values], INF)
        for name, op in BINARY.items():
            put(name, op, [pairs[:, 0].contiguous(), pairs[:, 1].contiguous()], 1.0)
        for name, op in ROWS.items():
            results = [derivatives(op, [row], 1.0) for row in pairs]
            for part, stack in zip(["out", "g0", "h0"], zip(*results)):
                tensors[f"{name}/{label}/{part}"] = torch.stack(stack)
    return tensors


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors = {key: t.contiguous().clone() for key, t in special_tensors().items()}
    save_file(tensors, pathlib.Path(__file__).parent / "specials.safetensors")
