"""More of PyTorch's layers: state_dicts as initialised, outputs and gradients.

usage: python3 tests/golden/golden_layers.py, with PyTorch, numpy and safetensors
"""

import pathlib

import torch
import torch.nn as nn
from safetensors.torch import save_file

# name → (makes the module, makes its inputs of a dtype); the tests make the same.
IDS = torch.tensor([3, 0, 6, 3, 3, 1, 6, 2, 0], dtype=torch.int32)
OFFSETS = torch.tensor([0, 0, 4, 4, 7], dtype=torch.int32)
BAGS = dict(input=IDS, offsets=OFFSETS)


def bags(mode, weighted=False, **options):
    """Bags of 0, 4, 0, 3 and 2 ids; of one id in padded bags."""
    def inputs(dtype):
        given = dict(BAGS)
        if weighted:
            given["per_sample_weights"] = torch.randn(9).to(dtype).requires_grad_()
        return given
    return lambda: nn.EmbeddingBag(7, 5, mode=mode, **options), inputs


def images(*sizes):
    return lambda dtype: {"input": torch.randn(*sizes).to(dtype).requires_grad_()}


def sequences(dtype, keys=None, padded=False):
    query = torch.randn(2, 4, 6).to(dtype).requires_grad_()
    key, value = (torch.randn(2, keys, 6).to(dtype).requires_grad_() for _ in range(2)) if keys else (query, query)
    mask = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)[:, -(keys or 4):] if padded else None
    return {"query": query, "key": key, "value": value} | ({"key_padding_mask": mask} if padded else {})


LAYERS = {
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 1), padding=1, output_padding=(1, 0), groups=2),
                   images(2, 4, 3, 5)),
    "transposed_plain": (lambda: nn.ConvTranspose2d(3, 2, 4, stride=2, padding=1, bias=False), images(3, 4, 4)),
    "bag_sum": bags("sum"),
    "bag_weighted": bags("sum", weighted=True, padding_idx=3),
    "bag_mean": bags("mean"),
    "bag_padded": bags("mean", padding_idx=-1),
    "bag_max": bags("max"),
    "bag_max_padded": bags("max", padding_idx=6),
    "attention": (lambda: nn.MultiheadAttention(6, 3, batch_first=True), lambda d: sequences(d, padded=True)),
    "attention_plain": (lambda: nn.MultiheadAttention(6, 2, bias=False, batch_first=True), sequences),
    "attention_across": (lambda: nn.MultiheadAttention(6, 2, batch_first=True),
                         lambda d: sequences(d, keys=5, padded=True)),
}


def facts_of(name, dtype, label):
    make, inputs = LAYERS[name]
    torch.manual_seed(123)
    layer = make().to(dtype)
    facts = {f"param/{key}": t.clone() for key, t in layer.state_dict().items()}
    torch.manual_seed(5)
    given = inputs(dtype)
    y = layer(**given)
    if given.get("key") is given.get("query"):
        given = {k: t for k, t in given.items() if k not in ("key", "value")}
    if isinstance(layer, nn.MultiheadAttention):
        y, facts["weights"] = y[0], y[1].detach()
    (y * y.cos()).sum().backward()
    facts["y"] = y.detach()
    for key, t in given.items():
        facts[key] = t.detach().to(torch.uint8) if t.dtype == torch.bool else t.detach()
        if t.requires_grad:
            facts[f"grad_{key}"] = t.grad
    facts |= {f"grad/{key}": p.grad for key, p in layer.named_parameters()}
    return {f"{name}/{label}/{key}": t.contiguous().clone() for key, t in facts.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors = {}
    for name in LAYERS:
        for dtype, label in [(torch.float32, "f32"), (torch.float64, "f64")]:
            tensors |= facts_of(name, dtype, label)
    save_file(tensors, pathlib.Path(__file__).parent / "layers.safetensors")
