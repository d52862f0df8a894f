"""The rows of docs/ops.md for golden_table.py: PyTorch's function by its name there, and the inputs that it meets.

A list of cases has (label, a function from dtype to inputs, what comes into the gradient). The latter is "random", a
number, or None where there is no gradient.
"""

import itertools

import torch
import torch.nn.functional as F

INF, NAN = float("inf"), float("nan")
TINY = {torch.float32: 1e-40, torch.float64: 1e-310}  # denormals


def drawn(*shape, seed=0, scale=1.0):
    """Numbers that f32 holds exactly."""
    generator = torch.Generator().manual_seed(100 * seed + sum(shape) + len(shape))
    return (torch.randn(shape, generator=generator) * scale).double()


def positive(*shape, seed=0):
    return drawn(*shape, seed=seed).abs() + 0.25


def unit(*shape, seed=0):
    return torch.sigmoid(drawn(*shape, seed=seed).float()).double()


def ids(*values):
    return torch.tensor(values)


def values(dtype):
    t = TINY[dtype]
    return torch.tensor([0.0, -0.0, t, -t, 1e-30, -1e-30, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 3.0, -3.0, 1e30, -1e30, INF, -INF, NAN], dtype=dtype)


def tuples(dtype, count):
    """→ (number of tuples, count)."""
    few = [0.0, -0.0, 1.0, -2.5, 1e30, INF, -INF, NAN] + ([TINY[dtype], -1e30] if count == 2 else [])
    return torch.tensor(list(itertools.product(few, repeat=count)), dtype=dtype)


def case(label, make, dout="random"):
    return [(label, make if callable(make) else lambda dtype: make, dout)]


def each(dout="random", **shapes):
    """A random case with inputs of these shapes."""
    return case("x".join(str(list(s)) for s in shapes.values()).replace(" ", ""),
                {k: drawn(*s, seed=i) for i, (k, s) in enumerate(shapes.items())}, dout)


def pair_of(dtype, *names):
    pairs = tuples(dtype, 2)
    return {names[0]: pairs[:, 0].contiguous(), names[1]: pairs[:, 1].contiguous()}


UNARY = each(x=(3, 4)) + each(x=()) + each(x=(0, 3)) + case("special", lambda d: {"x": values(d)}, 1.0)
UNARY += case("special;dy=inf", lambda d: {"x": values(d)}, INF)
UNARY += case("positive", {"x": positive(7)}) + case("unit", {"x": unit(7) * 2 - 1})
BINARY = each(x=(3, 4), y=(3, 4)) + each(x=(3, 1), y=(4,)) + each(x=(0, 3), y=(1, 3)) + each(x=(), y=(0,))
BINARY += case("special", lambda d: pair_of(d, "x", "y"), 1.0)
COMPARE = [(label, make, None) for label, make, _ in BINARY]
# Along dimension 1, or the last one.
ROWWISE = each(x=(3, 4)) + each(x=(2, 3, 4)) + each(x=(3, 1)) + each(x=(0, 4)) + each(x=(3, 0)) + each(x=(2, 0, 3)) + each(x=(0, 0))
ROWWISE += case("special2", lambda d: {"x": tuples(d, 2)}, 1.0)
TRIPLES = case("f32 only, special3", lambda d: {"x": tuples(d, 3)}, 1.0)
COLUMNWISE = each(x=(4, 3)) + each(x=(5,)) + each(x=(0, 3)) + each(x=(3, 0)) + each(x=())
COLUMNWISE += case("special2", lambda d: {"x": tuples(d, 2).T.contiguous()}, 1.0)
COLUMNWISE += case("f32 only, special3", lambda d: {"x": tuples(d, 3).T.contiguous()}, 1.0)
SHAPED = each(x=(6, 4)) + each(x=(6, 0)) + each(x=(0, 3)) + case("special", lambda d: {"x": values(d)[:18].view(6, 3)}, 1.0)
TABLE = {"x": drawn(3, 4), "ids": ids(2, 0, 2)}


ROWS = {}
for name, f in {
    "torch.neg": torch.neg, "torch.pow": lambda x: x ** 3, "torch.square": torch.square, "torch.sqrt": torch.sqrt,
    "torch.rsqrt": torch.rsqrt, "torch.reciprocal": torch.reciprocal, "torch.abs": torch.abs, "torch.sign": torch.sign,
    "torch.round": torch.round, "torch.floor": torch.floor, "torch.ceil": torch.ceil, "torch.trunc": torch.trunc,
    "torch.frac": torch.frac, "torch.exp": torch.exp, "torch.exp2": torch.exp2, "torch.expm1": torch.expm1,
    "torch.log": torch.log, "torch.log2": torch.log2, "torch.log10": torch.log10, "torch.log1p": torch.log1p,
    "torch.sin": torch.sin, "torch.cos": torch.cos, "torch.tan": torch.tan, "torch.asin": torch.asin,
    "torch.acos": torch.acos, "torch.sinh": torch.sinh, "torch.cosh": torch.cosh,
    "torch.tanh": torch.tanh, "torch.sigmoid": torch.sigmoid, "torch.erf": torch.erf,
    "torch.clamp, .clip": lambda x: x.clamp(-1, 1),
    "F.relu": F.relu, "F.relu6": F.relu6, "F.hardtanh": F.hardtanh, "F.hardsigmoid": F.hardsigmoid,
    "F.hardswish": F.hardswish, "F.leaky_relu": lambda x: F.leaky_relu(x, 0.2), "F.elu": F.elu, "F.selu": F.selu,
    "F.gelu": F.gelu, "F.silu": F.silu, "F.mish": F.mish, "F.softplus": F.softplus, "F.softsign": F.softsign,
    "F.tanhshrink": F.tanhshrink, "F.logsigmoid": F.logsigmoid, "Tensor.clone": torch.clone,
    "torch.utils.checkpoint": lambda x: x * 1,
}.items():
    ROWS[name] = (f, [UNARY])
for name, f in {"torch.atan": torch.atan, "torch.nan_to_num": torch.nan_to_num}.items():
    ROWS[name] = (f, [[("f32 only " + label, m, d) for label, m, d in UNARY]])
for name, f in {
    "torch.isnan": torch.isnan, "torch.isinf": torch.isinf, "torch.isfinite": torch.isfinite,
    "torch.zeros_like": torch.zeros_like, "torch.ones_like": torch.ones_like, "torch.full_like": lambda x: torch.full_like(x, 7),
    "torch.count_nonzero": torch.count_nonzero, "torch.nonzero, torch.argwhere": torch.nonzero, "Tensor.detach": torch.detach,
    "Tensor.numel": torch.numel, "Tensor.dim": torch.Tensor.dim,
}.items():
    ROWS[name] = (f, [[(label, make, None) for label, make, _ in UNARY]])
for name, f in {
    "torch.add": torch.add, "torch.sub": torch.sub, "torch.mul": torch.mul, "torch.div": torch.div,
    "torch.remainder": torch.remainder, "torch.fmod": torch.fmod,
    "torch.atan2": lambda x, y: torch.atan2(y, x), "torch.maximum": torch.maximum, "torch.minimum": torch.minimum,
    "torch.lerp": lambda x, y: torch.lerp(x, y, 0.1),
}.items():
    ROWS[name] = (f, [BINARY])
for name, f in {
    "torch.eq": torch.eq, "torch.ne": torch.ne, "torch.lt": torch.lt, "torch.le": torch.le, "torch.gt": torch.gt,
    "torch.ge": torch.ge, "torch.floor_divide": torch.floor_divide,
}.items():
    ROWS[name] = (f, [COMPARE])
SAME = [c for c in COMPARE if c[0] in ("[3,4]x[3,4]", "special")]
SAME += case("equal", {"x": drawn(3, 4), "y": drawn(3, 4)}, None) + case("empty", {"x": drawn(0, 4), "y": drawn(0, 4)}, None)
ROWS["torch.allclose"] = (lambda x, y: torch.allclose(x, y), [SAME])
ROWS["torch.equal"] = (lambda x, y: torch.equal(x, y), [SAME, each(None, x=(3,), y=(4,))])

MASKS = case("special", lambda d: {"mask": torch.tensor([0, 1, 2, 255] * 5)[:19].to(torch.uint8), "x": values(d)}, None)
MASKS += case("empty", {"mask": torch.zeros(0, 3, dtype=torch.uint8), "x": drawn(0, 3)}, None)
ROWS["torch.logical_and"] = (lambda mask, x: torch.logical_and(mask, x > 0), [MASKS])
ROWS["torch.logical_or"] = (lambda mask, x: torch.logical_or(mask, x > 0), [MASKS])
ONE_MASK = [(c, (lambda m: lambda d: {"mask": m(d)["mask"]})(m), None) for c, m, _ in MASKS]
ONE_MASK += case("true", {"mask": torch.tensor([[1, 2], [1, 255]], dtype=torch.uint8)}, None)
ONE_MASK += case("bool", {"mask": torch.tensor([True, False])}, None) + case("none", {"mask": torch.zeros(2, dtype=torch.bool)}, None)
ROWS["torch.all"] = (lambda mask: torch.all(mask).bool(), [ONE_MASK])
ROWS["torch.any"] = (lambda mask: torch.any(mask).bool(), [ONE_MASK])
ROWS["torch.logical_not"] = (lambda mask: torch.logical_not(mask), [ONE_MASK])

for name, f in {
    "torch.sum": lambda x: x.sum(1), "torch.mean": lambda x: x.mean(1), "torch.var": lambda x: x.var(1),
    "torch.std": lambda x: x.std(1), "torch.prod": lambda x: x.prod(1), "torch.norm": lambda x: torch.norm(x, 2, 1),
    "torch.linalg.vector_norm": lambda x: torch.linalg.vector_norm(x, 3, 1), "torch.max": lambda x: x.max(1).values,
    "torch.min": lambda x: x.min(1).values, "torch.amax": lambda x: x.amax(1), "torch.amin": lambda x: x.amin(1),
    "torch.logsumexp": lambda x: x.logsumexp(-1), "F.softmax": lambda x: x.softmax(-1),
    "F.softmin": lambda x: F.softmin(x, -1), "F.log_softmax": lambda x: x.log_softmax(-1), "F.normalize": F.normalize,
}.items():
    ROWS[name] = (f, [ROWWISE, TRIPLES if name in ("torch.prod", "torch.norm", "torch.linalg.vector_norm") else []])
for name, f in {"torch.argmax": lambda x: x.argmax(1), "torch.argmin": lambda x: x.argmin(1)}.items():
    ROWS[name] = (f, [[(label, make, None) for label, make, _ in ROWWISE]])
ROWS["torch.cumsum"] = (lambda x: x.cumsum(0), [COLUMNWISE])
ROWS["torch.cumprod"] = (lambda x: x.cumprod(0), [COLUMNWISE])
ROWS["torch.sort"] = (lambda x: list(x.sort(stable=True)), [ROWWISE, each(x=())])
ROWS["torch.argsort"] = (lambda x: x.argsort(stable=True), [[(label, make, None) for label, make, _ in ROWWISE]])
ROWS["torch.topk"] = (lambda x: list(x.topk(5)), [each(x=(3, 7)), each(x=(0, 7)), each(x=(3, 4)), each(x=(3, 0))])
ROWS["torch.median"] = (lambda x: x.median(-1).values, [each(x=(3, 5)), each(x=(0, 5))])
ROWS["torch.bincount"] = (lambda ids: torch.bincount(ids, minlength=10).float(), [case("f32 only", {"ids": ids(2, 0, 2, 9)}, None)])

for name, f in {
    "torch.reshape, Tensor.view": lambda x: x.reshape(3, -1), "torch.transpose, .swapaxes": lambda x: x.transpose(0, 1),
    "torch.t, Tensor.T": torch.t, "Tensor.mT": lambda x: x.mT, "torch.permute": lambda x: x.permute(1, 0),
    "torch.movedim": lambda x: x.movedim(0, 1), "torch.flatten": lambda x: x.flatten(1),
    "torch.unflatten": lambda x: x.reshape(2, 3, -1), "torch.squeeze": lambda x: x.squeeze(0), "torch.unsqueeze": lambda x: x.unsqueeze(0),
    "Tensor.repeat, torch.tile": lambda x: x.repeat(2, 1), "torch.chunk": lambda x: list(x.chunk(3, -1)),
    "torch.unbind": lambda x: x.unbind(0)[1], "torch.select": lambda x: x.select(0, 1), "torch.narrow, x[a:b]": lambda x: x.narrow(0, 1, 2),
    "x[:, 0:2, -1]": lambda x: x[:, 0:5, -1], "torch.flip": lambda x: x.flip(0), "torch.roll": lambda x: x.roll(1, 0),
    "torch.rot90": lambda x: x.rot90(), "torch.tril": torch.tril, "torch.triu": torch.triu,
}.items():
    ROWS[name] = (f, [SHAPED])
ROWS["x[:, 0:2, -1]"] = (lambda x: x[:, 0:2, -1], [each(x=(2, 3, 4)), each(x=(0, 3, 4)), each(x=(2, 3, 0))])
ROWS["torch.squeeze"] = (lambda x: x.squeeze(0), [SHAPED, each(x=(1, 4)), each(x=(1, 0))])
ROWS["torch.diag, torch.diagonal"] = (torch.diagonal, [each(x=(3, 3)), each(x=(0, 0)), case("special", lambda d: {"x": values(d)[:9].view(3, 3)}, 1.0)])
ROWS["torch.diag_embed"] = (torch.diag_embed, [case("f32 only", {"x": drawn(2, 3)})])
ROWS["torch.trace"] = (torch.trace, [each(x=(3, 3)), each(x=(0, 0))])
ROWS["F.pad"] = (lambda x: F.pad(x, (2, 8 - 2 - x.shape[1])), [each(x=(3, 4)), each(x=(3, 0)), each(x=(0, 4))])
ROWS["Tensor.expand, torch.broadcast_to"] = (lambda x: x.expand(2, 3), [each(x=(3,)), each(x=(2, 1)), each(x=()), each(x=(0,))])
ROWS["Tensor.expand_as"] = (lambda x, y: x.expand_as(y), [each(x=(3,), y=(2, 3)), each(x=(1,), y=(2, 0)), each(x=(1, 3), y=(0, 3)), each(x=(), y=(0,))])
CAT = each(x=(2, 3), y=(2, 3)) + each(x=(0, 3), y=(2, 3)) + each(x=(2, 0), y=(2, 0)) + each(x=(0,), y=(0,)) + each(x=(0,), y=(2, 3)) + each(x=(2, 3), y=(0,))
ROWS["torch.cat"] = (lambda x, y: torch.cat([x, y], 0), [CAT, each(x=(4, 3), y=(0, 3)), each(x=(), y=())])
ROWS["torch.hstack"] = (lambda x, y: torch.hstack([x, y]), [each(x=(2, 3), y=(2, 3)), each(x=(2, 0), y=(2, 3))])
ROWS["torch.vstack"] = (lambda x, y: torch.vstack([x, y]), [each(x=(2, 3), y=(1, 3)), each(x=(0, 3), y=(2, 3))])
ROWS["torch.stack"] = (lambda x, y: torch.stack([x, y]), [each(x=(2, 3), y=(2, 3)), each(x=(0, 3), y=(0, 3)), each(x=(), y=())])
ROWS["torch.split"] = (lambda x: list(x.split([1, 2], 0)), [each(x=(3, 4)), each(x=(3, 0))])
ROWS["torch.meshgrid"] = (lambda x, y: torch.meshgrid(x, y, indexing="ij")[0], [each(x=(3,), y=(4,))])
PLACES = case("i64", TABLE) + case("i32", {"x": drawn(3, 4), "ids": ids(2, 0, 2).int()}) + case("empty", {"x": drawn(3, 4), "ids": ids().long()})
PLACES += case("of nothing", {"x": drawn(0, 4), "ids": ids().long()}) + case("from nothing", {"x": drawn(0, 4), "ids": ids(0)})
PLACES += case("rows of nothing", {"x": drawn(3, 0), "ids": ids(1)}) + case("outside", {"x": drawn(3, 4), "ids": ids(3)})
ROWS["torch.index_select"] = (lambda x, ids: x.index_select(0, ids), [PLACES])
ROWS["torch.repeat_interleave"] = (lambda x, ids: x[ids], [PLACES])
ROWS["x[i, j]"] = (lambda x, ids: x[ids.long(), ids.long()], [PLACES])
ROWS["torch.take"] = (lambda x, ids: x.take(ids.long()), [[c for c in PLACES if c[0] not in ("outside",)], case("outside12", {"x": drawn(3, 4), "ids": ids(12)})])
GATHER = case("i64", {"x": drawn(3, 4), "ids": ids([0, 3], [1, 1], [2, 0])}) + case("no column", {"x": drawn(3, 4), "ids": torch.zeros(3, 0).long()})
GATHER += case("no row", {"x": drawn(0, 4), "ids": torch.zeros(0, 2).long()}) + case("from nothing", {"x": drawn(3, 0), "ids": torch.zeros(3, 2).long()})
GATHER += case("nothing from nothing", {"x": drawn(3, 0), "ids": torch.zeros(3, 0).long()})
ROWS["torch.gather"] = (lambda x, ids: x.gather(1, ids), [GATHER])
ROWS["torch.take_along_dim"] = (lambda x, ids: x.take_along_dim(ids, 1), [GATHER])
SCATTER = [(c, (lambda m: lambda d: {**m(d), "y": drawn(*m(d)["ids"].shape, seed=4)})(m), d) for c, m, d in GATHER]
ROWS["torch.scatter_add"] = (lambda x, ids, y: x.scatter_add(1, ids, y), [SCATTER])
ADDED = [(c, (lambda m: lambda d: {**m(d), "y": drawn(m(d)["ids"].numel(), m(d)["x"].shape[1], seed=4)})(m), d) for c, m, d in PLACES]
ROWS["torch.index_add"] = (lambda x, ids, y: x.index_add(0, ids, y), [ADDED])


def masked(names):
    found = []
    for label, shape, mask in [("mixed", (3, 4), torch.arange(12).view(3, 4) % 3 == 0), ("row", (3, 4), torch.tensor([True, False, False, True])),
                               ("none", (3, 4), torch.zeros(3, 4, dtype=torch.bool)), ("empty", (0, 4), torch.zeros(0, 4, dtype=torch.bool)),
                               ("empty x", (1, 0), torch.zeros(3, 0, dtype=torch.bool))]:
        found += case(label, {"mask": mask, **{n: drawn(*shape, seed=i) for i, n in enumerate(names)}})
    return found


ROWS["x[mask]"] = (lambda mask, x: torch.masked_select(x, mask), [masked("x")])
ROWS["torch.masked_select"] = (lambda mask, x: torch.masked_select(x, mask), [masked("x")])
ROWS["torch.masked_fill"] = (lambda mask, x: x.masked_fill(mask, 0), [[c for c in masked("x") if c[0] != "empty x"]])
ROWS["torch.where"] = (lambda mask, x, y: torch.where(mask, x, y), [masked("xy"), case("special;dy=inf", lambda d: {**pair_of(d, "x", "y"), "mask": torch.arange(100) % 2 == 0}, INF)])
ROWS["x[mask] = y"] = (lambda mask, x, y: torch.where(mask, y, x), [masked("xy")])
ROWS["F.one_hot"] = (lambda ids: F.one_hot(ids, 10).double(), [case("i64", {"ids": ids(2, 0, 9)}, None), case("empty", {"ids": ids().long()}, None), case("outside", {"ids": ids(10)}, None)])
ROWS["F.pixel_shuffle"] = (lambda x: F.pixel_shuffle(x, 2), [each(x=(1, 12, 4, 4))])
