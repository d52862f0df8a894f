#!/usr/bin/env python3
"""Writes muon.json: ten steps of Muon, from its formula, in float64. Needs nothing but Python.

The formula is that of torch.optim.Muon (PyTorch 2.9), which rounds the matrix to bf16 before the Newton-Schulz
iterations: its numbers would be good for two digits alone. Here nothing is rounded. The order of operations is
PyTorch's: the matrix with more rows than columns is transposed first, and each iteration is
X <- a X + (b A + c A A) X with A = X X^T.
"""
import json
import math
from pathlib import Path

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
EPS, LR, STEPS = 1e-7, 0.05, 10
SHAPES = {"wide.weight": (3, 5), "tall.weight": (7, 2), "h.0.attn.c_attn.weight": (12, 4),
          "h.1.attn.c_attn.weight": (8, 4)}
# The rows of matrices that are orthogonalised by themselves, where they are not all.
PIECES = {"h.0.attn.c_attn.weight": [0, 4, 8, 12], "h.1.attn.c_attn.weight": [0, 4, 6, 8]}
CASES = {
    "defaults": {},
    "original": {"momentum": 0.9, "nesterov": False, "adjust_lr": "original", "weight_decay": 0.3, "ns_steps": 2},
    "warmup": {"momentum_warmup": 6, "weight_decay": 0},
    "cautious": {"weight_decay": 0.5, "cautious": True},
}


def matmul(a, b):
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def transposed(a):
    return [list(row) for row in zip(*a)]


def combined(*terms):
    """The sum of factor * matrix."""
    rows, columns = len(terms[0][1]), len(terms[0][1][0])
    return [[math.fsum(f * m[i][j] for f, m in terms) for j in range(columns)] for i in range(rows)]


def newton_schulz(update, steps):
    a, b, c = COEFFICIENTS
    tall = len(update) > len(update[0])
    x = transposed(update) if tall else update
    norm = math.sqrt(math.fsum(v * v for row in x for v in row))
    x = combined((1 / max(norm, EPS), x))
    for _ in range(steps):
        gram = matmul(x, transposed(x))
        x = combined((a, x), (1, matmul(combined((b, gram), (c, matmul(gram, gram))), x)))
    return transposed(x) if tall else x


def adjusted(rows, columns, by):
    return math.sqrt(max(1, rows / columns)) if by == "original" else 0.2 * math.sqrt(max(rows, columns))


def run(name, shape, momentum=0.95, momentum_warmup=0, nesterov=True, ns_steps=5, adjust_lr="match_rms_adamw",
        weight_decay=0.1, cautious=False):
    rows, columns = shape
    p = [[((7 * (i * columns + j) + 3) % 17 - 8) / 8 for j in range(columns)] for i in range(rows)]
    m = [[0.0] * columns for _ in range(rows)]
    for t in range(1, STEPS + 1):
        g = [[3 * v * v / t for v in row] for row in p]  # of the loss sum(p³)/t
        mu = momentum
        if t - 1 < momentum_warmup:
            share = (t - 1) / momentum_warmup
            mu = (1 - share) * 0.85 + share * momentum
        m = combined((mu, m), (1 - mu, g))
        u = combined((1 - mu, g), (mu, m)) if nesterov else m
        pieces = PIECES.get(name, [0, rows])
        for begin, end in zip(pieces, pieces[1:]):
            x = newton_schulz(u[begin:end], ns_steps)
            rate = LR * adjusted(end - begin, columns, adjust_lr)
            for i in range(begin, end):
                for j in range(columns):
                    decay = weight_decay if not cautious or x[i - begin][j] * p[i][j] >= 0 else 0
                    p[i][j] = p[i][j] * (1 - LR * decay) - rate * x[i - begin][j]
    return [v for row in p for v in row]


golden = {"lr": LR, "steps": STEPS, "shapes": SHAPES,
          "cases": {case: {"options": options, "final": {name: run(name, shape, **options) for name, shape in SHAPES.items()}}
                    for case, options in CASES.items()}}
Path(__file__).with_name("muon.json").write_text(json.dumps(golden, indent=1) + "\n")
