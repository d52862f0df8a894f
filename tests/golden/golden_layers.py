"""More of PyTorch's layers and initialisers: state_dicts as initialised, outputs and gradients.

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


def sequences(dtype, keys=None, padded=False, widths=(6, 6), mask=None):
    query = torch.randn(2, 4, 6).to(dtype).requires_grad_()
    key, value = (torch.randn(2, keys, n).to(dtype).requires_grad_() for n in widths) if keys else (query, query)
    given = {"query": query, "key": key, "value": value}
    if padded:
        given["key_padding_mask"] = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)[:, -(keys or 4):]
    if mask is not None:
        given["attn_mask"] = mask.to(dtype, copy=True).requires_grad_() if mask.is_floating_point() else mask
    return given


class LSTMStep(nn.LSTMCell):
    """A cell with one output, of the states h and c side by side."""

    def forward(self, input, h=None, c=None):
        return torch.cat(super().forward(input, None if h is None else (h, c)), -1)


def step(*states):
    """A batch of 5 inputs of 4 numbers, and states of 3."""
    return lambda dtype: {k: torch.randn(5, 4 if k == "input" else 3).to(dtype).requires_grad_() for k in ("input", *states)}


# Each query sees a key that is no padding.
HIDDEN = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 1], [0, 0, 0, 1], [1, 0, 0, 0]], dtype=torch.bool)
HIDDEN_OF_EACH = torch.tensor([[[(b + t + 2 * s) % 3 == 0 for s in range(5)] for t in range(4)] for b in range(4)])
ADDED = torch.linspace(-1.5, 2, 20).view(4, 5).masked_fill(torch.eye(4, 5, dtype=torch.bool), -torch.inf)


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
    "bag_last_offset": (lambda: nn.EmbeddingBag(7, 5, mode="mean", include_last_offset=True),
                        lambda dtype: BAGS | {"offsets": torch.cat([OFFSETS, torch.tensor([9], dtype=torch.int32)])}),
    "embedding_padded": (lambda: nn.Embedding(7, 5, padding_idx=3), lambda dtype: {"input": IDS.view(3, 3)}),
    "embedding_padded_last": (lambda: nn.Embedding(7, 5, padding_idx=-1), lambda dtype: {"input": IDS}),
    "rnn_cell": (lambda: nn.RNNCell(4, 3), step("hx")),
    "rnn_cell_relu": (lambda: nn.RNNCell(4, 3, bias=False, nonlinearity="relu"), step("hx")),
    "gru_cell": (lambda: nn.GRUCell(4, 3), step("hx")),
    "gru_cell_plain": (lambda: nn.GRUCell(4, 3, bias=False), step()),
    "lstm_cell": (lambda: LSTMStep(4, 3), step("h", "c")),
    "lstm_cell_plain": (lambda: LSTMStep(4, 3, bias=False), step()),
    "attention": (lambda: nn.MultiheadAttention(6, 3, batch_first=True), lambda d: sequences(d, padded=True)),
    "attention_plain": (lambda: nn.MultiheadAttention(6, 2, bias=False, batch_first=True), sequences),
    "attention_across": (lambda: nn.MultiheadAttention(6, 2, batch_first=True),
                         lambda d: sequences(d, keys=5, padded=True)),
    "attention_hidden": (lambda: nn.MultiheadAttention(6, 2, batch_first=True),
                         lambda d: sequences(d, padded=True, mask=HIDDEN)),
    "attention_added": (lambda: nn.MultiheadAttention(6, 3, batch_first=True),
                        lambda d: sequences(d, keys=5, padded=True, mask=ADDED)),
    "attention_of_each": (lambda: nn.MultiheadAttention(6, 2, bias=False, batch_first=True),
                          lambda d: sequences(d, keys=5, mask=HIDDEN_OF_EACH)),
    "attention_widths": (lambda: nn.MultiheadAttention(6, 2, kdim=4, vdim=3, batch_first=True),
                         lambda d: sequences(d, keys=5, padded=True, widths=(4, 3))),
    "attention_widths_plain": (lambda: nn.MultiheadAttention(6, 3, bias=False, vdim=5, batch_first=True),
                               lambda d: sequences(d, keys=5, widths=(6, 5))),
}


INITS = {
    "xavier_uniform": nn.init.xavier_uniform_, "xavier_uniform_gain": lambda t: nn.init.xavier_uniform_(t, 5 / 3),
    "xavier_normal": nn.init.xavier_normal_, "xavier_normal_gain": lambda t: nn.init.xavier_normal_(t, 5 / 3),
    "kaiming_uniform": nn.init.kaiming_uniform_, "kaiming_uniform_sqrt5": lambda t: nn.init.kaiming_uniform_(t, 5 ** 0.5),
    "kaiming_uniform_out": lambda t: nn.init.kaiming_uniform_(t, mode="fan_out", nonlinearity="tanh"),
    "kaiming_normal": nn.init.kaiming_normal_, "kaiming_normal_slope": lambda t: nn.init.kaiming_normal_(t, 0.2),
    "kaiming_normal_out": lambda t: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
    "orthogonal": nn.init.orthogonal_, "orthogonal_gain": lambda t: nn.init.orthogonal_(t, 2 ** 0.5),
    "trunc_normal": nn.init.trunc_normal_, "trunc_normal_002": lambda t: nn.init.trunc_normal_(t, 0.1, 0.02, 0.09, 0.2),
    "trunc_normal_tail": lambda t: nn.init.trunc_normal_(t, a=1, b=3), "trunc_normal_narrow": lambda t: nn.init.trunc_normal_(t, 1, 2, 0.5, 1.25),
}


def draws_of(dtype, label):
    """Three parameters of each initialiser, drawn one after the other."""
    facts = {}
    for name, draw in INITS.items():
        torch.manual_seed(123)
        for key, sizes in [("matrix", (5, 7)), ("filters", (4, 2, 3, 3)), ("tall", (9, 2))]:
            facts[f"{name}/{label}/{key}"] = draw(torch.empty(sizes, dtype=dtype))
    return facts


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
    for dtype, label in [(torch.float32, "f32"), (torch.float64, "f64")]:
        tensors |= draws_of(dtype, label)
    save_file(tensors, pathlib.Path(__file__).parent / "layers.safetensors")
