"""The steps of overhead_steps.cpp from Python.

usage: python_steps.py perceptron|add|decoder [STEPS]   prints the median of a step, and that of the processor's time
"""

import statistics
import sys
import time

import tapegrad as tg
from tapegrad import nn


def trained(loss, optimizer, clipped=None):
    def step():
        with tg.Tape() as tape:
            tape.backward(loss())
        if clipped:
            tg.clip_grad_norm(clipped, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def perceptron():
    rng = tg.Rng(1)
    net = nn.Sequential(nn.Linear(rng, 784, 256), tg.relu, nn.Linear(rng, 256, 10))
    x, targets = tg.randn((64, 784), rng), tg.tensor([i % 10 for i in range(64)], dtype=tg.i32)
    return trained(lambda: tg.cross_entropy(net(x), targets), tg.SGD(net, lr=1e-2))


def decoder():
    gpt = tg.Decoder(tg.Rng(1), vocab_size=65, block_size=64, n_layer=4, n_head=4, n_embd=128)
    rows = tg.tensor([i % 65 for i in range(8 * 64)], dtype=tg.i32).view((8, 64))
    return trained(lambda: gpt.loss(rows, rows), tg.AdamW(gpt, lr=1e-3), gpt.parameters())


def add(length=1000):
    x, one = tg.ones(()).set_requires_grad(), tg.ones(())

    def step():
        with tg.Tape() as tape:
            total = x
            for _ in range(length):
                total = total + one
            tape.backward(total)
        x.zero_grad()

    return step


def main(config, count=100, calls=10):
    step = {"perceptron": perceptron, "add": add, "decoder": decoder}[config]()
    unit, factor = {"perceptron": ("us", 1e6), "add": ("ns", 1e9 / 1000), "decoder": ("ms", 1e3)}[config]
    times, processor = [], []
    for i in range(-3, int(count)):
        before = time.perf_counter(), time.process_time()
        for _ in range(calls):
            step()
        if i >= 0:
            times.append((time.perf_counter() - before[0]) * factor / calls)
            processor.append((time.process_time() - before[1]) * factor / calls)
    print(f"{statistics.median(times):.2f} {unit}, {statistics.median(processor):.2f} {unit} of processors")


main(*sys.argv[1:])
