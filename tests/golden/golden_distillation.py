#!/usr/bin/env python3
"""Writes distillation.safetensors: the losses of ten steps of AdamW on hf_llama/, which learns tokens beside a teacher, the
model of hf_qwen3/: the mean of 0.4 × cross entropy + 0.6 × T² × KL at the temperature T = 3 (Hinton et al., 2015, section 2), of
those targets that count.

usage: golden_distillation.py                (needs the Python packages torch, transformers, safetensors)
"""
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
WEIGHT, TEMPERATURE, STEPS = 0.6, 3.0, 10


def main():
    model, teacher = (AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32).eval()
                      for name in ("hf_llama", "hf_qwen3"))
    ids = load_file(HERE / "hf_llama/expected.safetensors")["input_ids"].long()
    generator = torch.Generator().manual_seed(6)
    targets = ids[:, 1:].clone()
    targets[torch.rand(targets.shape, generator=generator) < 0.3] = -100
    counted = targets.flatten() != -100
    with torch.no_grad():
        q = F.log_softmax(teacher(ids[:, :-1]).logits.flatten(0, 1)[counted] / TEMPERATURE, -1)
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(STEPS):
        logits = model(ids[:, :-1]).logits.flatten(0, 1)[counted]
        kl = F.kl_div(F.log_softmax(logits / TEMPERATURE, -1), q, reduction="batchmean", log_target=True)
        loss = (1 - WEIGHT) * F.cross_entropy(logits, targets.flatten()[counted]) + WEIGHT * TEMPERATURE**2 * kl
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    save_file({"inputs": ids[:, :-1].int().contiguous(), "targets": targets.int(),
               "losses": torch.tensor(losses)}, HERE / "distillation.safetensors")
    (HERE / "distillation.safetensors").chmod(0o644)


main()
