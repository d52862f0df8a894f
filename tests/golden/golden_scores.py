#!/usr/bin/env python3
"""Writes scores.safetensors: what PyTorch and transformers compute where attention slides over a window, documents stand side by
side in a row, and scores or logits are capped. `op/<case>/` has inputs, `out`, `dout` and the inputs' gradients in f64; `model/<case>` has the logits of the first row of
input_ids of a model of hf_*/ after its config was changed as CHANGES says.

usage: golden_scores.py                  (needs the Python packages torch, transformers, safetensors)
"""
import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

HERE = pathlib.Path(__file__).parent
DOCUMENTS = [(3, 1, 21, 15), (40,)]  # their lengths in each row
LINEAR = {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.5}
CHANGES = {
    "mistral": ("hf_llama", MistralConfig, MistralForCausalLM, {"model_type": "mistral", "sliding_window": 5}),
    "linear": ("hf_llama", MistralConfig, MistralForCausalLM,
               {"model_type": "mistral", "sliding_window": None, "rope_parameters": LINEAR}),
    "qwen2": ("hf_qwen2", Qwen2Config, Qwen2ForCausalLM,
              {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1, "layer_types": None}),
    "qwen2_types": ("hf_qwen2", Qwen2Config, Qwen2ForCausalLM,
                    {"use_sliding_window": True, "sliding_window": 4,
                     "layer_types": ["sliding_attention", "full_attention"]}),
}


def heads(x, size):
    return x.unflatten(2, (-1, size)).transpose(1, 2)


def band(T, window):
    """True where a query sees a key."""
    distance = torch.arange(T).unsqueeze(1) - torch.arange(T)
    return (distance >= 0) & (distance < window)


def masked(q, k, v, mask, scale=0.9):
    """Two heads of queries share one of keys."""
    parts = [heads(x, 4) for x in (q, k, v)]
    y = F.scaled_dot_product_attention(*parts, attn_mask=mask, scale=scale, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def windowed(q, k, v):
    return masked(q, k, v, band(q.shape[1], 7))


def of_documents(q, k, v, window):
    """Blocks on the diagonal: a query sees the keys of its document."""
    T = q.shape[1]
    blocks = [torch.block_diag(*(torch.ones(n, n) for n in lengths)).bool() for lengths in DOCUMENTS]
    return masked(q, k, v, (torch.stack(blocks) & band(T, window)).unsqueeze(1))


def capped(q, k, v, window, cap=1.5, scale=0.9):
    """As Gemma 2: cap·tanh(score / cap), then the mask."""
    q, k, v = heads(q, 4), heads(k, 4).repeat_interleave(2, 1), heads(v, 4).repeat_interleave(2, 1)
    scores = cap * torch.tanh(q @ k.transpose(2, 3) * scale / cap)
    weights = scores.masked_fill(~band(q.shape[2], window), -torch.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)


def capped_loss(x, weight, cap=2.0):
    return F.cross_entropy(cap * torch.tanh(F.linear(x, weight) / cap), torch.tensor([4, 0, 2, 2, 1, 3]))


def op_tensors():
    torch.manual_seed(3)
    qkv = [(1, 40, 8), (1, 40, 4), (1, 40, 4)]
    two_rows = [(2, *shape[1:]) for shape in qkv]
    cases = {"window": (windowed, qkv), "cap": (lambda q, k, v: capped(q, k, v, q.shape[1]), qkv),
             "window_cap": (lambda q, k, v: capped(q, k, v, 11), qkv), "loss": (capped_loss, [(6, 3), (5, 3)]),
             "documents": (lambda q, k, v: of_documents(q, k, v, q.shape[1]), two_rows),
             "documents_window": (lambda q, k, v: of_documents(q, k, v, 9), two_rows)}
    tensors = {}
    for name, (f, shapes) in cases.items():
        inputs = [torch.randn(shape, dtype=torch.float64).mul(2).requires_grad_() for shape in shapes]
        out = f(*inputs)
        dout = torch.randn_like(out)
        out.backward(dout)
        tensors |= {f"op/{name}/out": out.detach(), f"op/{name}/dout": dout}
        for i, x in enumerate(inputs):
            tensors |= {f"op/{name}/in{i}": x.detach(), f"op/{name}/grad{i}": x.grad}
    return tensors


def model_tensors():
    tensors = {}
    for name, (folder, config_class, model_class, changes) in CHANGES.items():
        config = json.loads((HERE / folder / "config.json").read_text()) | changes
        config = {key: value for key, value in config.items() if key != "architectures"}
        model = model_class.from_pretrained(HERE / folder, config=config_class.from_dict(config), dtype=torch.float32).eval()
        ids = load_file(HERE / folder / "expected.safetensors")["input_ids"].long()
        with torch.no_grad():
            tensors[f"model/{name}"] = model(ids[:1]).logits.clone()
    return tensors


def main():
    tensors = {name: t.contiguous() for name, t in (op_tensors() | model_tensors()).items()}
    save_file(tensors, HERE / "scores.safetensors")
    (HERE / "scores.safetensors").chmod(0o644)


main()
