"""Compares what peer_model wrote with PyTorch:  python3 tests/peer/compare_model.py FILE

Prints how far the f32 logits and gradients are from those of PyTorch in f64, ours and PyTorch's: the norm of the
difference by the norm, and the largest difference by the largest element.
"""

import pathlib
import sys

import torch
from safetensors import safe_open

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
from golden_models import GPT  # noqa: E402

CONFIG = dict(vocab_size=50257, block_size=1024, n_layer=12, n_head=12, n_embd=768, bias=True, tied=True, gelu="tanh")


def run(model, ids, targets):
    """→ the logits and the gradients by name."""
    model.zero_grad(set_to_none=True)
    logits, loss = model(ids, targets)
    loss.backward()
    return {"logits": logits.detach(), **{f"grad/{name}": p.grad for name, p in model.named_parameters()}}


def distances(value, exact):
    gap = value.double() - exact
    return (gap.norm() / exact.norm()).item(), (gap.abs().max() / exact.abs().max()).item()


def total(gaps_and_norms):
    return sum(gap ** 2 for gap, _ in gaps_and_norms) ** 0.5 / sum(norm ** 2 for _, norm in gaps_and_norms) ** 0.5


def main():
    with safe_open(sys.argv[1], "pt") as file:
        model = GPT(**CONFIG)
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(file.get_tensor(f"param/{name}"))
        ids, targets = file.get_tensor("ids").long(), file.get_tensor("targets").long()
        exact = run(model.double(), ids, targets)
        theirs = run(model.float(), ids, targets)
        rows, totals = [], ([], [])
        for name, e in exact.items():
            sides = file.get_tensor(name), theirs[name]
            rows.append((name, *(distances(x, e) for x in sides)))
            if name != "logits":
                for side, x in zip(totals, sides):
                    side.append(((x.double() - e).norm().item(), e.norm().item()))
    print("| | norm | PyTorch's | largest | PyTorch's |\n|---|---|---|---|---|")
    print("| logits | {:.3g} | {:.3g} | {:.3g} | {:.3g} |".format(*(rows[0][side][i] for i in (0, 1) for side in (1, 2))))
    print(f"| all gradients | {total(totals[0]):.3g} | {total(totals[1]):.3g} | | |")
    worst = [max((row[side][i], row[0]) for row in rows[1:]) for i in (0, 1) for side in (1, 2)]
    print("| worst gradient | " + " | ".join(f"{error:.3g} ({name[5:]})" for error, name in worst) + " |")
    further = [sum(row[1][i] > row[2][i] for row in rows[1:]) for i in (0, 1)]
    print(f"\nOf {len(rows) - 1} gradients, ours is further off in {further[0]} by norm, in {further[1]} by element.")


main()
