"""PyTorch's functions that docs/ops.md lists: results and gradients at random, special and empty inputs.

usage: python3 tests/golden/golden_table.py, with PyTorch (2.14 made the file), numpy and safetensors

The names of inputs are those of the table's expressions, and so are the numbers in them. Special cases are in f32 and f64,
others in f64. In a case "each …", element i of the tensors is a case by itself: a mean hides all elements but the worst.
"""

import itertools
import pathlib

import torch
from golden_table_layers import ROWS
from safetensors.torch import save_file

DTYPES = {"f32": torch.float32, "f64": torch.float64}
CONSTANT = {"mask", "ids"}


def case_tensors(name, f, inputs, dout):
    """→ inputs, results, what comes into random cases' gradients, and the inputs' gradients; or that PyTorch raises."""
    found = dict(inputs)
    leaves = {k: t.clone() for k, t in inputs.items()}
    constant = CONSTANT | ({"y"} if name == "F.soft_margin_loss" else set())
    wrt = [k for k, t in leaves.items() if t.is_floating_point() and k not in constant and dout is not None]
    for k in wrt:
        leaves[k].requires_grad_()
    torch.manual_seed(1729)
    try:
        outs = f(**leaves) if f.__name__ == "<lambda>" else f(*leaves.values())
    except (RuntimeError, IndexError, ValueError):
        return {**found, "raises": torch.ones(())}
    outs = [torch.as_tensor(o) for o in (outs if isinstance(outs, (tuple, list)) else [outs])]
    found |= {f"out{i}": o.detach() for i, o in enumerate(outs)}
    roots = {i: o for i, o in enumerate(outs) if o.requires_grad}
    generator = torch.Generator().manual_seed(5)
    seeds = {i: torch.full_like(o, dout) if dout != "random" else torch.randn(o.shape, generator=generator).to(o.dtype) for i, o in roots.items()}
    if not roots:
        return found
    try:
        grads = torch.autograd.grad(list(roots.values()), [leaves[k] for k in wrt], list(seeds.values()), allow_unused=True)
    except RuntimeError:  # index_add to a tensor of nothing has a result, and no gradient
        return found
    if dout == "random":
        found |= {f"dout{i}": seed for i, seed in seeds.items()}
    return found | {f"grad_{k}": torch.zeros_like(leaves[k]) if g is None else g for k, g in zip(wrt, grads)}


def stacked(name, f, inputs, dout):
    """The first element of each input makes a case, and the second the next; their results side by side."""
    count = len(next(iter(inputs.values())))
    singles = [case_tensors(name, f, {k: t[i].clone() for k, t in inputs.items()}, dout) for i in range(count)]
    return {k: torch.stack([one[k] for one in singles]) for k in singles[0]}


def table_tensors():
    tensors, cases = {}, 0
    for (name, (f, makers)), (label, dtype) in itertools.product(ROWS.items(), DTYPES.items()):
        for case, make, dout in itertools.chain(*makers):
            f32_only = "f32 only" in case
            if f32_only if label == "f64" else not f32_only and "special" not in case:
                continue
            inputs = {k: t.to(dtype) if t.is_floating_point() else t for k, t in make(dtype).items()}
            found = (stacked if case.startswith("each ") else case_tensors)(name, f, inputs, dout)
            tensors |= {f"{name}@{case}/{label}/{part}": t.contiguous().clone() for part, t in found.items()}
            cases += len(next(iter(inputs.values()))) if case.startswith("each ") else 1
    print(f"{len(ROWS)} rows, {cases} cases")
    return tensors


if __name__ == "__main__":
    torch.set_num_threads(1)
    save_file(table_tensors(), pathlib.Path(__file__).parent / "table.safetensors")
