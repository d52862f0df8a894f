"""Ops that round, select, scatter, multiply and measure, and losses of margins: PyTorch's results and gradients.

usage: python3 tests/golden/golden_tensor_ops.py, with PyTorch, numpy and safetensors
"""

import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

EDGES = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.3, -0.7, 3.0, 1e9, -7.25, float("inf"), float("-inf"), float("nan")]
POINTS = [0.0, 0.5, -0.5, 1.0, -1.0, 2.9, -2.9, 3.0, -3.0, 3.1, -3.1, 40.0, -40.0, 0.01]
PARTS = [1e-30, 0.1, 0.5, 1.0, 2.0, 3.0, 1024.0, 1e30]
INDEX = torch.tensor([[3, 0, 3], [1, 1, 2]])
IDS = torch.tensor([2, 0, 2, 2])
SIGNS = torch.tensor([1, -1, -1, 1])
CLASSES = torch.tensor([0, 4, 2, 2])


def numbers(*shape, seed=1):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).float().double()


def weights(x):
    return torch.tensor([0.5, 2, 1, 3, 0.25], dtype=x.dtype)


def with_zeros(*where):
    x = numbers(3, 4)
    for place in where:
        x.view(-1)[place] = 0
    return x


EDGE, POINT, PART = ([torch.tensor(v, dtype=torch.float64)] for v in (EDGES, POINTS, PARTS))
PAIR = [numbers(3, 4), numbers(3, 4, seed=2)]
ROWS = [numbers(4), numbers(4, seed=2)]
FOUR = [numbers(4, 3), numbers(4, 3, seed=2)]
TRIPLE = [*FOUR, numbers(4, 3, seed=3)]
SPREADS = [numbers(3, 4), torch.ones(2, 3).double()]
PRODUCTS = [numbers(3, 5), with_zeros(5), with_zeros(1, 5), with_zeros(0, 1)]

# name → function, and lists of inputs
OPS = {
    **{name: (getattr(torch, name), [EDGE]) for name in ("round", "floor", "ceil", "trunc", "sign")},
    "tan": (torch.tan, [POINT]), "log2": (torch.log2, [PART]), "hardswish": (F.hardswish, [POINT]),
    "atan2": (torch.atan2, [PAIR, [numbers(3, 1), numbers(4)], [torch.tensor([0.0, 0, 1, -1, 2]).double(), torch.tensor([1.0, -1, 0, 0, -3]).double()]]),
    "stddev": (lambda x: x.std(), [[x] for x in SPREADS]), "stddev(1,biased)": (lambda x: x.std(1, unbiased=False), [[x] for x in SPREADS]),
    "norm": (lambda x: x.norm(), [[numbers(3, 4)], [torch.zeros(3).double()]]),
    "norm(2,1,keep)": (lambda x: x.norm(2, 1, True), [[numbers(3, 4)], [with_zeros(0, 1, 2, 3)]]),
    "norm(1,0)": (lambda x: x.norm(1, 0), [[with_zeros(0, 5)]]), "norm(3)": (lambda x: x.norm(3), [[with_zeros(0, 5)]]),
    "norm(0.5,1)": (lambda x: x.norm(0.5, 1), [[with_zeros(0, 5)]]),
    "prod": (torch.prod, [[x] for x in PRODUCTS]), "prod(1)": (lambda x: x.prod(1), [[x] for x in PRODUCTS]),
    "prod(0,keep)": (lambda x: x.prod(0, True), [[numbers(7, 2)], [torch.zeros(0, 2).double()]]),
    "cumprod(0)": (lambda x: x.cumprod(0), [[x] for x in PRODUCTS]), "cumprod(1)": (lambda x: x.cumprod(1), [[x] for x in PRODUCTS]),
    "normalize": (F.normalize, [[numbers(3, 4)], [with_zeros(0, 1, 2, 3)]]), "normalize(1,0)": (lambda x: F.normalize(x, 1, 0), [[numbers(3, 4)]]),
    "cosine_similarity": (F.cosine_similarity, [PAIR, [numbers(3, 4), numbers(1, 4)], [with_zeros(0, 1, 2, 3), numbers(3, 4, seed=2)]]),
    "cosine_similarity(0)": (lambda a, b: F.cosine_similarity(a, b, 0), [PAIR]),
    "pairwise_distance": (F.pairwise_distance, [PAIR]), "pairwise_distance(1,keep)": (lambda a, b: F.pairwise_distance(a, b, 1, keepdim=True), [PAIR]),
    "scatter_add(1)": (lambda x, s: x.scatter_add(1, INDEX, s), [[numbers(2, 4), numbers(2, 3, seed=2)]]),
    "index_add(0)": (lambda x, s: x.index_add(0, IDS, s), [[numbers(3, 2), numbers(4, 2, seed=2)]]),
    "index_add(1)": (lambda x, s: x.index_add(1, IDS, s), [[numbers(2, 3, 2), numbers(2, 4, 2, seed=2)]]),
    "masked_select": (lambda x: x.masked_select(x > 0), [[numbers(3, 4)]]),
    "masked_select(row)": (lambda x: x.masked_select(torch.tensor([True, False, True])), [[numbers(2, 1)]]),
    **{f"pad({mode},{n})": (lambda x, mode=mode, n=n: F.pad(x, [2, 1, 0, 2, 1, 1][:2 * n], mode), [[numbers(*[2, 2, 3, 4, 5][:n + 2])]])
       for mode in ("reflect", "replicate", "circular") for n in (1, 2, 3)},
    "nll_loss": (lambda x: F.nll_loss(x, CLASSES), [[numbers(4, 5)]]),
    "nll_loss(none)": (lambda x: F.nll_loss(x, CLASSES, reduction="none"), [[numbers(4, 5)]]),
    "nll_loss(weight,ignore=2)": (lambda x: F.nll_loss(x, CLASSES, weights(x), ignore_index=2), [[numbers(4, 5)]]),
    "nll_loss(weight,sum)": (lambda x: F.nll_loss(x, CLASSES, weights(x), reduction="sum"), [[numbers(4, 5)]]),
    "cross_entropy(weight,ignore=2)": (lambda x: F.cross_entropy(x, CLASSES, weights(x), ignore_index=2), [[numbers(4, 5)]]),
    "cross_entropy(sum)": (lambda x: F.cross_entropy(x, CLASSES, reduction="sum"), [[numbers(4, 5)]]),
    "cross_entropy(smoothing=0.1)": (lambda x: F.cross_entropy(x, CLASSES, label_smoothing=0.1), [[numbers(4, 5)]]),
    "cross_entropy(smoothing=0.1,ignore=2)": (lambda x: F.cross_entropy(x, CLASSES, ignore_index=2, label_smoothing=0.1), [[numbers(4, 5)]]),
    "cross_entropy(smoothing=0.3,weight,ignore=2)": (
        lambda x: F.cross_entropy(x, CLASSES, weights(x), ignore_index=2, label_smoothing=0.3), [[numbers(4, 5)], [100 * numbers(4, 5, seed=2)]]),
    "cross_entropy(smoothing=0.3,weight,none)": (
        lambda x: F.cross_entropy(x, CLASSES, weights(x), reduction="none", label_smoothing=0.3), [[numbers(4, 5)]]),
    "cross_entropy(smoothing=1,weight,sum)": (lambda x: F.cross_entropy(x, CLASSES, weights(x), reduction="sum", label_smoothing=1), [[numbers(4, 5)]]),
    "hinge_embedding_loss": (lambda x: F.hinge_embedding_loss(x, SIGNS.to(x.dtype)), [[numbers(3, 4)], [torch.tensor([1.0, 1, -3, 0]).double()]]),
    "hinge_embedding_loss(0.5,none)": (lambda x: F.hinge_embedding_loss(x, SIGNS.to(x.dtype), 0.5, reduction="none"), [[numbers(3, 4)]]),
    "margin_ranking_loss": (lambda a, b: F.margin_ranking_loss(a, b, SIGNS.to(a.dtype)), [ROWS, [ROWS[0], ROWS[0]]]),
    "margin_ranking_loss(0.5,sum)": (lambda a, b: F.margin_ranking_loss(a, b, SIGNS.to(a.dtype), 0.5, reduction="sum"), [ROWS]),
    "cosine_embedding_loss": (lambda a, b: F.cosine_embedding_loss(a, b, SIGNS.to(a.dtype)), [FOUR]),
    "cosine_embedding_loss(0.2,none)": (lambda a, b: F.cosine_embedding_loss(a, b, SIGNS.to(a.dtype), 0.2, reduction="none"), [FOUR]),
    "triplet_margin_loss": (F.triplet_margin_loss, [TRIPLE]),
    "triplet_margin_loss(2,1,swap,none)": (lambda *x: F.triplet_margin_loss(*x, margin=2, p=1, swap=True, reduction="none"), [TRIPLE]),
}

if __name__ == "__main__":
    tensors = {}
    for dtype, label in [(torch.float32, "f32"), (torch.float64, "f64")]:
        for name, (op, cases) in OPS.items():
            for case, values in enumerate(cases):
                inputs = [x.to(dtype).clone().requires_grad_() for x in values]
                y = op(*inputs)
                dy = (torch.arange(y.numel(), dtype=dtype) % 5 - 1.5).view(y.shape)
                grads = torch.autograd.grad(y, inputs, dy)
                kept = [("out", y), ("dout", dy), *((f"in{i}", x) for i, x in enumerate(inputs)), *((f"grad{i}", g) for i, g in enumerate(grads))]
                tensors |= {f"{name}@{case}/{label}/{key}": t.detach().contiguous().clone() for key, t in kept}
    tensors |= {f"linspace@{n}/{label}/out": torch.linspace(-0.7, 2.3, n, dtype=dtype) for n in (1, 2, 7, 1000) for dtype, label in [(torch.float32, "f32"), (torch.float64, "f64")]}
    save_file(tensors, pathlib.Path(__file__).parent / "tensor_ops.safetensors")
