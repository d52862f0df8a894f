#!/usr/bin/env python3
"""Writes lbfgs.json: the iterates of torch.optim.LBFGS on Rosenbrock's function and on a small perceptron, in float64."""
import json
from pathlib import Path

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
START = {"rosenbrock": [[-1.2, 1.0]],
         "perceptron": [[((37 * k * k + 11 * k) % 101 - 50) / 64 for k in range(n)] for n in (10, 5, 5, 1)]}
X = torch.tensor([[((29 * i + 17 * j * j + 7 * i * j) % 61 - 30) / 20 for j in range(2)] for i in range(12)])
Y = torch.sin(X[:, 0]) * X[:, 1]
CASES = [
    ("rosenbrock", 12, {"max_iter": 4, "line_search_fn": "strong_wolfe"}),
    ("rosenbrock", 3, {"max_iter": 20, "history_size": 2, "line_search_fn": "strong_wolfe", "lr": 0.5}),
    ("rosenbrock", 6, {"max_iter": 3, "max_eval": 3, "line_search_fn": "strong_wolfe"}),
    ("rosenbrock", 10, {"max_iter": 3, "lr": 0.1}),
    ("perceptron", 8, {"max_iter": 5, "history_size": 4, "line_search_fn": "strong_wolfe"}),
    ("perceptron", 4, {"line_search_fn": "strong_wolfe"}),
    ("perceptron", 5, {"max_iter": 4, "lr": 0.3}),
]


def loss_of(kind, p):
    if kind == "rosenbrock":
        return (1 - p[0][0]) ** 2 + 100 * (p[0][1] - p[0][0] ** 2) ** 2
    hidden = torch.tanh(X @ p[0].view(5, 2).T + p[1])
    return torch.mean((hidden @ p[2] + p[3] - Y) ** 2)


def run(kind, steps, options):
    parameters = [torch.tensor(values, requires_grad=True) for values in START[kind]]
    optimizer = torch.optim.LBFGS(parameters, **options)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(kind, parameters)
        loss.backward()
        return loss

    rows = []
    for _ in range(steps):
        loss = optimizer.step(closure).item()
        state = optimizer.state[parameters[0]]
        rows.append({"loss": loss, "parameters": torch.cat(parameters).tolist(),
                     "iterations": state["n_iter"], "evaluations": state["func_evals"]})
    return {"kind": kind, "options": options, "steps": rows}


def main():
    golden = {"torch": torch.__version__, "start": START, "x": X.flatten().tolist(), "y": Y.tolist(),
              "cases": [run(*case) for case in CASES]}
    Path(__file__).with_name("lbfgs.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
