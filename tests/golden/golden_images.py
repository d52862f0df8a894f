"""Ops on images in PyTorch, with gradients, in float32 and float64; and small networks of image layers.

usage: python3 tests/golden/golden_images.py, with PyTorch, numpy and safetensors
"""

import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

sys.dont_write_bytecode = True
import golden_ops

TIES = np.array([[[1, 3, 3, 0], [3, 3, 1, 0], [np.nan, 1, 0, -np.inf], [2, np.nan, -np.inf, -np.inf]]])
PLACES = np.array([[[[x, y] for x in (-1.13, 1.31, -7.3, 2.9, 40.3, 0.4, -0.2)] for y in (0.2, 1.9, -3.7)]])
# name → (function of the inputs, [shapes of the inputs, …])
OPS = {
    "conv2d": (F.conv2d, [[(2, 3, 6, 5), (4, 3, 3, 2), (4,)], [(3, 4, 5), (2, 3, 2, 2)], [(0, 3, 5, 4), (2, 3, 2, 2), (2,)]]),
    "conv2d(stride=2x1,padding=1x2)": (lambda *x: F.conv2d(*x, stride=(2, 1), padding=(1, 2)), [[(2, 2, 7, 6), (3, 2, 3, 3), (3,)]]),
    "conv2d(padding=2,dilation=2x1,groups=2)": (
        lambda *x: F.conv2d(*x, padding=2, dilation=(2, 1), groups=2), [[(2, 4, 5, 6), (4, 2, 3, 2), (4,)]]),
    "conv2d(stride=3,padding=4)": (lambda *x: F.conv2d(*x, stride=3, padding=4), [[(1, 1, 2, 3), (1, 1, 3, 3)]]),
    "conv2d(groups=4)": (lambda *x: F.conv2d(*x, groups=4), [[(2, 4, 5, 6), (8, 1, 3, 3), (8,)], [(2, 4, 5, 6), (4, 1, 2, 3)]]),
    "conv_transpose2d": (F.conv_transpose2d, [[(2, 3, 4, 3), (3, 2, 3, 2), (2,)]]),
    "conv_transpose2d(stride=2,padding=1,output_padding=1,groups=2)": (
        lambda *x: F.conv_transpose2d(*x, stride=2, padding=1, output_padding=1, groups=2), [[(2, 4, 3, 4), (4, 3, 3, 3), (6,)]]),
    "max_pool2d(2)": (lambda x: F.max_pool2d(x, 2), [[(2, 3, 5, 6)], [(3, 4, 4)], [(0, 3, 4, 4)], [TIES]]),
    "max_pool2d(3x2,stride=2x1,padding=1,dilation=1x2)": (
        lambda x: F.max_pool2d(x, (3, 2), (2, 1), 1, (1, 2)), [[(2, 3, 5, 6)], [TIES]]),
    "max_pool1d(3,stride=2,padding=1)": (lambda x: F.max_pool1d(x, 3, 2, 1), [[(2, 3, 7)], [(3, 6)]]),
    "avg_pool2d(2)": (lambda x: F.avg_pool2d(x, 2), [[(2, 3, 5, 6)], [(3, 4, 4)]]),
    "avg_pool2d(3x2,stride=2x1,padding=1)": (lambda x: F.avg_pool2d(x, (3, 2), (2, 1), 1), [[(2, 3, 5, 6)]]),
    "avg_pool2d(3,stride=2,padding=1,not counted)": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [[(2, 3, 5, 6)]]),
    "avg_pool1d(3,stride=2,padding=1)": (lambda x: F.avg_pool1d(x, 3, 2, 1), [[(2, 3, 7)]]),
    "adaptive_avg_pool2d(3x4)": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), [[(2, 3, 5, 9)], [(3, 2, 2)]]),
    "conv_transpose1d(stride=2,padding=1,output_padding=1,dilation=2)": (
        lambda *x: F.conv_transpose1d(*x, stride=2, padding=1, output_padding=1, dilation=2), [[(2, 3, 4), (3, 2, 3), (2,)], [(3, 4), (3, 2, 3), (2,)]]),
    "adaptive_max_pool2d(3x4)": (lambda x: F.adaptive_max_pool2d(x, (3, 4)), [[(2, 3, 5, 9)], [(3, 2, 2)], [TIES]]),
    "adaptive_max_pool1d(3)": (lambda x: F.adaptive_max_pool1d(x, 3), [[(2, 3, 7)], [(3, 2)]]),
    "upsample_by(1.7)": (lambda x: F.interpolate(x, scale_factor=1.7), [[(2, 3, 3, 2)], [(1, 2, 4, 9)]]),
    "upsample_by(0.6x2.3)": (lambda x: F.interpolate(x, scale_factor=(0.6, 2.3)), [[(2, 3, 3, 2)], [(1, 2, 4, 9)]]),
    "upsample_by(1.7x0.6,bilinear)": (lambda x: F.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear"), [[(2, 3, 3, 2)], [(1, 2, 8, 9)]]),
    "upsample(6x4)": (lambda x: F.interpolate(x, size=(6, 4)), [[(2, 3, 3, 2)], [(1, 2, 4, 9)]]),
    "upsample(6x5,bilinear)": (lambda x: F.interpolate(x, size=(6, 5), mode="bilinear"), [[(2, 3, 3, 2)], [(1, 2, 8, 9)]]),
    "affine_grid(3x4)": (lambda x: F.affine_grid(x, (x.shape[0], 1, 3, 4), align_corners=False), [[(2, 2, 3)]]),
    "affine_grid(1x4,corners)": (lambda x: F.affine_grid(x, (x.shape[0], 1, 1, 4), align_corners=True), [[(2, 2, 3)]]),
    **{f"grid_sample({mode},{padding}{',corners' if corners else ''})": (
        lambda x, grid, mode=mode, padding=padding, corners=corners: F.grid_sample(x, grid, mode, padding, corners),
        [[(2, 3, 4, 5), (2, 6, 7, 2)], [(1, 2, 1, 3), PLACES]])
       for mode in ("bilinear", "nearest") for padding in ("zeros", "border", "reflection") for corners in (False, True)},
    "batch_norm": (lambda x, *p: F.batch_norm(x, None, None, *p, training=True),
                   [[(4, 3, 2, 5), (3,), (3,)], [(2, 3, 5)], [(6, 4), (4,), (4,)]]),
    "batch_norm_with": (lambda x, *p: F.batch_norm(x, torch.tensor([0.5, -1, 2], dtype=x.dtype), torch.tensor([0.25, 1, 4], dtype=x.dtype), *p),
                        [[(4, 3, 2, 5), (3,), (3,)], [(2, 3)]]),
    "group_norm(2)": (lambda x, *p: F.group_norm(x, 2, *p), [[(3, 4, 2, 5), (4,), (4,)], [(2, 6, 3)]]),
}


def op_tensors():
    """{case/dtype/name: tensor}, as golden_ops.op_tensors() makes them."""
    golden_ops.OPS = {name: run for name, (run, _) in OPS.items()}
    golden_ops.cases = lambda: (
        (name, ",".join("x".join(map(str, s)) if isinstance(s, tuple) else "ties" for s in shapes), shapes, None) for name, (_, many) in OPS.items() for shapes in many)
    return golden_ops.op_tensors()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 6, (3, 5), stride=(1, 2), padding=2)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
        self.gn = nn.GroupNorm(3, 6)
        self.conv3 = nn.Conv1d(6, 4, 3, padding=1)
        self.bn2 = nn.BatchNorm1d(4)
        self.fc = nn.Linear(12, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.adaptive_avg_pool2d(self.gn(self.conv2(x)), (1, 3)).squeeze(2)
        return self.fc(F.relu(self.bn2(self.conv3(x))).flatten(1))


def net_tensors():
    """The state_dict of a net after some steps, as torch would save it; and facts about the net."""
    torch.manual_seed(123)
    net = Net()
    facts = {f"init/{name}": t for name, t in copied(net.state_dict()).items()}
    torch.manual_seed(5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(torch.randn(8, 2, 9, 12) + 1), torch.randint(5, (8,))).backward()
        optimizer.step()
    state = copied(net.state_dict())
    facts["x"], facts["targets"] = torch.randn(4, 2, 9, 12), torch.randint(5, (4,), dtype=torch.int32)
    facts["eval/out"] = net.eval()(facts["x"]).detach()
    facts["train/out"] = net.train()(facts["x"])
    net.zero_grad()
    F.cross_entropy(facts["train/out"], facts["targets"].long()).backward()
    facts["train/out"] = facts["train/out"].detach()
    facts |= {f"grad/{name}": p.grad for name, p in net.named_parameters()}
    facts |= {f"after/{name}": t.clone() for name, t in net.named_buffers()}
    return state, facts


def copied(tensors):
    return {name: t.contiguous().clone() for name, t in tensors.items()}


if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent
    state, facts = net_tensors()
    save_file(copied(op_tensors()), folder / "image_ops.safetensors")
    save_file(state, folder / "image_net.safetensors")
    save_file(copied(facts), folder / "image_net_facts.safetensors")
