"""Recurrent networks in PyTorch: state_dicts as initialised, outputs, last states and gradients.

usage: python3 tests/golden/golden_recurrent.py, with PyTorch, numpy and safetensors
"""

import pathlib

import torch
import torch.nn as nn
from safetensors.torch import save_file

# name → (module, its arguments); the tests make the same.
NETS = {
    "rnn": (nn.RNN, dict(input_size=3, hidden_size=5, num_layers=2)),
    "rnn_relu": (nn.RNN, dict(input_size=3, hidden_size=5, nonlinearity="relu", batch_first=True)),
    "gru": (nn.GRU, dict(input_size=3, hidden_size=5, num_layers=2)),
    "gru_plain": (nn.GRU, dict(input_size=4, hidden_size=3, bias=False, batch_first=True)),
    "lstm": (nn.LSTM, dict(input_size=3, hidden_size=5, num_layers=3)),
    "lstm_plain": (nn.LSTM, dict(input_size=4, hidden_size=3, bias=False, batch_first=True)),
    "rnn_both": (nn.RNN, dict(input_size=3, hidden_size=5, num_layers=2, bidirectional=True)),
    "gru_both": (nn.GRU, dict(input_size=3, hidden_size=5, batch_first=True, bidirectional=True)),
    "lstm_both": (nn.LSTM, dict(input_size=3, hidden_size=5, num_layers=2, dropout=0.4, bidirectional=True)),
    "lstm_dropout": (nn.LSTM, dict(input_size=3, hidden_size=5, num_layers=3, dropout=0.4)),
}


def facts_of(name, dtype, label):
    """Two calls, of which the second goes on with the state of the first; the gradients are those of both."""
    make, options = NETS[name]
    torch.manual_seed(123)
    net = make(**options).to(dtype)
    torch.manual_seed(5)
    facts = {f"param/{key}": t.clone() for key, t in net.state_dict().items()}
    x = torch.randn(2, 4, 6, options["input_size"]).to(dtype).requires_grad_()
    directions = 2 if options.get("bidirectional") else 1
    hidden = torch.randn(2, options.get("num_layers", 1) * directions, 4 if options.get("batch_first") else 6,
                         options["hidden_size"]).to(dtype).requires_grad_()
    state = tuple(hidden) if make is nn.LSTM else hidden[0]
    torch.manual_seed(7)
    y1, state = net(x[0], state)
    y2, state = net(x[1], state)
    last = torch.stack(state) if make is nn.LSTM else state[None]
    loss = (y1 ** 2).sum() + y2.sin().sum() + (last ** 3).sum()
    loss.backward()
    facts |= {"x": x.detach(), "hidden": hidden.detach(), "y1": y1.detach(), "y2": y2.detach(),
              "last": last.detach(), "grad_x": x.grad, "grad_hidden": hidden.grad}
    facts |= {f"grad/{key}": p.grad for key, p in net.named_parameters()}
    if dtype == torch.float32:
        facts["from_zero"] = net.eval()(x[0])[0].detach()
    return {f"{name}/{label}/{key}": t.contiguous().clone() for key, t in facts.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors = {}
    for name in NETS:
        for dtype, label in [(torch.float32, "f32"), (torch.float64, "f64")]:
            tensors |= facts_of(name, dtype, label)
    save_file(tensors, pathlib.Path(__file__).parent / "recurrent.safetensors")
