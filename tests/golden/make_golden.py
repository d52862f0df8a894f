"""Remakes the files of this folder: python3 tests/golden/make_golden.py [--out FOLDER]

Needs PyTorch (made with 2.6, the CPU build of Debian 13), numpy and safetensors. A build with Intel's MKL draws dropout
masks and multinomial samples from MKL's own generators: there random.json may differ in those two.
"""

import argparse
import json
import pathlib
import sys
import zlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.utils.data import DataLoader

sys.dont_write_bytecode = True  # this folder holds sources and data only
import golden_book
import golden_models
import golden_ops
import golden_transformer
import golden_variants


def draw(op, n, a, b):
    """One call on PyTorch's default generator → (values, what they are called in random.json)."""
    f32, f64 = torch.empty(n), torch.empty(n, dtype=torch.float64)
    return {
        "uniform_f32": lambda: f32.uniform_(a, b), "uniform_f64": lambda: f64.uniform_(a, b),
        "normal_f32": lambda: f32.normal_(a, b), "normal_f64": lambda: f64.normal_(a, b),
        "keep_mask": lambda: (F.dropout(torch.ones(n), a) > 0).to(torch.uint8),
        "randint": lambda: torch.randint(0, a, (n,)), "randperm": lambda: torch.randperm(n),
        "multinomial": lambda: torch.cat([torch.multinomial(torch.arange(a, dtype=torch.float32), 1) for _ in range(n)]),
        "data_loader": lambda: torch.cat(list(DataLoader(torch.arange(n), batch_size=3, shuffle=True))),
    }[op]()


RANDOM_STREAMS = [
    (123, [("uniform_f32", 1000, -0.57, 0.57), ("uniform_f64", 1000, -0.3, 0.7), ("uniform_f32", 7, 1, 3)]),
    (7, [("normal_f32", 100003, 0, 1), ("normal_f32", 16, 0.3, 0.02), ("normal_f32", 47, 0, 0.02),
         ("normal_f64", 10007, 0.3, 0.02), ("uniform_f32", 3, 0, 1)]),
    (8, [("normal_f32", 3, 0.1, 0.7), ("normal_f32", 20, 0, 1), ("normal_f32", 15, 2, 3), ("normal_f64", 1, 0, 1),
         ("normal_f32", 4, 1, 2), ("normal_f64", 15, 0.1, 0.7)] + [("normal_f32", 15, 0, 0.02)] * 20),
    (9, [("keep_mask", 1000, 0.2, 0), ("keep_mask", 50, 0.0, 0), ("keep_mask", 50, 1.0, 0), ("multinomial", 200, 50, 0),
         ("uniform_f32", 3, 0, 1)]),
    (10, [("randint", 50, n, 0) for n in (1, 10, 65, 2**28 - 1, 2**28, 2**28 + 1, 2**31, 2**32 - 1, 2**32, 2**40 + 7, 2**62 + 12345)]),
    (11, [("randperm", n, 0, 0) for n in (0, 1, 2, 17, 1000)] + [("data_loader", 10, 0, 0), ("data_loader", 100, 0, 0)]),
    (0x1234567890ABCDEF, [("uniform_f32", 100, 0, 1)]),
    (0, [("uniform_f32", 10, 0, 1), ("normal_f32", 100, 0, 1)]),
]


def random_facts():
    streams = []
    for seed, calls in RANDOM_STREAMS:
        torch.manual_seed(seed)
        steps = []
        for op, n, a, b in calls:
            values = draw(op, n, a, b)
            steps.append({"op": op, "n": n, "a": a, "b": b, "head": values[:8].tolist(),
                          "crc32": zlib.crc32(values.numpy().tobytes())})
        streams.append({"seed": seed, "calls": steps})
    return streams


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    out = parser.parse_args().out

    def write_json(name, value):
        (out / name).write_text(json.dumps({"made_with": f"PyTorch {torch.__version__}", **value}, indent=1) + "\n")

    def write_tensors(name, tensors):
        save_file({key: t.contiguous().clone() for key, t in tensors.items()}, out / name)

    torch.set_num_threads(1)
    write_json("random.json", {"streams": random_facts()})
    write_tensors("ops.safetensors", golden_ops.op_tensors())
    tensors, facts = golden_models.gpt_training()
    write_tensors("gpt.safetensors", tensors)
    write_json("gpt.json", facts)
    tensors, facts = golden_transformer.transformer_training()
    write_tensors("transformer.safetensors", tensors)
    write_json("transformer.json", {**facts, "init": golden_transformer.transformer_init()})
    tensors, facts = golden_variants.variant_training()
    write_tensors("variants.safetensors", tensors)
    write_json("variants.json", facts)
    write_json("init.json", golden_models.init_facts())
    write_json("residual.json", {"runs": golden_models.residual_experiment()})
    write_json("book.json", golden_models.book_model())
    write_json("book_training.json", golden_book.tiny_book())


main()
