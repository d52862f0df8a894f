"""The steps of recurrent_steps.cpp in PyTorch.

usage: torch_recurrent.py lstm|gru|rnn [STEPS [THREADS]]   prints the median in ms, and that of the processor's time
"""

import statistics
import sys
import time

import torch
import torch.nn as nn

if __name__ == "__main__":
    layer, steps, threads = sys.argv[1], *(int(x) for x in (sys.argv[2:] + ["20", "2"][len(sys.argv) - 2:])[:2])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[layer](256, 256)
    x, dy = torch.randn(128, 32, 256, requires_grad=True), torch.randn(128, 32, 256)
    times, processor = [], []
    for i in range(-3, steps):
        start, before = time.perf_counter(), time.process_time()
        (net(x)[0] * dy).sum().backward()
        x.grad = None
        net.zero_grad()
        if i >= 0:
            times.append(1000 * (time.perf_counter() - start))
            processor.append(1000 * (time.process_time() - before))
    print(f"{statistics.median(times):.2f} ms, {statistics.median(processor):.2f} ms of processors")
