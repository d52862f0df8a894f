"""Compares what peer_cases wrote with PyTorch:  python3 tests/peer/compare.py FILE

For each op, prints the errors of its results and of its gradients, ours and PyTorch's, both in f32 against PyTorch in
f64 on the same inputs: the worst, and the mean of the worst of each case. Errors are in ulps: of the element for
elementwise ops, of the largest element of the tensor for all others, whose elements are sums that may cancel. Left out
are places where the f64 result is no normal f32, and tensors of results below 1e-36, where ops that are not elementwise
lose what f32 can have of exponentials. The mean is over cases in which neither side is off by more than 100 ulps.
"""

import collections
import math
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch.utils.checkpoint import checkpoint


def mask(*shape):
    return (torch.arange(math.prod(shape)) % 3 == 0).view(shape)


def ids(*values):
    return torch.tensor(values)


def heads_of(x, heads):
    return x.unflatten(2, (heads, x.shape[2] // heads)).transpose(1, 2)


def attend(q, k, v, heads, causal, dropout=0.0, padding=None):
    groups = heads * k.shape[2] // q.shape[2]
    q, k, v = heads_of(q, heads), heads_of(k, groups), heads_of(v, groups)
    seen = None
    if padding is not None:
        seen = ~padding.bool()[:, None, None, :].expand(-1, 1, q.shape[2], -1)
        if causal:
            seen = seen & torch.ones(seen.shape[-2:], dtype=torch.bool).tril()
            causal = False
    torch.manual_seed(3)
    y = F.scaled_dot_product_attention(q, k, v, seen, dropout, causal, enable_gqa=groups < heads)
    return y.transpose(1, 2).flatten(2)


def signs(x, *shape):
    """Targets of two classes: 1 at every third place, else −1."""
    return mask(*shape).to(x.dtype) * 2 - 1


def weights(x):
    return torch.tensor([0.5, 2.0, 1.0], dtype=x.dtype)


def einsum_of(op):
    """PyTorch's function for a name such as "einsum(ij,jk)", or None."""
    return (lambda *x: torch.einsum(op[len("einsum("):-1], *x)) if op.startswith("einsum(") else None


def attention(heads, causal, *options):
    return lambda *x: attend(*(x if len(x) == 3 else x[0].chunk(3, 2)), heads, causal, *options)


def dropout(x, p, seed=3):
    torch.manual_seed(seed)
    return F.dropout(x, p)


def layer_norm(x, weight=None, bias=None):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def unbiased_norm(x, weight, bias, outside):
    var = x.var(-1, keepdim=True)
    spread = var.sqrt() + 0.1 if outside else (var + 1e-5).sqrt()
    return (x - x.mean(-1, keepdim=True)) / spread * weight + bias


def llama3(frequencies, factor, low, high, positions):
    """Those of Hugging Face's _compute_llama3_parameters."""
    waves = positions * frequencies / (2 * math.pi)
    smooth = ((waves - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * frequencies / factor + smooth * frequencies


def rope(x, head, first=0, channels=None, base=10000, scaling=None):
    """Hugging Face's: channels i and i + head / 2 of each head turn together."""
    channels = channels or x.shape[-1]
    turned, rest = x[..., :channels], x[..., channels:]
    positions = torch.arange(first, first + x.shape[-2], dtype=x.dtype)
    frequencies = base ** (-torch.arange(0, head, 2, dtype=x.dtype) / head)
    angles = positions[:, None] * (llama3(frequencies, *scaling) if scaling else frequencies)
    cos, sin = (f(torch.cat([angles, angles], -1))[:, None, :] for f in (torch.cos, torch.sin))
    t = turned.unflatten(-1, (-1, head))
    a, b = t.chunk(2, -1)
    return torch.cat([(t * cos + torch.cat([-b, a], -1) * sin).flatten(-2), rest], -1)


def pad(x):
    shape = list(x.shape)
    shape[1] = 5 - 1 - shape[1]
    return torch.cat([torch.zeros_like(x[:, :1]), x, x.new_zeros(shape)], 1)


def cross_entropy(logits, targets, ignored=-100):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=ignored)


def turned(x):
    return x.mT if x.dim() > 1 else x


def gather(dim, *index):
    i = ids(*index)
    return lambda x: x.gather(dim, i) if x.dim() == 1 else x.gather(dim, i.unsqueeze(dim)).squeeze(dim)


def max_of(x, *args, **kwargs):
    return x.max(*args, **kwargs).values


ELEMENTWISE = {
    "neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "erf": torch.erf, "relu": torch.relu, "abs": torch.abs,
    "relu2": lambda x: torch.relu(x).square(), "clamp(-1, 1)": lambda x: x.clamp(-1, 1), "gelu": lambda x: F.gelu(x, approximate="tanh"), "gelu(erf)": F.gelu,
    "pow(3)": lambda x: x ** 3, "pow(-0.5)": lambda x: x ** -0.5, "pow(0)": lambda x: x ** 0,
    "dropout(0.3)": lambda x: dropout(x, 0.3), "dropout(0)": lambda x: x * 1, "dropout(1)": lambda x: dropout(x, 1.0),
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "tan(0.3 x)": lambda x: torch.tan(x * 0.3), "log2": torch.log2, "atan2": torch.atan2, "hardswish(3 x)": lambda x: F.hardswish(x * 3),
    "round": torch.round, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "sign": torch.sign,
    "leaky_relu": F.leaky_relu, "elu(0.5)": lambda x: F.elu(x, 0.5), "mish": F.mish,
    "maximum": torch.maximum, "mul, twice one": lambda x: x * x,
    "sin": torch.sin, "cos": torch.cos, "expm1": torch.expm1, "log1p": torch.log1p, "softplus": F.softplus,
    "softplus(2)": lambda x: F.softplus(x, 2), "silu": F.silu,
    "swiglu": lambda a, b: F.silu(a) * b, "swiglu, one as both": lambda x: F.silu(x) * x,
    "rope(4, base 100, scaling)": lambda x: rope(x, 4, base=100, scaling=(2, 1, 4, 16)),
    "rope(4)": lambda x: rope(x, 4), "rope(2, first 5, channels 8)": lambda x: rope(x, 2, 5, 8),
}
OTHERS = {
    "max": torch.max, "max(0)": lambda x: max_of(x, 0), "max(-1, keep)": lambda x: max_of(x, -1, keepdim=True),
    "sum": torch.sum, "sum(0)": lambda x: x.sum(0), "sum(0, 2)": lambda x: x.sum((0, 2)),
    "sum(1, keep)": lambda x: x.sum(1, keepdim=True), "mean": torch.mean, "mean(-1)": lambda x: x.mean(-1),
    "var": torch.var, "var(1, biased)": lambda x: x.var(1, unbiased=False),
    "var(biased)": lambda x: x.var(unbiased=False), "var(1)": lambda x: x.var(1),
    "sum_to(3, 1)": lambda x: x.sum_to_size(3, 1), "sum_to()": lambda x: x.sum_to_size(()),
    "log_sum_exp": lambda x: x.logsumexp(-1), "log_sum_exp(0)": lambda x: x.logsumexp(0, keepdim=True),
    "softmax": lambda x: x.softmax(-1), "softmax(1)": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1), "log_softmax(0)": lambda x: x.log_softmax(0),
    "transpose": lambda x: x.transpose(0, 1), "permute": lambda x: x.permute(2, 0, 1), "pad": pad,
    "slice, empty": lambda x: x[:, 2:2], "gather_rows, empty": lambda x: x[:0], "concat(0)": lambda *x: torch.cat(x, 0), "concat(1)": lambda *x: torch.cat(x, 1),
    "split": lambda x: torch.mul(*x.split([1, 4], 1)), "embedding": lambda w: F.embedding(ids([1, 3, 1], [1, 0, 3]), w),
    "matmul": torch.matmul, "matmul(aᵀ)": lambda a, b: turned(a) @ b, "matmul(bᵀ)": lambda a, b: a @ turned(b),
    "matmul(aᵀ, bᵀ)": lambda a, b: turned(a) @ turned(b), "linear": F.linear,
    "layer_norm": layer_norm, "layer_norm(bias)": lambda x, b: layer_norm(x, None, b),
    "layer_norm(unbiased)": lambda *x: unbiased_norm(*x, False),
    "layer_norm(unbiased, eps outside)": lambda *x: unbiased_norm(*x, True),
    "rms_norm": lambda x, w=None: F.rms_norm(x, x.shape[-1:], w, 1e-5),
    "rms_norm(eps 0.1)": lambda x, w: F.rms_norm(x, x.shape[-1:], w, 0.1),
    "attention(4, causal), groups of 2": attention(4, True), "attention(3, full), groups of 3": attention(3, False),
    "attention(2, full), groups of 2": attention(2, False), "attention_reference(4), groups of 2": attention(4, True),
    "attention(2, full, dropout, padding), groups of 2": attention(2, False, 0.4, ids([0, 0, 1], [1, 1, 1])),
    "attention(2, causal)": attention(2, True), "attention(1, full)": attention(1, False),
    "attention(3, causal)": attention(3, True), "attention(2, full)": attention(2, False),
    "attention(2), one as all three": lambda x: attend(x, x, x, 2, True),
    "attention(2, dropout)": attention(2, True, 0.4), "attention(2, full, dropout)": attention(2, False, 0.4),
    "attention(2, causal, padding)": attention(2, True, 0.0, ids([0, 0, 1, 0], [1, 0, 0, 1])),
    "attention(2, full, padding, dropout)": attention(2, False, 0.4, ids([0, 0, 1], [1, 1, 1])),
    "attention_reference(2)": attention(2, True),
    "cross_entropy(ignore)": lambda x: cross_entropy(x, ids(0, -1, 2, -1), -1),
    "linear_cross_entropy(ignore)": lambda x, w: cross_entropy(x @ w.T, ids(0, -1, 2, -1), -1),
    "mse_loss": F.mse_loss, "masked_fill": lambda x: x.masked_fill(mask(4), 2.0),
    "cumsum(0)": lambda x: x.cumsum(0), "cumsum(-1)": lambda x: x.cumsum(-1),
    "conv1d": F.conv1d, "conv1d(stride 2, padding 1)": lambda *x: F.conv1d(*x, stride=2, padding=1),
    "conv1d(padding 2, dilation 2, groups 2)": lambda *x: F.conv1d(*x, padding=2, dilation=2, groups=2),
    "conv1d(stride 3, padding 4)": lambda *x: F.conv1d(*x, stride=3, padding=4),
    "conv1d(stride 4)": lambda *x: F.conv1d(*x, stride=4),
    "binary_cross_entropy of sigmoids": lambda x, t: F.binary_cross_entropy(x.sigmoid(), t.sigmoid()),
    "binary_cross_entropy of sigmoids(weight, none)":
        lambda x, t: F.binary_cross_entropy(x.sigmoid(), t.sigmoid(), weight=weights(x), reduction="none"),
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "binary_cross_entropy_with_logits(pos_weight, sum)":
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, pos_weight=weights(x), reduction="sum"),
    "kl_div": F.kl_div, "kl_div(batchmean, log_target)":
        lambda x, t: F.kl_div(x, t, reduction="batchmean", log_target=True),
    "stddev": torch.std, "stddev(1)": lambda x: x.std(1), "stddev(1, biased, keep)": lambda x: x.std(1, False, True),
    "norm": torch.norm, "norm(2, 0)": lambda x: x.norm(2, 0), "norm(2, 0, keep)": lambda x: x.norm(2, 0, True),
    "norm(1)": lambda x: x.norm(1, -1), "norm(3)": lambda x: x.norm(3, (0, 1)),
    "prod": torch.prod, "prod(1)": lambda x: x.prod(1), "prod(1, keep)": lambda x: x.prod(1, True), "prod(0, 2)": lambda x: x.prod(2).prod(0),
    "cumprod(0)": lambda x: x.cumprod(0), "cumprod(-1)": lambda x: x.cumprod(-1),
    "normalize": F.normalize, "cosine_similarity": F.cosine_similarity, "cosine_similarity(0)": lambda a, b: F.cosine_similarity(a, b, 0),
    "pairwise_distance": F.pairwise_distance, "min": torch.min, "min(1)": lambda x: x.min(1).values,
    "l1_loss": F.l1_loss, "smooth_l1_loss(0.6)": lambda x, t: F.smooth_l1_loss(x, t, beta=0.6),
    "huber_loss(0.6)": lambda x, t: F.huber_loss(x, t, delta=0.6), "triplet_margin_loss": F.triplet_margin_loss,
    "triplet_margin_loss(3, swap)": lambda *x: F.triplet_margin_loss(*x, margin=2, p=3, swap=True, reduction="sum"),
    "hinge_embedding_loss": lambda x: F.hinge_embedding_loss(x, signs(x, *x.shape)),
    "margin_ranking_loss(0.3)": lambda a, b: F.margin_ranking_loss(a, b, signs(a, *a.shape), 0.3),
    "cosine_embedding_loss(0.1)": lambda a, b: F.cosine_embedding_loss(
        a.reshape(-1, a.shape[-1]), b.reshape(-1, a.shape[-1]), signs(a, *a.shape[:-1]).view(-1), 0.1),
    "nll_loss(none)": lambda x: F.nll_loss(x, torch.tensor(3), reduction="none"),
    "nll_loss(weight, ignore)": lambda x: F.nll_loss(x.flatten(0, 1), ids(0, -1, 2, 1), weights(x), ignore_index=-1),
    "sort": lambda x: x.sort(stable=True).values, "sort(0, descending)": lambda x: x.sort(0, True).values,
    "topk(3)": lambda x: x.topk(3).values, "topk(2, 0, smallest)": lambda x: x.topk(2, 0, False).values,
    "flip": lambda x: x.flip(-1), "roll": lambda x: x.roll(2, 1),
    "checkpoint, one tensor twice": lambda x: checkpoint(lambda a, b: a * b * b, x, x, use_reentrant=False),
}
# Ops whose constants differ from line to line of the table.
LINES = {
    "where (3, 4), (3, 4)": lambda a, b: torch.where(mask(3, 4), a, b),
    "where (4), (2, 1)": lambda a, b: torch.where(mask(2, 1), a, b),
    "where (), ()": lambda a, b: torch.where(mask(), a, b),
    "where (), (0, 3)": lambda a, b: torch.where(mask(3), a, b),
    "reshape (2, 6)": lambda x: x.reshape(3, -1), "reshape (1, 1)": lambda x: x.reshape(()),
    "slice (4, 3)": lambda x: x[1:3], "slice (2, 5, 2)": lambda x: x[:, 2:5], "slice (0, 5)": lambda x: x[:, 2:4],
    "broadcast_to (3, 1)": lambda x: x.expand(2, 3, 4), "broadcast_to ()": lambda x: x.expand(2, 3),
    "broadcast_to (2, 1)": lambda x: x.expand(2, 0),
    "gather_rows (5, 3)": lambda x: x[ids(4, 0, 4)],
    "gather_rows (5)": lambda x: x[ids([1], [2])], "gather_rows (2, 0)": lambda x: x[ids(1, 0, 1)],
    "gather(-1) (3, 4)": gather(-1, 3, 0, 3), "gather(0) (3, 2)": gather(0, 2, 1), "gather(-1) (0, 4)": gather(-1),
    "scatter_add(1) (2, 4), (2, 3)": lambda x, s: x.scatter_add(1, ids([3, 0, 3], [1, 1, 2]), s),
    "index_add(0) (3, 2), (4, 2)": lambda x, s: x.index_add(0, ids(2, 0, 2, 2), s),
    "index_add(-1) (2, 3, 4), (2, 3, 2)": lambda x, s: x.index_add(-1, ids(3, 3), s),
    "nll_loss (4, 5)": lambda x: F.nll_loss(x, ids(0, 4, 2, 2)),
    "cross_entropy (4, 5)": lambda x: cross_entropy(x, ids(0, 4, 2, 2)),
    "cross_entropy (2, 2, 3)": lambda x: cross_entropy(x, ids(0, 1, 1, 2)),
    "cross_entropy (5)": lambda x: F.cross_entropy(x, torch.tensor(3)),
    "linear_cross_entropy (4, 3), (5, 3)": lambda x, w: cross_entropy(x @ w.T, ids(0, 4, 2, 2)),
    "linear_cross_entropy (2, 0), (5, 0)": lambda x, w: cross_entropy(x @ w.T, ids(0, 4)),
    "checkpoint (), (0, 2)": lambda a, b: checkpoint(torch.mul, a, b, use_reentrant=False),
    "checkpoint (3), (3)": lambda a, b: checkpoint(lambda a, b: dropout(torch.tanh(a * b), 0.5, 5) * a, a, b, use_reentrant=False),
}


def run(op, inputs, dy):
    xs = [x.clone().requires_grad_() for x in inputs]
    y = op(*xs)
    return y.detach(), torch.autograd.grad(y, xs, dy.to(y.dtype).view_as(y), allow_unused=True)


def ulps(value, exact, elementwise):
    """The worst error of `value` where `exact` is a normal f32, in ulps."""
    if value.shape != exact.shape:
        raise ValueError(f"shape {tuple(value.shape)}, PyTorch's is {tuple(exact.shape)}")
    if exact.numel() == 0:
        return 0.0
    size = exact.abs() if elementwise else exact.abs().max().expand_as(exact)
    normal = (size > (2.0 ** -126 if elementwise else 1e-36)) & (size < 3.4e38)
    ulp = torch.ldexp(torch.ones_like(size), torch.frexp(size).exponent - 24)
    error = ((value.double() - exact).abs() / ulp)[normal]
    return error.nan_to_num(math.inf, math.inf).max().item() if error.numel() else 0.0


class Errors:
    """Pairs of errors, ours and PyTorch's."""

    def __init__(self):
        self.pairs = []

    def add(self, ours, theirs, exact, elementwise):
        self.pairs.append((ulps(ours, exact, elementwise), ulps(theirs, exact, elementwise)))

    def __str__(self):
        plain = [pair for pair in self.pairs if max(pair) < 100]
        worst = [max((pair[i] for pair in self.pairs), default=0) for i in (0, 1)]
        mean = [sum(pair[i] for pair in plain) / max(1, len(plain)) for i in (0, 1)]
        return " | ".join(f"{worst[i]:.2g} ({mean[i]:.2g})" for i in (0, 1))


def main():
    torch.set_num_threads(1)
    cases = collections.defaultdict(dict)
    for key, tensor in load_file(sys.argv[1]).items():
        op, line, number, part = key.split("|")
        cases[op, line, number][part] = tensor
    rows, skipped = collections.defaultdict(lambda: (Errors(), Errors())), set()
    for (op, line, number), case in cases.items():
        f = LINES.get(line) or ELEMENTWISE.get(op) or OTHERS.get(op) or einsum_of(op)
        if f is None:
            skipped.add(op)
            continue
        inputs = [case[f"in{i}"] for i in range(sum(part.startswith("in") for part in case))]
        try:
            exact, exact_grads = run(f, [x.double() for x in inputs], case["dy"])
            theirs, their_grads = run(f, inputs, case["dy"])
            results, gradients = rows[op]
            elementwise = op in ELEMENTWISE
            results.add(case["out"], theirs, exact, elementwise)
            for i, (e, t) in enumerate(zip(exact_grads, their_grads)):
                if e is not None and t is not None and f"grad{i}" in case:
                    gradients.add(case[f"grad{i}"], t, e, elementwise and e.shape == exact.shape)
        except (RuntimeError, ValueError, IndexError) as error:
            sys.exit(f"case {number}, {line} at {[tuple(x.shape) for x in inputs]}: {error}")
    print("| op | cases | result | PyTorch's | gradients | PyTorch's |\n|---|---|---|---|---|---|")
    for op, (results, gradients) in sorted(rows.items()):
        print(f"| `{op}` | {len(results.pairs)} | {results} | {gradients} |")
    if skipped:
        print("\nNot compared: " + ", ".join(sorted(skipped)) + ".")


main()
