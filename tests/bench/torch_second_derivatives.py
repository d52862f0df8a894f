"""The steps of second_derivatives.cpp in PyTorch.

usage: torch_second_derivatives.py [STEPS [THREADS]]   prints the loss, the median in ms, and that of the processor's time
"""

import statistics
import sys
import time

import torch
import torch.nn as nn

if __name__ == "__main__":
    steps, threads = (int(x) for x in (sys.argv[1:] + ["20", "2"][len(sys.argv) - 1:])[:2])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    sizes, layers = [2, 64, 64, 64, 64, 1], []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers += [nn.Linear(a, b)] + ([nn.Tanh()] if i < 4 else [])
    net = nn.Sequential(*layers)
    points = torch.rand(10000, 2).requires_grad_()
    times, processor = [], []
    for i in range(-3, steps):
        start, before = time.perf_counter(), time.process_time()
        (du,) = torch.autograd.grad(net(points).sum(), points, create_graph=True)
        (ddu,) = torch.autograd.grad(du[:, 0:1].sum(), points, create_graph=True)
        left = du[:, 1:2] - 0.1 * ddu[:, 0:1]
        loss = (left * left).mean()
        loss.backward(inputs=list(net.parameters()))
        value = loss.item()
        net.zero_grad()
        if i >= 0:
            times.append(1000 * (time.perf_counter() - start))
            processor.append(1000 * (time.process_time() - before))
    print(f"loss {value:.8f}, {statistics.median(times):.2f} ms, {statistics.median(processor):.2f} ms of processors")
