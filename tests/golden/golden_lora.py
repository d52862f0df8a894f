#!/usr/bin/env python3
"""Writes hf_llama_lora/: LoRA adapters for hf_llama/ as PEFT keeps them, and expected.safetensors with what PyTorch computes
with them on that model, the formula written by hand: logits, and the losses of ten steps of AdamW on the adapters alone.

usage: golden_lora.py                (needs the Python packages torch, transformers, safetensors; not peft)
"""
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

HERE = pathlib.Path(__file__).parent
OUT, RANK, ALPHA = HERE / "hf_llama_lora", 3, 4
MODULES = ["mlp.down_proj", "self_attn.k_proj", "self_attn.q_proj"]


class Lora(torch.nn.Module):
    """y = W x + alpha / rank B A x (Hu et al., 2021)."""

    def __init__(self, base, name):
        super().__init__()
        self.base, self.name = base, name
        self.A = torch.nn.Parameter(torch.randn(RANK, base.in_features) * 0.3)
        self.B = torch.nn.Parameter(torch.randn(base.out_features, RANK) * 0.3)

    def forward(self, x):
        return self.base(x) + ALPHA / RANK * (x @ self.A.T) @ self.B.T


def main():
    torch.manual_seed(2)
    model = LlamaForCausalLM.from_pretrained(HERE / "hf_llama").eval().requires_grad_(False)
    adapters = []
    for i, layer in enumerate(model.model.layers):
        for module in MODULES:
            parent, leaf = module.split(".")
            adapter = Lora(getattr(getattr(layer, parent), leaf), f"base_model.model.model.layers.{i}.{module}")
            setattr(getattr(layer, parent), leaf, adapter)
            adapters.append(adapter)
    OUT.mkdir(exist_ok=True)
    save_file({f"{a.name}.lora_{m}.weight": getattr(a, m).detach().clone() for a in adapters for m in "AB"},
              OUT / "adapter_model.safetensors")
    (OUT / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "hf_llama", "r": RANK,
         "lora_alpha": ALPHA, "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": False, "target_modules": MODULES,
         "modules_to_save": None, "rank_pattern": {}, "alpha_pattern": {}, "use_rslora": False, "use_dora": False,
         "inference_mode": True}, indent=2) + "\n")
    ids = load_file(HERE / "hf_llama" / "expected.safetensors")["input_ids"].long()
    with torch.no_grad():
        logits = model(ids).logits.clone()
    parameters = [p for a in adapters for p in (a.A, a.B)]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for _ in range(10):
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    save_file({"logits": logits, "losses": torch.tensor(losses)}, OUT / "expected.safetensors")
    for file in OUT.glob("*.safetensors"):
        file.chmod(0o644)


main()
