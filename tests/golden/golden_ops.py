"""Forward and gradients of every op in PyTorch, in float32 and float64."""

import zlib

import numpy as np
import torch
import torch.nn.functional as F

POSITIVE = {"log", "log1p", "sqrt", "pow", "pow(0.5)", "pow(-1)", "kl_div()", "kl_div(batchmean)"}
TIES = {"maximum", "max()", "max(1)", "max(0,keep)", "relu", "abs", "clamp(-1,1)", "pow(0)", "pow(3)"}
PROBABILITIES = {"binary_cross_entropy()", "binary_cross_entropy(sum)"}
EINSUMS = [
    ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ii->i", [(3, 3)]), ("iji", [(2, 3, 2)]), ("...i->...", [(2, 3, 2)]),
    ("ba", [(2, 3)]), ("...ij->ji", [(2, 3, 4)]), ("Ab", [(2, 3)]), ("i,i", [(3,), (3,)]), ("i,j->ji", [(2,), (3,)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]), ("bhid,bhjd->bhij", [(2, 2, 3, 2), (2, 2, 4, 2)]),
    ("bji,bkj->bik", [(2, 4, 3), (2, 2, 4)]), ("ij,ik,jk->i", [(2, 3), (2, 4), (3, 4)]), ("...ij,jk", [(2, 2, 3), (3, 2)]),
    ("a...b,b...->...a", [(2, 3, 1, 4), (4, 5)]), ("ij,kj->k", [(2, 3), (4, 3)]), ("bij,bj->ib", [(1, 3, 2), (4, 2)]),
    (",i->i", [(), (3,)]), ("ij,jk->ik", [(2, 0), (0, 3)]), ("bn,anm,bm->ba", [(2, 3), (5, 3, 4), (2, 4)]),
    (" i j , j -> i ", [(2, 3), (3,)]),
]
CONVOLUTIONS = [
    ("", [(2, 3, 7), (4, 3, 3), (4,)], {}), ("", [(3, 5), (2, 3, 2)], {}), ("", [(0, 3, 5), (2, 3, 2), (2,)], {}),
    ("(stride=2,padding=1)", [(2, 2, 6), (3, 2, 3), (3,)], {"stride": 2, "padding": 1}),
    ("(padding=2,dilation=2,groups=2)", [(2, 4, 5), (4, 2, 3), (4,)], {"padding": 2, "dilation": 2, "groups": 2}),
    ("(stride=3,padding=4)", [(1, 1, 2), (1, 1, 3)], {"stride": 3, "padding": 4}),
    ("(groups=4)", [(2, 4, 5), (8, 1, 3)], {"groups": 4}), ("(stride=4)", [(2, 1, 7), (1, 1, 2)], {"stride": 4}),
]


def attention(qkv, heads, causal):
    B, T, C3 = qkv.shape
    q, k, v = (t.view(B, T, heads, -1).transpose(1, 2) for t in qkv.split(C3 // 3, dim=2))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(B, T, C3 // 3)


def separate_attention(q, k, v, heads, causal):
    size = q.shape[2] // heads
    q, k, v = (t.view(*t.shape[:2], -1, size).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True).transpose(1, 2).flatten(2)


def dropout(x):
    torch.manual_seed(3)
    return F.dropout(x, 0.3)


def cross_entropy(logits, targets, ignored=-100):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=ignored)


def layer_norm(x, weight=None, bias=None):
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def rms_norm(x, weight=None):
    return F.rms_norm(x, x.shape[-1:], weight, 1e-5)


def loss(f, weights=None, **options):
    """f with weights of its inputs' dtype."""
    return lambda x, t: f(x, t, **{k: torch.tensor(v, dtype=x.dtype) for k, v in (weights or {}).items()}, **options)


WITH_LOGITS = F.binary_cross_entropy_with_logits


# name → function of the inputs (and of idx, where a case has one)
OPS = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
    "neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "erf": torch.erf, "relu": torch.relu, "abs": torch.abs, "pow": torch.pow,
    "gelu(tanh)": lambda x: F.gelu(x, approximate="tanh"), "gelu(erf)": F.gelu,
    "pow(3)": lambda x: x ** 3, "pow(0.5)": lambda x: x ** 0.5, "pow(-1)": lambda x: x ** -1,
    "pow(0)": lambda x: x ** 0,
    "clamp(-1,1)": lambda x: x.clamp(-1, 1),
    "where": lambda a, b, idx: torch.where(idx.bool(), a, b),
    "masked_fill(-2.5)": lambda x, idx: x.masked_fill(idx.bool(), -2.5),
    "sum()": torch.sum, "sum(1)": lambda x: x.sum(1), "sum(0,keep)": lambda x: x.sum(0, keepdim=True),
    "mean()": torch.mean, "mean(1)": lambda x: x.mean(1), "mean(-1,keep)": lambda x: x.mean(-1, keepdim=True),
    "max()": torch.max, "max(1)": lambda x: x.max(1).values, "max(0,keep)": lambda x: x.max(0, keepdim=True).values,
    "var(unbiased)": lambda x: x.var(), "var(biased)": lambda x: x.var(unbiased=False),
    "var(1,unbiased)": lambda x: x.var(1), "var(-1,biased,keep)": lambda x: x.var(-1, unbiased=False, keepdim=True),
    "reshape(2,6)": lambda x: x.reshape(2, 6), "reshape(4,3,2)": lambda x: x.reshape(4, 3, 2),
    "transpose(0,1)": lambda x: x.transpose(0, 1), "transpose(1,2)": lambda x: x.transpose(1, 2),
    "permute(2,0,1)": lambda x: x.permute(2, 0, 1),
    "slice(0,1,3)": lambda x: x[1:3], "slice(1,1,3)": lambda x: x[:, 1:3],
    "pad(1,1,5)": lambda x: F.pad(x, (1, 2)),
    "split(1,4)": lambda x: torch.mul(*x.split([1, 4], 1)),
    "sum_to(3,1)": lambda x: x.sum_to_size(3, 1), "broadcast_to(2,3,4)": lambda x: x.broadcast_to(2, 3, 4),
    "concat(0)": lambda *x: torch.cat(x, 0), "concat(1)": lambda *x: torch.cat(x, 1),
    "index_select": lambda x, idx: x.index_select(0, idx),
    "gather(-1)": lambda x, idx: x.gather(-1, idx.unsqueeze(-1)).squeeze(-1),
    "gather(0)": lambda x, idx: x.gather(0, idx.unsqueeze(0)).squeeze(0),
    "matmul": torch.matmul, "linear": F.linear,
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1), "layer_norm": layer_norm,
    "attention(2,causal)": lambda x: attention(x, 2, True), "attention(2,full)": lambda x: attention(x, 2, False),
    "attention(3,causal)": lambda q, k, v: separate_attention(q, k, v, 3, True),
    "attention(3,full)": lambda q, k, v: separate_attention(q, k, v, 3, False),
    "attention(4,causal)": lambda q, k, v: separate_attention(q, k, v, 4, True),
    "attention(4,full)": lambda q, k, v: separate_attention(q, k, v, 4, False),
    "rms_norm": rms_norm, "swiglu": lambda gate, up: F.silu(gate) * up,
    "dropout(0.3)": dropout,
    "embedding": lambda w, idx: F.embedding(idx, w),
    "cross_entropy()": cross_entropy, "cross_entropy(ignore=-1)": lambda x, idx: cross_entropy(x, idx, -1),
    "mse_loss": F.mse_loss,
    "sin": torch.sin, "cos": torch.cos, "log1p": torch.log1p, "expm1": torch.expm1, "softplus": F.softplus,
    "softplus(2)": lambda x: F.softplus(x, 2), "silu": F.silu,
    "cumsum(0)": lambda x: x.cumsum(0), "cumsum(1)": lambda x: x.cumsum(1),
    "sort()": lambda x: x.sort(stable=True).values, "sort(0,descending)": lambda x: x.sort(0, True).values,
    "topk(2)": lambda x: x.topk(2).values, "topk(2,0,smallest)": lambda x: x.topk(2, 0, False).values,
    "select(1,-2)": lambda x: x.select(1, -2), "gather(1,many)": lambda x, idx: x.gather(1, idx),
    "index": lambda x, idx: x[idx[0], idx[1]],
    **{f"einsum({equation})": lambda *x, e=equation: torch.einsum(e, *x) for equation, _ in EINSUMS},
    **{f"conv1d{name}": lambda *x, o=options: F.conv1d(*x, **o) for name, _, options in CONVOLUTIONS},
    "binary_cross_entropy()": F.binary_cross_entropy,
    "binary_cross_entropy(sum)": loss(F.binary_cross_entropy, reduction="sum"),
    "with_logits()": WITH_LOGITS, "with_logits(none)": loss(WITH_LOGITS, reduction="none"),
    "with_logits(weight)": loss(WITH_LOGITS, {"weight": [0.5, 2.0, 1.0, 3.0]}),
    "with_logits(pos_weight)": loss(WITH_LOGITS, {"pos_weight": [0.5, 2.0, 1.0, 3.0]}),
    "kl_div()": F.kl_div, "kl_div(batchmean)": lambda x, t: F.kl_div(x, t, reduction="batchmean"),
    "kl_div(none,log_target)": lambda x, t: F.kl_div(x, t, reduction="none", log_target=True),
}

ELEMENTWISE = ["neg", "exp", "log", "sqrt", "tanh", "sigmoid", "erf", "relu", "abs", "gelu(tanh)", "gelu(erf)", "pow(3)",
               "pow(0.5)", "pow(-1)", "pow(0)", "clamp(-1,1)", "sin", "cos", "log1p", "expm1", "softplus", "softplus(2)",
               "silu"]
BINARY = ["add", "sub", "mul", "div", "pow", "maximum"]
REDUCTIONS = ["sum()", "sum(1)", "sum(0,keep)", "mean()", "mean(1)", "mean(-1,keep)", "max()", "max(1)", "max(0,keep)",
              "var(unbiased)", "var(biased)", "var(1,unbiased)", "var(-1,biased,keep)"]
EXTREME = [-1e4, -50, -8, -1e-6, 0, 1e-6, 8, 50, 1e4]


def cases():
    """Yields (op, label, input shapes or values, idx)."""
    for op in ELEMENTWISE:
        yield from ((op, label, [shape], None) for label, shape in [("3x5", (3, 5)), ("scalar", ()), ("0", (0,))])
    for op in ["tanh", "sigmoid", "erf", "gelu(tanh)", "gelu(erf)", "softplus", "silu", "sin", "cos"]:
        yield op, "extreme", [np.array(EXTREME)], None
    for op in BINARY:
        for label, a, b in [("3x4,3x4", (3, 4), (3, 4)), ("3x4,4", (3, 4), (4,)), ("2x1x3,4x1", (2, 1, 3), (4, 1)),
                            ("scalar,2x3", (), (2, 3)), ("2x3,scalar", (2, 3), ()), ("4x0,4x1", (4, 0), (4, 1)),
                            ("scalar,scalar", (), ())]:
            yield op, label, [a, b], None
    yield "where", "3x4,3x4", [(3, 4), (3, 4)], np.arange(12).reshape(3, 4) % 3 == 0
    yield "where", "3x4,4", [(3, 4), (4,)], np.arange(12).reshape(3, 4) % 2 == 0
    yield "masked_fill(-2.5)", "3x4", [(3, 4)], np.arange(12).reshape(3, 4) % 5 < 2
    for op in REDUCTIONS:
        yield from ((op, label, [shape], None) for label, shape in [("3x4", (3, 4)), ("2x5x3", (2, 5, 3))])
    yield "sum()", "0", [(0,)], None
    ties = np.array([[1, 3, 3], [3, 0, 3]])
    yield from ((op, "ties", [ties], None) for op in ["max()", "max(1)", "max(0,keep)"])
    yield "maximum", "ties", [ties, ties[::-1].copy()], None
    yield "mean()", "0", [(0,)], None
    yield "sum(1)", "3x0", [(3, 0)], None
    yield "sum()", "scalar", [()], None
    for op, shape in [("reshape(2,6)", (3, 4)), ("reshape(4,3,2)", (2, 12)), ("transpose(0,1)", (3, 4)),
                      ("transpose(1,2)", (2, 3, 4)), ("permute(2,0,1)", (2, 3, 4)), ("slice(0,1,3)", (4, 3)),
                      ("slice(1,1,3)", (2, 4, 3)), ("pad(1,1,5)", (2, 2)), ("split(1,4)", (2, 5)),
                      ("sum_to(3,1)", (2, 3, 4)), ("broadcast_to(2,3,4)", (3, 1)), ("dropout(0.3)", (7, 11))]:
        yield op, "x".join(map(str, shape)), [shape], None
    yield "concat(0)", "2x3,1x3,4x3", [(2, 3), (1, 3), (4, 3)], None
    yield "concat(1)", "2x3x2,2x1x2", [(2, 3, 2), (2, 1, 2)], None
    yield "index_select", "5x3", [(5, 3)], np.array([4, 0, 4, 2])
    yield "gather(-1)", "3x4", [(3, 4)], np.array([3, 0, 3])
    yield "gather(0)", "3x2", [(3, 2)], np.array([2, 1])
    for a, b in [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
                 ((2, 1, 3, 4), (5, 4, 2)), ((2, 0), (0, 3)), ((1, 7), (7, 1))]:
        yield "matmul", ",".join("x".join(map(str, s)) for s in (a, b)), [a, b], None
    for x in [(3, 4), (2, 3, 4)]:
        name = "x".join(map(str, x))
        yield "linear", name + ",5x4,5", [x, (5, 4), (5,)], None
        yield "linear", name + ",5x4", [x, (5, 4)], None
    for op in ["softmax", "log_softmax", "logsumexp"]:
        yield from ((op, label, [x], None) for label, x in
                    [("3x5", (3, 5)), ("2x3x4", (2, 3, 4)), ("4x1", (4, 1)), ("extreme", np.array([EXTREME, EXTREME[::-1]]))])
    for label, shapes in [("3x8", [(3, 8)]), ("3x8,8", [(3, 8), (8,)]), ("3x8,8,8", [(3, 8), (8,), (8,)]),
                          ("2x3x5,5,5", [(2, 3, 5), (5,), (5,)])]:
        yield "layer_norm", label, shapes, None
    for op in ["attention(2,causal)", "attention(2,full)"]:
        yield from ((op, label, [x], None) for label, x in
                    [("2x5x12", (2, 5, 12)), ("1x1x12", (1, 1, 12)), ("2x9x24", (2, 9, 24))])
    yield "attention(3,causal)", "2x5x12", [(2, 5, 12)] * 3, None
    yield "attention(3,full)", "2x3x12,2x7x12", [(2, 3, 12), (2, 7, 12), (2, 7, 12)], None
    for kv in (4, 8, 16):
        yield "attention(4,causal)", f"2x6x16,2x6x{kv}", [(2, 6, 16), (2, 6, kv), (2, 6, kv)], None
        yield "attention(4,full)", f"2x1x16,2x7x{kv}", [(2, 1, 16), (2, 7, kv), (2, 7, kv)], None
    yield "attention(4,causal)", "1x70x12,1x70x6", [(1, 70, 12), (1, 70, 6), (1, 70, 6)], None
    for label, shapes in [("3x8", [(3, 8)]), ("3x8,8", [(3, 8), (8,)]), ("2x3x5,5", [(2, 3, 5), (5,)]), ("4x1,1", [(4, 1), (1,)])]:
        yield "rms_norm", label, shapes, None
    for label, shape in [("3x5", (3, 5)), ("scalar", ()), ("0", (0,))]:
        yield "swiglu", f"{label},{label}", [shape, shape], None
    yield "swiglu", "extreme", [np.array(EXTREME), np.arange(1, 1 + len(EXTREME))], None
    yield "embedding", "7x3", [(7, 3)], np.array([[1, 6, 1], [0, 1, 3]])
    yield "cross_entropy()", "6x5", [(6, 5)], np.array([0, 4, 2, 2, 1, 3])
    yield "cross_entropy()", "2x3x5", [(2, 3, 5)], np.array([[0, 4, 2], [2, 1, 3]])
    yield "cross_entropy(ignore=-1)", "6x5", [(6, 5)], np.array([0, -1, 2, -1, 1, 3])
    yield "mse_loss", "3x4,3x4", [(3, 4), (3, 4)], None
    yield from order_cases()
    for equation, shapes in EINSUMS:
        yield f"einsum({equation})", ",".join("x".join(map(str, s)) for s in shapes), shapes, None
    for name, shapes, _ in CONVOLUTIONS:
        yield f"conv1d{name}", ",".join("x".join(map(str, s)) for s in shapes), shapes, None
    for op in [op for op in OPS if op.startswith(("binary_cross_entropy", "with_logits", "kl_div"))]:
        yield op, "3x4,3x4", [(3, 4), (3, 4)], None
        if "weight" not in op:
            yield op, "scalar,scalar" if "batch" not in op else "5,5", [() if "batch" not in op else (5,)] * 2, None
    yield "kl_div(batchmean)", "0x4,0x4", [(0, 4), (0, 4)], None
    yield "kl_div()", "3x4,4", [(3, 4), (4,)], None


def order_cases():
    repeated = np.array([[2, 1, 2, 0, 1], [0, 0, 0, 1, 0], [np.nan, 1, np.nan, np.inf, -np.inf], [0.0, -0.0, -0.0, 0.0, -1]])
    for op in ["sort()", "sort(0,descending)", "topk(2)", "topk(2,0,smallest)", "cumsum(0)", "cumsum(1)"]:
        yield op, "4x5", [(4, 5)], None
        yield op, "2x3x2", [(2, 3, 2)], None
    yield from [("sort()", "scalar", [()], None), ("cumsum(0)", "scalar", [()], None), ("cumsum(1)", "2x0", [(2, 0)], None)]
    yield from [("sort()", "repeated", [repeated], None), ("sort(0,descending)", "repeated", [repeated.T.copy()], None)]
    yield "select(1,-2)", "2x3x2", [(2, 3, 2)], None
    yield "gather(1,many)", "2x4", [(2, 4)], np.array([[3, 3, 0], [1, 2, 1]])
    yield "index", "3x4x2", [(3, 4, 2)], np.array([[2, 0, 2, -1], [1, -1, 1, 0]])


def make_input(op, shape, random):
    """Values that float32 holds exactly, so that both dtypes start from the same numbers."""
    if isinstance(shape, np.ndarray):
        return shape.astype(np.float32)
    x = random.standard_normal(shape)
    if op in POSITIVE:
        x = np.abs(x) + 0.2
    elif op in PROBABILITIES:
        x = 1 / (1 + np.exp(-x))
    elif op in TIES:
        x = np.round(x)
    elif op == "div":
        x = np.sign(x) * (np.abs(x) + 0.2)
    return np.array(x, dtype=np.float32)


def op_tensors():
    tensors = {}
    for op, label, shapes, idx in cases():
        case = f"{op}@{label}"
        random = np.random.RandomState(zlib.crc32(case.encode()))
        inputs = [make_input(op, s, random) for s in shapes]
        index = [] if idx is None else [torch.tensor(idx.astype(np.int64))]
        dout = None
        for dtype, torch_dtype in [("f32", torch.float32), ("f64", torch.float64)]:
            args = [torch.tensor(x, dtype=torch_dtype, requires_grad=True) for x in inputs]
            out = OPS[op](*args, *index)
            if dout is None:
                dout = np.array(random.standard_normal(tuple(out.shape)), dtype=np.float32)
            out.backward(torch.tensor(dout, dtype=torch_dtype))
            key = f"{case}/{dtype}"
            for i, x in enumerate(args):
                tensors[f"{key}/in{i}"], tensors[f"{key}/grad{i}"] = x.detach(), x.grad
            tensors[f"{key}/out"], tensors[f"{key}/dout"] = out.detach(), torch.tensor(dout, dtype=torch_dtype)
            if index:
                tensors[f"{key}/idx"] = index[0].to(torch.int32)
    return tensors
