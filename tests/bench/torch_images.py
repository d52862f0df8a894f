"""The steps of image_steps.cpp in PyTorch.

usage: torch_images.py lenet|block [STEPS [THREADS]]   prints the median in ms, and that of the processor's time
"""

import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.max_pool2d(F.relu(self.conv1(x)), 2))), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in range(2))
        self.bn1, self.bn2 = nn.BatchNorm2d(64), nn.BatchNorm2d(64)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + x)


def lenet():
    net = LeNet()
    adamw = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    x, targets = torch.randn(128, 1, 28, 28), torch.arange(128) % 10

    def step():
        F.cross_entropy(net(x), targets).backward()
        adamw.step()
        adamw.zero_grad()

    return step


def block():
    net, x, dy = Block(), torch.randn(16, 64, 56, 56, requires_grad=True), torch.randn(16, 64, 56, 56)

    def step():
        (net(x) * dy).sum().backward()
        x.grad = None
        net.zero_grad()

    return step


if __name__ == "__main__":
    config, steps, threads = sys.argv[1], *(int(x) for x in (sys.argv[2:] + ["30", "2"][len(sys.argv) - 2:])[:2])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    step, times, processor = {"lenet": lenet, "block": block}[config](), [], []
    for i in range(-3, steps):
        start, before = time.perf_counter(), time.process_time()
        step()
        if i >= 0:
            times.append(1000 * (time.perf_counter() - start))
            processor.append(1000 * (time.process_time() - before))
    print(f"{statistics.median(times):.2f} ms, {statistics.median(processor):.2f} ms of processors")
