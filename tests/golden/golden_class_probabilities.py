#!/usr/bin/env python3
"""Writes class_probabilities.json: PyTorch's cross_entropy with probabilities as targets, in float64, with its gradients."""
import json
from pathlib import Path

import torch
import torch.nn.functional as F

LOGITS = [[0.5, -1.25, 2.0], [3.0, 0.125, -0.75], [-2.5, 1.0, 1.5], [0.0, 0.25, 6.0]]
# Also of a sum that is not 1, and of a class for certain.
TARGETS = [[0.25, 0.5, 0.25], [0.0, 1.0, 0.0], [0.5, 0.125, 0.75], [0.1, 0.2, 0.7]]
WEIGHT = [0.5, 2.0, 1.25]


def run(weighted, smoothing, reduction):
    logits = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor(TARGETS, dtype=torch.float64, requires_grad=True)
    weight = torch.tensor(WEIGHT, dtype=torch.float64) if weighted else None
    loss = F.cross_entropy(logits, targets, weight=weight, label_smoothing=smoothing, reduction=reduction)
    torch.sum(loss * torch.arange(1, loss.numel() + 1).view(loss.shape)).backward()
    return {"weighted": weighted, "label_smoothing": smoothing, "reduction": reduction, "loss": loss.flatten().tolist(),
            "grad_logits": logits.grad.flatten().tolist(), "grad_targets": targets.grad.flatten().tolist()}


def main():
    cases = [run(weighted, smoothing, reduction) for weighted in (False, True) for smoothing in (0.0, 0.2)
             for reduction in ("mean", "sum", "none")]
    golden = {"torch": torch.__version__, "logits": sum(LOGITS, []), "targets": sum(TARGETS, []), "weight": WEIGHT, "cases": cases}
    Path(__file__).with_name("class_probabilities.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
