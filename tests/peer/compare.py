"""Compares what peer_cases wrote with PyTorch:  python3 tests/peer/compare.py FILE

For each op, prints the worst error of its results and of its gradients, ours and PyTorch's, both in f32 against PyTorch
in f64 on the same inputs. Errors are in ulps: of the element for elementwise ops, of the largest element of the tensor
for all others, whose elements are sums that may cancel. Places where the f64 result is no normal f32 are left out.
"""

import collections
import math
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


def mask(*shape):
    return (torch.arange(math.prod(shape)) % 3 == 0).view(shape)


def ids(*values):
    return torch.tensor(values)


def attend(q, k, v, heads, causal):
    q, k, v = (t.view(*t.shape[:2], heads, -1).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


def attention(heads, causal):
    return lambda *x: attend(*(x if len(x) == 3 else x[0].chunk(3, 2)), heads, causal)


def dropout(x, p):
    torch.manual_seed(3)
    return F.dropout(x, p)


def layer_norm(x, weight=None, bias=None):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def cross_entropy(logits, targets, ignored=-100):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=ignored)


def cross_entropy_of(x):
    targets = {(4, 5): ids(0, 4, 2, 2), (2, 2, 3): ids(0, 1, 1, 2), (5,): ids(3)}[tuple(x.shape)]
    return F.cross_entropy(x.reshape(-1, x.shape[-1]), targets)


ELEMENTWISE = {
    "neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "erf": torch.erf, "relu": torch.relu, "abs": torch.abs,
    "clamp(-1, 1)": lambda x: x.clamp(-1, 1), "gelu": lambda x: F.gelu(x, approximate="tanh"), "gelu(erf)": F.gelu,
    "pow(3)": lambda x: x ** 3, "pow(-0.5)": lambda x: x ** -0.5, "pow(0)": lambda x: x ** 0,
    "dropout(0.3)": lambda x: dropout(x, 0.3), "dropout(0)": lambda x: x * 1, "dropout(1)": lambda x: dropout(x, 1.0),
}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
          "maximum": torch.maximum, "mul, twice one": lambda x: x * x}
OTHERS = {
    "max": torch.max, "max(0)": lambda x: x.max(0).values, "max(-1, keep)": lambda x: x.max(-1, keepdim=True).values,
    "sum": torch.sum, "sum(0)": lambda x: x.sum(0), "sum(0, 2)": lambda x: x.sum((0, 2)),
    "sum(1, keep)": lambda x: x.sum(1, keepdim=True), "mean": torch.mean, "mean(-1)": lambda x: x.mean(-1),
    "var": torch.var, "var(1, biased)": lambda x: x.var(1, unbiased=False),
    "var(biased)": lambda x: x.var(unbiased=False), "var(1)": lambda x: x.var(1),
    "log_sum_exp": lambda x: x.logsumexp(-1), "log_sum_exp(0)": lambda x: x.logsumexp(0, keepdim=True),
    "softmax": lambda x: x.softmax(-1), "softmax(1)": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1), "log_softmax(0)": lambda x: x.log_softmax(0),
    "split": lambda x: torch.mul(*x.split([1, 4], 1)), "matmul": torch.matmul,
    "matmul(aᵀ)": lambda a, b: a.mT @ b, "matmul(bᵀ)": lambda a, b: a @ b.mT, "matmul(aᵀ, bᵀ)": lambda a, b: a.mT @ b.mT,
    "linear": F.linear, "layer_norm": layer_norm, "layer_norm(bias)": lambda x, b: layer_norm(x, None, b),
    "attention(2, causal)": attention(2, True), "attention(1, full)": attention(1, False),
    "attention(3, causal)": attention(3, True), "attention(2, full)": attention(2, False),
    "attention(2), one as all three": lambda x: attend(x, x, x, 2, True),
    "attention_reference(2)": attention(2, True), "cross_entropy": cross_entropy_of,
    "cross_entropy(ignore)": lambda x: cross_entropy(x, ids(0, -1, 2, -1), -1),
    "linear_cross_entropy": lambda x, w: cross_entropy(x @ w.T, ids(0, 4, 2, 2)),
    "linear_cross_entropy(ignore)": lambda x, w: cross_entropy(x @ w.T, ids(0, -1, 2, -1), -1),
    "mse_loss": F.mse_loss,
    "where": lambda a, b: torch.where(mask(*{(3, 4): (3, 4), (4,): (2, 1), (): ()}[tuple(a.shape)]), a, b),
    "masked_fill": lambda x: x.masked_fill(mask(4), 2.0),
}
OPS = {**ELEMENTWISE, **BINARY, **OTHERS}


def run(op, inputs, dy):
    xs = [x.clone().requires_grad_() for x in inputs]
    y = op(*xs)
    return y.detach(), torch.autograd.grad(y, xs, dy.to(y.dtype).view_as(y), allow_unused=True)


def ulps(value, exact, elementwise):
    """The worst error of `value` where `exact` is a normal f32, in ulps."""
    size = exact.abs() if elementwise else exact.abs().max().expand_as(exact)
    normal = (size > 2.0 ** -126) & (size < 3.4e38)
    ulp = torch.ldexp(torch.ones_like(size), torch.frexp(size).exponent - 24)
    error = ((value.double().view_as(exact) - exact).abs() / ulp)[normal]
    return error.nan_to_num(math.inf, math.inf).max().item() if error.numel() else 0.0


def main():
    torch.set_num_threads(1)
    cases = collections.defaultdict(dict)
    for key, tensor in load_file(sys.argv[1]).items():
        op, number, part = key.split("|")
        cases[op, number][part] = tensor
    worst, skipped = collections.defaultdict(lambda: [0.0] * 4), set()
    for (op, _), case in cases.items():
        if op not in OPS:
            skipped.add(op)
            continue
        inputs = [case[f"in{i}"] for i in range(sum(part.startswith("in") for part in case))]
        exact, exact_grads = run(OPS[op], [x.double() for x in inputs], case["dy"])
        theirs, their_grads = run(OPS[op], inputs, case["dy"])
        elementwise = op in ELEMENTWISE or (op in BINARY and all(x.shape == inputs[0].shape for x in inputs))
        row = worst[op]
        row[0] = max(row[0], ulps(case["out"], exact, elementwise))
        row[1] = max(row[1], ulps(theirs, exact, elementwise))
        for i, (e, t) in enumerate(zip(exact_grads, their_grads)):
            if e is None or t is None or f"grad{i}" not in case:
                continue
            row[2] = max(row[2], ulps(case[f"grad{i}"], e, elementwise))
            row[3] = max(row[3], ulps(t, e, elementwise))
    print("| op | result | PyTorch's | gradients | PyTorch's |\n|---|---|---|---|---|")
    for op in sorted(worst):
        print(f"| `{op}` | " + " | ".join(f"{x:.2g}" for x in worst[op]) + " |")
    if skipped:
        print("\nNot compared: " + ", ".join(sorted(skipped)) + ".")


main()
