#!/usr/bin/env python3
"""Writes preferences.safetensors: pairs of answers as random tokens, and the losses and mean margins of ten steps of AdamW on
hf_llama/, by formulas written by hand, each sequence alone: DPO with a frozen copy, the same of means over tokens, ORPO, and DPO
on the adapters of hf_llama_lora/, of which the reference is the model without them.

usage: golden_preferences.py                (needs the Python packages torch, transformers, safetensors)
"""
import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

HERE = pathlib.Path(__file__).parent
BETA, STEPS = 0.3, 10


def make_pairs(vocab):
    """(prompt, chosen, rejected) of tokens: three share a row of 24 with others."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda n: torch.randint(0, vocab, (n,), generator=generator).tolist()
    return [(draw(p), draw(c), draw(r)) for p, c, r in [(3, 4, 2), (2, 1, 5), (4, 6, 6), (5, 3, 1), (1, 2, 2)]]


def log_probs(model, prompt, answer):
    """log p of each token of an answer."""
    logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1:-1]
    return F.log_softmax(logits, -1).gather(1, torch.tensor(answer)[:, None])[:, 0]


def dpo(model, reference, pairs, mean):
    reduce = torch.mean if mean else torch.sum
    margins = []
    for prompt, chosen, rejected in pairs:
        gained = []
        for answer in (chosen, rejected):
            with torch.no_grad():
                before = log_probs(reference, prompt, answer)
            gained.append(reduce(log_probs(model, prompt, answer) - before))
        margins.append(BETA * (gained[0] - gained[1]))
    margins = torch.stack(margins)
    return -F.logsigmoid(margins).mean(), margins.mean()


def orpo(model, pairs):
    losses, margins = [], []
    for prompt, chosen, rejected in pairs:
        c, r = (log_probs(model, prompt, answer).mean() for answer in (chosen, rejected))
        odds = (c - torch.log1p(-torch.exp(c))) - (r - torch.log1p(-torch.exp(r)))
        losses.append(-c - BETA * F.logsigmoid(odds))
        margins.append(BETA * (c - r))
    return torch.stack(losses).mean(), torch.stack(margins).mean()


def train(parameters, loss_of):
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    told = []
    for _ in range(STEPS):
        loss, margin = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        told.append([loss.item(), margin.item()])
    return torch.tensor(told)


class Lora(torch.nn.Module):
    """y = W x + scale B A x (Hu et al., 2021)."""

    def __init__(self, base, A, B, scale):
        super().__init__()
        self.base, self.scale = base, scale
        self.A, self.B = torch.nn.Parameter(A), torch.nn.Parameter(B)

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.A.T) @ self.B.T


def with_adapters(model):
    """The model with the golden adapters, and their parameters, which alone are trained."""
    model.requires_grad_(False)
    config = json.loads((HERE / "hf_llama_lora/adapter_config.json").read_text())
    tensors = load_file(HERE / "hf_llama_lora/adapter_model.safetensors")
    for name in sorted({key.rsplit(".lora_", 1)[0] for key in tensors}):
        path = name.removeprefix("base_model.model.")
        parent, leaf = path.rsplit(".", 1)
        owner = model.get_submodule(parent)
        A, B = (tensors[f"{name}.lora_{m}.weight"].clone() for m in "AB")
        setattr(owner, leaf, Lora(getattr(owner, leaf), A, B, config["lora_alpha"] / config["r"]))
    return [p for p in model.parameters() if p.requires_grad]


def main():
    fresh = lambda: LlamaForCausalLM.from_pretrained(HERE / "hf_llama", dtype=torch.float32).eval()
    reference = fresh().requires_grad_(False)
    pairs = make_pairs(reference.config.vocab_size)
    out = {}
    for name, mean in (("dpo", False), ("dpo_norm", True)):
        model = fresh()
        out[name] = train(list(model.parameters()), lambda: dpo(model, reference, pairs, mean))
    model = fresh()
    out["orpo"] = train(list(model.parameters()), lambda: orpo(model, pairs))
    model = fresh()
    adapters = with_adapters(model)
    out["dpo_lora"] = train(adapters, lambda: dpo(model, reference, pairs, False))
    flat = [token for pair in pairs for part in pair for token in part]
    out["tokens"] = torch.tensor(flat, dtype=torch.int32)
    out["lengths"] = torch.tensor([[len(part) for part in pair] for pair in pairs], dtype=torch.int32)
    save_file(out, HERE / "preferences.safetensors")
    (HERE / "preferences.safetensors").chmod(0o644)


main()
