#!/usr/bin/env python3
"""Writes llmc/: a tiny model in llm.c's format (in f32 and in bf16) with a tokenizer, and expected.json with the logits that
PyTorch computes with each. The layout is written out here once more, by llm.c's train_gpt2.py (write_model, write_tokenizer).

usage: golden_llmc.py                  (needs the Python packages torch and numpy)
"""
import json
import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent / "llmc"
T, V, L, H, C, ROWS = 8, 11, 2, 2, 8, 128
CHARACTERS = sorted("\n abcdeé中👍!"[:V])
SHAPES = [("wte", (V, C)), ("wpe", (T, C)), ("ln1w", (L, C)), ("ln1b", (L, C)), ("qkvw", (L, 3 * C, C)), ("qkvb", (L, 3 * C)),
          ("attprojw", (L, C, C)), ("attprojb", (L, C)), ("ln2w", (L, C)), ("ln2b", (L, C)), ("fcw", (L, 4 * C, C)),
          ("fcb", (L, 4 * C)), ("fcprojw", (L, C, 4 * C)), ("fcprojb", (L, C)), ("lnfw", (C,)), ("lnfb", (C,))]


def forward(p, ids):
    x = p["wte"][ids] + p["wpe"][: ids.shape[1]]
    for i in range(L):
        y = F.layer_norm(x, (C,), p["ln1w"][i], p["ln1b"][i], 1e-5)
        q, k, v = [part.unflatten(2, (H, C // H)).transpose(1, 2) for part in F.linear(y, p["qkvw"][i], p["qkvb"][i]).split(C, 2)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.linear(y, p["attprojw"][i], p["attprojb"][i])
        y = F.layer_norm(x, (C,), p["ln2w"][i], p["ln2b"][i], 1e-5)
        y = F.gelu(F.linear(y, p["fcw"][i], p["fcb"][i]), approximate="tanh")
        x = x + F.linear(y, p["fcprojw"][i], p["fcprojb"][i])
    return F.layer_norm(x, (C,), p["lnfw"], p["lnfb"], 1e-5) @ p["wte"].T


def write_model(path, p, version):
    with open(path, "wb") as f:
        f.write(struct.pack("<256i", 20240326, version, T, V, L, H, C, ROWS, *[0] * 248))
        for name, _ in SHAPES:
            t = F.pad(p[name], (0, 0, 0, ROWS - V)) if name == "wte" else p[name]
            f.write(t.numpy().tobytes() if version == 3 else t.bfloat16().view(torch.int16).numpy().tobytes())


generator = torch.Generator().manual_seed(1)
weights = {}
for name, shape in SHAPES:
    weights[name] = torch.randn(shape, generator=generator) * (0.3 if name.endswith("b") else 0.6)
    if name.startswith("ln") and name.endswith("w"):
        weights[name] += 1
halves = {name: t.bfloat16().float() for name, t in weights.items()}
ids = torch.randint(0, V, (2, T), generator=generator)
HERE.mkdir(exist_ok=True)
write_model(HERE / "gpt2_124M.bin", weights, 3)
write_model(HERE / "bf16.bin", weights, 5)
with open(HERE / "gpt2_tokenizer.bin", "wb") as f:
    f.write(struct.pack("<256i", 20240328, 2, V, 0, *[0] * 252))
    for token in CHARACTERS:
        b = token.encode()
        f.write(struct.pack("<B", len(b)) + b)
json.dump({"ids": ids.flatten().tolist(), "shape": [2, T, V], "characters": "".join(CHARACTERS),
           "f32": forward(weights, ids).flatten().tolist(), "bf16": forward(halves, ids).flatten().tolist()},
          open(HERE / "expected.json", "w"), indent=1)
