"""More rows for golden_table.py, as those in golden_table_rows.py: products, layers, losses, and tensors made or changed."""

import torch
import torch.nn.functional as F
from golden_table_rows import ROWS, case, drawn, each, ids, pair_of, positive, tuples, unit, values


def without_gradient(cases):
    return [(label, make, None) for label, make, _ in cases]


# Products, with empty dimensions outside and inside.
MATRICES = each(x=(3, 4), y=(4, 5)) + each(x=(0, 4), y=(4, 5)) + each(x=(3, 4), y=(4, 0)) + each(x=(3, 0), y=(0, 5))
MATRICES += each(x=(3, 4), y=(3, 5)) + case("special", lambda d: {"x": tuples(d, 2), "y": torch.tensor([[1.0, 2.0], [0.0, -3.0]], dtype=d)}, 1.0)
BATCHES = each(x=(2, 3, 4), y=(2, 4, 5)) + each(x=(0, 3, 4), y=(0, 4, 5)) + each(x=(2, 3, 0), y=(2, 0, 5)) + each(x=(2, 0, 4), y=(2, 4, 5))
VECTORS = each(x=(4,), y=(4,)) + each(x=(0,), y=(0,)) + each(x=(3,), y=(4,))
MIXED = each(x=(4,), y=(4, 5)) + each(x=(2, 3, 4), y=(4, 5)) + each(x=(0,), y=(0, 5)) + each(x=(2, 3, 0), y=(0,)) + each(x=(1, 3, 4), y=(0, 4, 5))
ROWS["torch.matmul, x @ y"] = (lambda x, y: x @ y, [MATRICES, BATCHES, VECTORS, MIXED])
ROWS["torch.mm"] = (lambda x, y: torch.mm(x, y), [MATRICES])
ROWS["torch.bmm"] = (lambda x, y: torch.bmm(x, y), [BATCHES])
ROWS["torch.mv"] = (lambda x, y: torch.mv(x, y), [each(x=(3, 4), y=(4,)), each(x=(3, 0), y=(0,)), each(x=(0, 4), y=(4,))])
ROWS["torch.dot"] = (lambda x, y: torch.dot(x, y), [VECTORS])
ROWS["torch.addmm"] = (lambda a, x, y: torch.addmm(a, x, y), [each(a=(5,), x=(3, 4), y=(4, 5)), each(a=(5,), x=(3, 0), y=(0, 5)), each(a=(5,), x=(0, 4), y=(4, 5))])
ROWS["torch.baddbmm"] = (lambda a, x, y: torch.baddbmm(a, x, y), [each(a=(2, 3, 5), x=(2, 3, 4), y=(2, 4, 5)), each(a=(2, 3, 5), x=(2, 3, 0), y=(2, 0, 5))])
ROWS["torch.outer"] = (lambda x, y: torch.outer(x, y), [each(x=(3,), y=(4,)), each(x=(0,), y=(4,)), each(x=(3,), y=(0,))])
ROWS["torch.einsum"] = (lambda x, y: torch.einsum("bij,bjk->bik", x, y), [BATCHES])
ROWS["torch.tensordot"] = (lambda x, y: torch.tensordot(x, y), [each(x=(2, 3, 4), y=(3, 4, 5)), each(x=(2, 0, 4), y=(0, 4, 5)), each(x=(0, 3, 4), y=(3, 4, 5))])
ROWS["torch.cdist"] = (lambda x, y: torch.cdist(x, y), [each(x=(3, 4), y=(2, 4)), each(x=(0, 4), y=(2, 4)), each(x=(3, 0), y=(2, 0)), case("equal", {"x": drawn(3, 2), "y": drawn(3, 2)})])
ROWS["torch.addcmul"] = (lambda x, a, b: torch.addcmul(x, a, b, value=0.1), [each(x=(3, 4), a=(4,), b=(3, 1)), each(x=(0, 3), a=(3,), b=(1,))])
ROWS["torch.addcdiv"] = (lambda x, a, b: torch.addcdiv(x, a, b, value=0.1), [each(x=(3, 4), a=(4,), b=(3, 1)), each(x=(0, 3), a=(3,), b=(1,))])
ROWS["F.bilinear"] = (lambda x, w, y: F.bilinear(x, y, w), [each(x=(2, 3), w=(5, 3, 4), y=(2, 4)), each(x=(0, 3), w=(5, 3, 4), y=(0, 4))])

# Layers
ROWS["F.linear"] = (lambda x, w, bias: F.linear(x, w, bias), [
    each(x=(2, 3), w=(5, 3), bias=(5,)), each(x=(0, 3), w=(5, 3), bias=(5,)), each(x=(2, 0), w=(5, 0), bias=(5,)),
    each(x=(2, 3), w=(0, 3), bias=(0,)), each(x=(2, 0, 3), w=(5, 3), bias=(5,)), each(x=(3,), w=(5, 3), bias=(5,))])
BAGS = case("i64", {"w": drawn(4, 3), "ids": ids([2, 0], [3, 3])}) + case("no bag", {"w": drawn(4, 3), "ids": torch.zeros(0, 2).long()})
BAGS += case("empty bags", {"w": drawn(4, 3), "ids": torch.zeros(2, 0).long()}) + case("outside", {"w": drawn(4, 3), "ids": ids([4, 0])})
ROWS["F.embedding"] = (lambda w, ids: F.embedding(ids, w), [BAGS, case("rows of nothing", {"w": drawn(4, 0), "ids": ids([2, 0])})])
ROWS["F.embedding_bag"] = (lambda w, ids: F.embedding_bag(ids, w), [BAGS])
ROWS["F.conv1d"] = (lambda x, w, bias: F.conv1d(x, w, bias), [
    each(x=(2, 3, 6), w=(4, 3, 2), bias=(4,)), each(x=(0, 3, 6), w=(4, 3, 2), bias=(4,)), each(x=(2, 3, 0), w=(4, 3, 2), bias=(4,)),
    each(x=(3, 6), w=(4, 3, 2), bias=(4,)), each(x=(2, 3, 6), w=(0, 3, 2), bias=(0,)), each(x=(2, 0, 6), w=(4, 0, 2), bias=(4,))])
ROWS["F.conv2d"] = (lambda x, w, bias: F.conv2d(x, w, bias), [
    each(x=(2, 3, 6, 5), w=(4, 3, 2, 3), bias=(4,)), each(x=(0, 3, 6, 5), w=(4, 3, 2, 3), bias=(4,)), each(x=(2, 3, 0, 5), w=(4, 3, 2, 3), bias=(4,)),
    each(x=(2, 3, 6, 5), w=(0, 3, 2, 3), bias=(0,)), each(x=(2, 0, 6, 5), w=(4, 0, 2, 3), bias=(4,))])
ROWS["F.conv_transpose2d"] = (lambda x, w, bias: F.conv_transpose2d(x, w, bias), [
    each(x=(2, 3, 4, 5), w=(3, 4, 2, 3), bias=(4,)), each(x=(0, 3, 4, 5), w=(3, 4, 2, 3), bias=(4,)), each(x=(2, 3, 0, 5), w=(3, 4, 2, 3), bias=(4,))])
LINES = each(x=(2, 3, 6)) + each(x=(3, 7)) + each(x=(0, 3, 6)) + each(x=(2, 0, 6)) + each(x=(2, 3, 0)) + each(x=(2, 3, 1))
LINES += case("special", lambda d: {"x": tuples(d, 2)[None]}, 1.0)
PLANES = each(x=(2, 3, 6, 5)) + each(x=(3, 6, 4)) + each(x=(0, 3, 6, 4)) + each(x=(2, 0, 6, 4)) + each(x=(2, 3, 0, 4)) + each(x=(2, 3, 1, 4))
PLANES += case("special", lambda d: {"x": tuples(d, 2).view(1, 100, 1, 2).expand(1, 100, 2, 2).contiguous()}, 1.0)
ROWS["F.max_pool1d"] = (lambda x: F.max_pool1d(x, 2), [LINES])
ROWS["F.avg_pool1d"] = (lambda x: F.avg_pool1d(x, 2), [LINES])
ROWS["F.max_pool2d"] = (lambda x: F.max_pool2d(x, 2), [PLANES])
ROWS["F.avg_pool2d"] = (lambda x: F.avg_pool2d(x, 2), [PLANES])
ROWS["F.adaptive_avg_pool2d"] = (lambda x: F.adaptive_avg_pool2d(x, 1), [PLANES])
ROWS["F.interpolate"] = (lambda x: F.interpolate(x, (8, 8)), [[c for c in PLANES if c[0] != "[3,6,4]"]])
ROWS["F.batch_norm"] = (lambda x, w, bias: F.batch_norm(x, None, None, w, bias, training=True), [
    each(x=(4, 3), w=(3,), bias=(3,)), each(x=(2, 3, 5), w=(3,), bias=(3,)), each(x=(0, 3), w=(3,), bias=(3,)), each(x=(1, 3), w=(3,), bias=(3,)),
    each(x=(4, 0), w=(0,), bias=(0,)), each(x=(2, 3, 0), w=(3,), bias=(3,))])
ROWS["F.instance_norm"] = (lambda x: F.instance_norm(x), [each(x=(2, 3, 5)), each(x=(0, 3, 5)), each(x=(2, 3, 0)), each(x=(2, 3, 1))])
ROWS["F.group_norm"] = (lambda x, w, bias: F.group_norm(x, 4, w, bias), [
    each(x=(2, 8, 5), w=(8,), bias=(8,)), each(x=(0, 8, 5), w=(8,), bias=(8,)), each(x=(2, 8, 0), w=(8,), bias=(8,)), each(x=(2, 6), w=(6,), bias=(6,))])
ROWS["F.layer_norm"] = (lambda x, w, bias: F.layer_norm(x, x.shape[-1:], w, bias), [
    each(x=(2, 3), w=(3,), bias=(3,)), each(x=(0, 3), w=(3,), bias=(3,)), each(x=(2, 0), w=(0,), bias=(0,)), each(x=(2, 1), w=(1,), bias=(1,))])
ROWS["F.rms_norm"] = (lambda x, w: F.rms_norm(x, x.shape[-1:], w, eps=1e-5), [
    each(x=(2, 3), w=(3,)), each(x=(0, 3), w=(3,)), each(x=(2, 0), w=(0,)), each(x=(2, 1), w=(1,))])
ROWS["F.dropout"] = (lambda x: F.dropout(x, 0.1), [each(x=(5, 7)), each(x=(0, 7)), case("special", lambda d: {"x": values(d)}, 1.0)])
ROWS["F.dropout1d, F.dropout2d"] = (lambda x: F.dropout2d(x, 0.1), [case("f32 only", {"x": drawn(2, 3, 4, 5)})])
ROWS["F.scaled_dot_product_attention"] = (
    lambda x, y: F.scaled_dot_product_attention(*(t.unflatten(2, (4, -1)).transpose(1, 2) for t in (x, y, y)), is_causal=True).transpose(1, 2).flatten(2),
    [each(x=(2, 3, 8), y=(2, 3, 8)), each(x=(0, 3, 8), y=(0, 3, 8)), each(x=(2, 0, 8), y=(2, 0, 8))])
ROWS["F.prelu"] = (lambda x, w: F.prelu(x, w), [case("ordinary", {"x": drawn(3, 4), "w": drawn(1)}), case("special", lambda d: {"x": values(d), "w": torch.tensor([0.25], dtype=d)}, 1.0), each(x=(0, 4), w=(1,))])
ROWS["F.glu"] = (lambda a, b: F.glu(torch.cat([a, b], -1), -1), [each(a=(3, 4), b=(3, 4)), each(a=(0, 4), b=(0, 4)), case("special", lambda d: {k: v[:, None] for k, v in pair_of(d, "a", "b").items()}, 1.0)])

# Losses: means of elements, at special pairs one element each.
CLASSES = case("i64", {"x": drawn(3, 4), "ids": ids(2, 0, 3)}) + case("ignored", {"x": drawn(3, 4), "ids": ids(2, -100, 3)})
CLASSES += case("all ignored", {"x": drawn(2, 4), "ids": ids(-100, -100)}) + case("outside", {"x": drawn(3, 4), "ids": ids(2, 0, 4)})
CLASSES += case("no row", {"x": drawn(0, 4), "ids": ids().long()}) + case("no class", {"x": drawn(2, 0), "ids": ids(0, 0)}) + case("one class", {"x": drawn(2, 1), "ids": ids(0, 0)})
ROWS["F.cross_entropy"] = (lambda x, ids: F.cross_entropy(x, ids), [CLASSES])
ROWS["F.nll_loss"] = (lambda x, ids: F.nll_loss(F.log_softmax(x, -1), ids), [CLASSES])


def singly(cases):
    """Each special tuple is a case by itself, since a mean hides all elements but the worst: see golden_table.py."""
    return [(f"each {label}", make, dout) for label, make, dout in cases]


def with_sign(cases, name, sign):
    return [(f"{label};{sign}", (lambda m: lambda d: {**m(d), name: torch.full_like(next(iter(m(d).values())), sign)})(make), dout) for label, make, dout in cases]


PAIRS = each(x=(3, 4), y=(3, 4)) + each(x=(0,), y=(0,)) + each(x=(3, 0), y=(3, 0)) + each(x=(), y=())
SPECIAL = singly(case("special", lambda d: pair_of(d, "x", "y"), 1.0))
for name, f in {"F.mse_loss": F.mse_loss, "F.l1_loss": F.l1_loss, "F.smooth_l1_loss": F.smooth_l1_loss, "F.huber_loss": F.huber_loss}.items():
    ROWS[name] = ((lambda f: lambda x, y: f(x, y))(f), [PAIRS, SPECIAL])
ROWS["F.poisson_nll_loss"] = (lambda x, y: F.poisson_nll_loss(x, y), [PAIRS, SPECIAL])
ROWS["F.binary_cross_entropy"] = (lambda x, y: F.binary_cross_entropy(x, y), [
    case("ordinary", {"x": unit(3, 4), "y": unit(3, 4, seed=1)}), case("empty", {"x": unit(0), "y": unit(0)}), case("outside", {"x": drawn(3) * 3, "y": unit(3)}),
    singly(case("edge", lambda d: {"x": torch.tensor([0.0, 1.0, 1e-30, 0.0, 1.0, 0.5], dtype=d), "y": torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.25], dtype=d)}, 1.0))])
ROWS["F.binary_cross_entropy_with_logits"] = (lambda x, y: F.binary_cross_entropy_with_logits(x, y), [case("ordinary", {"x": drawn(3, 4), "y": unit(3, 4, seed=1)}), each(x=(0,), y=(0,))])
ROWS["F.kl_div"] = (lambda x, y: F.kl_div(F.log_softmax(x, -1), y), [case("ordinary", {"x": drawn(3, 4), "y": unit(3, 4, seed=1)}), each(x=(0, 4), y=(0, 4)), each(x=(3, 0), y=(3, 0))])
ROWS["F.gaussian_nll_loss"] = (lambda a, x, y: F.gaussian_nll_loss(x, y, a), [case("ordinary", {"a": positive(3, 4), "x": drawn(3, 4), "y": drawn(3, 4, seed=1)}), each(a=(0,), x=(0,), y=(0,))])
CLASSIFIED = case("ordinary", {"x": drawn(3, 4), "y": drawn(3, 4, seed=1).sign()}) + each(x=(0,), y=(0,)) + each(x=(3, 0), y=(3, 0))
ONE = singly(case("special", lambda d: {"x": values(d)}, 1.0))
SIGNED = CLASSIFIED + with_sign(ONE, "y", 1.0) + with_sign(ONE, "y", -1.0)


ROWS["F.soft_margin_loss"] = (lambda x, y: F.soft_margin_loss(x, y), [SIGNED])
ROWS["F.hinge_embedding_loss"] = (lambda x, y: F.hinge_embedding_loss(x, y), [SIGNED])
RANKED = case("ordinary", {"a": drawn(3, 4), "b": drawn(3, 4, seed=1), "y": drawn(3, 4, seed=2).sign()}) + each(a=(0,), b=(0,), y=(0,)) + each(a=(3, 0), b=(3, 0), y=(3, 0))
SPECIAL_AB = singly(case("special", lambda d: pair_of(d, "a", "b"), 1.0))
ROWS["F.margin_ranking_loss"] = (lambda a, b, y: F.margin_ranking_loss(a, b, y), [RANKED, with_sign(SPECIAL_AB, "y", 1.0), with_sign(SPECIAL_AB, "y", -1.0)])


def against(*names):
    """Vectors of two, special values in the first, second or third, against ordinary ones."""
    found = []
    for special in names:
        def make(dtype, special=special):
            pairs = tuples(dtype, 2)
            others = {n: torch.tensor([0.5, -2.0], dtype=dtype).mul(i + 1).expand_as(pairs).contiguous() for i, n in enumerate(names)}
            return {**others, special: pairs}
        found += case(f"special {special}", make, 1.0)
    return found


ROWS["F.cosine_similarity"] = (lambda a, b: F.cosine_similarity(a, b), [each(a=(3, 4), b=(3, 4)), each(a=(1, 4), b=(3, 4)), each(a=(0, 4), b=(0, 4)), each(a=(3, 0), b=(3, 0)), against("a", "b")])
ROWS["F.pairwise_distance"] = (lambda a, b: F.pairwise_distance(a, b), [each(a=(3, 4), b=(3, 4)), each(a=(4,), b=(4,)), each(a=(0, 4), b=(0, 4)), each(a=(3, 0), b=(3, 0)), against("a", "b")])
TRIPLETS = singly([(f"f32 only, {c}", (lambda m: lambda d: {k: v[:, None] for k, v in m(d).items()})(m), o) for c, m, o in against("x", "a", "b")])
ROWS["F.triplet_margin_loss"] = (lambda x, a, b: F.triplet_margin_loss(x, a, b), [each(x=(3, 4), a=(3, 4), b=(3, 4)), each(x=(0, 4), a=(0, 4), b=(0, 4)), each(x=(3, 0), a=(3, 0), b=(3, 0)), TRIPLETS])


def cosines(sign):
    signed = [(f"f32 only, {c};{sign}", (lambda m: lambda d: {**m(d), "y": torch.full((100,), sign, dtype=d)})(m), o) for c, m, o in against("a", "b")]
    return [(c, (lambda m: lambda d: {k: v[:, None] for k, v in m(d).items()})(m), o) for c, m, o in singly(signed)]


ROWS["F.cosine_embedding_loss"] = (lambda a, b, y: F.cosine_embedding_loss(a, b, y), [
    case("ordinary", {"a": drawn(3, 4), "b": drawn(3, 4, seed=1), "y": drawn(3, seed=2).sign()}), case("empty", {"a": drawn(0, 4), "b": drawn(0, 4), "y": drawn(0)}),
    case("no element", {"a": drawn(3, 0), "b": drawn(3, 0), "y": drawn(3).sign()}), cosines(1.0), cosines(-1.0)])

# Tensors made, and changed in place
X = case("[2,3]", {"x": drawn(2, 3)}, None)
NONE = case("f32 only", {}, None)
for name, f in {
    "torch.tensor": lambda: torch.tensor([1.0, 2.0]), "torch.zeros": lambda: torch.zeros(2, 3), "torch.ones": lambda: torch.ones(2, 3),
    "torch.full": lambda: torch.full((2, 3), 7.0), "torch.arange": lambda: torch.arange(0.0, 10.0, 2.0),
    "torch.linspace": lambda: torch.linspace(0, 1, 5), "torch.eye": lambda: torch.eye(3), "torch.rand": lambda: torch.rand(2, 3),
    "torch.randn": lambda: torch.randn(2, 3), "torch.randperm": lambda: torch.randperm(10),
}.items():
    ROWS[name] = (f, [NONE])
FLOATS = [("f32 only", make, None) for _, make, _ in X]
ROWS["torch.rand_like"] = (lambda x: torch.rand_like(x), [FLOATS])
ROWS["torch.randn_like"] = (lambda x: torch.randn_like(x), [FLOATS])
ROWS["torch.normal"] = (lambda a, b, x: torch.normal(a, b), [case("f32 only", {"a": drawn(4, 5), "b": positive(4, 5), "x": drawn(4, 5)}, None)])
ROWS["torch.multinomial"] = (lambda x: torch.multinomial(x, 1)[0], [case("f32 only", {"x": positive(7)}, None)])
ROWS["Tensor.shape, .size()"] = (lambda x: torch.tensor(x.shape), [X])
ROWS["Tensor.item"] = (lambda x: x.item(), [case("scalar", {"x": drawn(1)}, None), case("many", {"x": drawn(2)}, None), case("none", {"x": drawn(0)}, None)])
ROWS["Tensor.tolist, .numpy"] = (lambda x: torch.tensor(x.flatten().tolist()), [FLOATS])
ROWS["Tensor.to (dtype), .float, .double, .int, .long, .bool"] = (lambda x: x.double(), [X])
IN_PLACE = without_gradient(each(w=(3, 4), x=(3, 4)) + each(w=(3, 4), x=(4,)) + each(w=(0, 4), x=(4,)) + each(w=(3, 4), x=(0, 4)) + each(w=(4,), x=(3, 4)))
IN_PLACE += case("special", lambda d: pair_of(d, "w", "x"), None)
for name in ("add_", "sub_", "mul_", "div_", "copy_"):
    ROWS[f"Tensor.{name}"] = ((lambda name: lambda w, x: getattr(w.clone(), name)(x))(name), [IN_PLACE])
ROWS["Tensor.fill_, .zero_"] = (lambda w: w.clone().zero_(), [case("[2,3]", {"w": drawn(2, 3)}, None), case("empty", {"w": drawn(0, 3)}, None)])
ROWS["Tensor.uniform_"] = (lambda w: w.clone().uniform_(-1, 1), [case("f32 only", {"w": drawn(2, 3)}, None)])
ROWS["Tensor.normal_"] = (lambda w: w.clone().normal_(), [case("f32 only", {"w": drawn(2, 3)}, None)])
