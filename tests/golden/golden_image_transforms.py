#!/usr/bin/env python3
"""Writes image_transforms.json: images changed as torchvision.transforms changes them one by one, said in PyTorch's own functions,
with the draws of get_params() there."""
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F

SHAPE = (3, 2, 5, 4)
IMAGES = torch.tensor([((37 * i * i + 11 * i) % 29 - 14) / 16 for i in range(math.prod(SHAPE))]).view(SHAPE)


def crop(image, height, width, padding):  # RandomCrop
    image = F.pad(image, [padding] * 4)
    top, left = (int(torch.randint(0, size - part + 1, (1,))) for size, part in ((image.shape[1], height), (image.shape[2], width)))
    return image[:, top : top + height, left : left + width]


def flip(image, p, dim):  # RandomHorizontalFlip, RandomVerticalFlip
    return image.flip(dim) if torch.rand(1) < p else image


def rotation(image, degrees):  # RandomRotation(interpolation=BILINEAR)
    angle = math.radians(float(torch.empty(1).uniform_(-degrees, degrees)))
    h, w = image.shape[1:]
    c, s = math.cos(angle), math.sin(angle)
    # affine_grid's coordinates go from -1 to 1 in each dimension: pixels are not square in them.
    theta = torch.tensor([[c, -s * h / w, 0], [s * w / h, c, 0]], dtype=torch.float64)
    grid = F.affine_grid(theta[None], (1, *image.shape), align_corners=False)
    return F.grid_sample(image[None].double(), grid, align_corners=False)[0].float()


def cutout(image, size):  # Cutout of DeVries & Taylor's code, by this generator
    y, x = (int(torch.randint(0, n, (1,))) for n in image.shape[1:])
    mask = torch.ones_like(image)
    mask[:, max(0, y - size // 2) : y + size // 2, max(0, x - size // 2) : x + size // 2] = 0
    return image * mask


def main():
    cases = {}
    for name, change in {
        "crop": lambda x: crop(x, 4, 3, 2),
        "crop of all rows": lambda x: crop(x, 5, 2, 0),
        "horizontal flip": lambda x: flip(x, 0.5, 2),
        "vertical flip": lambda x: flip(x, 0.7, 1),
        "rotation": lambda x: rotation(x, 75),
        "cutout": lambda x: cutout(x, 2),
    }.items():
        torch.manual_seed(5)
        changed = torch.stack([change(image) for image in IMAGES])
        cases[name] = {"shape": list(changed.shape), "values": changed.flatten().tolist(), "next": float(torch.rand(1))}
    mean, std = torch.tensor([0.25, -1.5]), torch.tensor([0.3, 7.0])
    changed = (IMAGES - mean[:, None, None]) / std[:, None, None]
    cases["normalize"] = {"shape": list(SHAPE), "values": changed.flatten().tolist()}
    golden = {"torch": torch.__version__, "shape": SHAPE, "images": IMAGES.flatten().tolist(), "cases": cases}
    Path(__file__).with_name("image_transforms.json").write_text(json.dumps(golden) + "\n")


main()
