#!/usr/bin/env python3
"""Writes derivatives.json: PyTorch's torch.autograd.functional of a few functions, in float64."""
import json
from pathlib import Path

import torch
from torch.autograd import functional

X = torch.tensor([[0.5, -0.25, 0.75], [1.5, -1.0, 0.125]], dtype=torch.float64)
V = torch.tensor([[1.0, 0.5, -0.5], [0.25, -2.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([0.3, -0.6, 0.9], dtype=torch.float64)
W = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
U = torch.tensor([0.75, -1.5], dtype=torch.float64)


def rows(x):  # (2, 3) → (2)
    return torch.sum(torch.exp(x) * torch.sin(x), 1)


def number(x):
    return torch.sum(torch.tanh(x) * torch.cumsum(x * x, 1))


def rows_of_two(x, y):
    return torch.tanh(x @ y)


def number_of_two(x, y):
    return torch.sum(torch.tanh(x @ y) * x[:, 0]) + torch.sum(y**3)


def numbers(value):
    return value.flatten().tolist() if isinstance(value, torch.Tensor) else [numbers(v) for v in value]


def main():
    golden = {
        "torch": torch.__version__,
        "jacobian": numbers(functional.jacobian(rows, X)),
        "jacobian_of_two": numbers(functional.jacobian(rows_of_two, (X, Y))),
        "hessian": numbers(functional.hessian(number, X)),
        "hessian_of_two": numbers(functional.hessian(number_of_two, (X, Y))),
        "vjp": numbers(functional.vjp(rows, X, U)),
        "jvp": numbers(functional.jvp(rows, X, V)),
        "jvp_of_two": numbers(functional.jvp(rows_of_two, (X, Y), (V, W))),
        "hvp": numbers(functional.hvp(number, X, V)),
        "hvp_of_two": numbers(functional.hvp(number_of_two, (X, Y), (V, W))),
        "per_example": numbers(torch.func.vmap(torch.func.grad(lambda y, x: torch.tanh(x @ y) ** 2), (None, 0))(Y, X)),
    }
    Path(__file__).with_name("derivatives.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
