"""The steps of overhead_steps.cpp in PyTorch.

usage: torch_overhead.py perceptron|add [STEPS [THREADS]]   prints the median of a step, and that of the processor's time
"""

import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def perceptron():
    net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    sgd = torch.optim.SGD(net.parameters(), lr=1e-2)
    x, targets = torch.randn(64, 784), torch.arange(64) % 10

    def step():
        F.cross_entropy(net(x), targets).backward()
        sgd.step()
        sgd.zero_grad()

    return step


def add(length=1000):
    x, one = torch.ones((), requires_grad=True), torch.ones(())

    def step():
        total = x
        for _ in range(length):
            total = total + one
        total.backward()
        x.grad = None

    return step


if __name__ == "__main__":
    config, count, threads = sys.argv[1], *(int(x) for x in (sys.argv[2:] + ["100", "2"][len(sys.argv) - 2:])[:2])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    step, unit, factor = {"perceptron": (perceptron(), "us", 1e6 / 10), "add": (add(), "ns", 1e9 / 10_000)}[config]
    times, processor = [], []
    for i in range(-3, count):
        start, before = time.perf_counter(), time.process_time()
        for _ in range(10):
            step()
        if i >= 0:
            times.append(factor * (time.perf_counter() - start))
            processor.append(factor * (time.process_time() - before))
    print(f"{statistics.median(times):.1f} {unit}, {statistics.median(processor):.1f} {unit} of processors")
