#!/usr/bin/env python3
"""Writes soap.json: steps of SOAP, from its formula, in float64. Needs nothing but Python.

The formula is algorithm 3 of Vyas et al., arXiv 2409.11321, in the order of its authors' program, with two
differences that soap.h names: orthogonal iteration in place of the first eigendecomposition, with a millionth of the
largest eigenvalue added to all, and weight decay before the step. The orthonormal bases come from Householder's
reflections here, whose signs may differ from those of Gram-Schmidt: the steps do not depend on them.
"""
import json
import math
from pathlib import Path

LR, STEPS, FIRST, SHARE, EPS = 0.02, 12, 5, 1e-6, 1e-8
SHAPES = {"square.weight": (6, 6), "wide.weight": (3, 5), "tall.weight": (7, 2)}
CASES = {
    "defaults": {},
    "often": {"precondition_frequency": 1, "weight_decay": 0.3},
    "betas": {"precondition_frequency": 4, "beta1": 0.8, "beta2": 0.9},
    "small sides": {"precondition_frequency": 2, "max_precond_dim": 5},
    "no side": {"max_precond_dim": 1},
    "cautious": {"precondition_frequency": 3, "weight_decay": 0.5, "cautious": True},
}


def numbers(shape, t):
    """Step 0 is for the parameters."""
    rows, columns = shape
    flat = [((37 * k * k + 101 * k * t + 13 * t + 5 * k) % 1021 - 510) / 1024 for k in range(rows * columns)]
    return [flat[i * columns:(i + 1) * columns] for i in range(rows)]


def transposed(a):
    return [list(row) for row in zip(*a)]


def matmul(a, b):
    columns = transposed(b)
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def combined(f, a, g, b):
    """f * a + g * b."""
    return [[f * x + g * y for x, y in zip(ra, rb)] for ra, rb in zip(a, b)]


def identity(n):
    return [[float(i == j) for j in range(n)] for i in range(n)]


def q_of_qr(a):
    """The Q of a square matrix, by Householder's reflections."""
    n = len(a)
    r, q = [row[:] for row in a], identity(n)
    for k in range(n - 1):
        x = [r[i][k] for i in range(k, n)]
        length = math.sqrt(math.fsum(v * v for v in x))
        x[0] += math.copysign(length, x[0])
        square = math.fsum(v * v for v in x)
        if square == 0:
            continue
        for matrix, is_q in ((r, False), (q, True)):
            for j in range(n):
                column = [matrix[j][i] if is_q else matrix[i][j] for i in range(k, n)]
                share = 2 * math.fsum(u * v for u, v in zip(x, column)) / square
                for i in range(k, n):
                    if is_q:
                        matrix[j][i] -= share * x[i - k]
                    else:
                        matrix[i][j] -= share * x[i - k]
    return q


def iterated(mean, q):
    """The next basis, whose columns are the vectors, and their numbers before."""
    n = len(mean)
    product = matmul(mean, q)
    values = [math.fsum(q[i][j] * product[i][j] for i in range(n)) for j in range(n)]
    order = sorted(range(n), key=lambda j: -values[j])
    added = SHARE * values[order[0]]
    return q_of_qr([[product[i][j] + added * q[i][j] for j in order] for i in range(n)]), order


def run(shape, beta1=0.95, beta2=0.95, weight_decay=0.01, precondition_frequency=10, max_precond_dim=10000,
        cautious=False):
    rows, columns = shape
    p = numbers(shape, 0)
    m, v = [[[0.0] * columns for _ in range(rows)] for _ in range(2)]
    means = [[[0.0] * n for _ in range(n)] if n <= max_precond_dim else None for n in shape]
    bases = [identity(n) for n in shape]  # an identity is as good as none

    def turned(x):
        return matmul(matmul(transposed(bases[0]), x), bases[1])

    for t in range(1, STEPS + 1):
        g = numbers(shape, t)
        if t > 1:
            m = combined(beta1, m, 1 - beta1, g)
            v = [[beta2 * a + (1 - beta2) * b * b for a, b in zip(ra, rb)] for ra, rb in zip(v, turned(g))]
            x = [[a / (math.sqrt(b) + EPS) for a, b in zip(ra, rb)] for ra, rb in zip(turned(m), v)]
            x = matmul(matmul(bases[0], x), transposed(bases[1]))
            rate = LR * math.sqrt(1 - beta2 ** (t - 1)) / (1 - beta1 ** (t - 1))
            for i in range(rows):
                for j in range(columns):
                    decay = weight_decay if not cautious or x[i][j] * p[i][j] >= 0 else 0
                    p[i][j] = p[i][j] * (1 - LR * decay) - rate * x[i][j]
        outer = matmul(g, transposed(g)), matmul(transposed(g), g)
        for side in range(2):
            if means[side] is not None:
                means[side] = combined(beta2, means[side], 1 - beta2, outer[side])
        if t > 1 and (t - 1) % precondition_frequency != 0:
            continue
        for _ in range(FIRST if t == 1 else 1):
            for side in range(2):
                if means[side] is None:
                    continue
                bases[side], order = iterated(means[side], bases[side])
                v = [v[i] for i in order] if side == 0 else [[row[j] for j in order] for row in v]
    return [value for row in p for value in row]


golden = {"lr": LR, "steps": STEPS, "shapes": SHAPES,
          "cases": {case: {"options": options, "final": {name: run(shape, **options) for name, shape in SHAPES.items()}}
                    for case, options in CASES.items()}}
Path(__file__).with_name("soap.json").write_text(json.dumps(golden, indent=1) + "\n")
