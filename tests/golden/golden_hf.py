#!/usr/bin/env python3
"""Writes hf_gpt2/: a tiny GPT-2 in Hugging Face's layout, with the tokenizer of tokenizers.json, and
expected.safetensors with what transformers 5.12 computes with it.

usage: golden_hf.py                  (needs the Python packages torch, transformers, safetensors)
"""
import json
import math
import pathlib

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).parent
OUT = HERE / "hf_gpt2"


def perplexity(model, ids, stride):
    """transformers' recipe, "Perplexity of fixed-length models", whose windows are as long as the model allows. It gives each
    window's mean loss the weight of its targets less one, which is right for the first window alone: `mean` counts what
    each window's mean is over, `recipe` is what the recipe says."""
    most, previous, total, count, recipe, recipe_count = model.config.n_positions, 0, 0.0, 0, 0.0, 0
    for begin in range(0, ids.shape[1], stride):
        end = min(begin + most, ids.shape[1])
        window = ids[:, begin:end]
        targets = window.clone()
        targets[:, : -(end - previous)] = -100
        with torch.no_grad():
            loss = model(window, labels=targets).loss.item()
        valid = int((targets[:, 1:] != -100).sum())
        if valid:
            total, count = total + loss * valid, count + valid
        weight = int((targets != -100).sum()) - 1
        if weight:
            recipe, recipe_count = recipe + loss * weight, recipe_count + weight
        previous = end
        if end == ids.shape[1]:
            break
    return {"stride": stride, "tokens": count, "mean": total / count, "recipe": math.exp(recipe / recipe_count)}


def main():
    tokenizer = json.loads((HERE / "tokenizers.json").read_text())["gpt2"]
    vocab_size = 404  # more rows than tokens
    config = GPT2Config(vocab_size=vocab_size, n_positions=24, n_embd=16, n_layer=2, n_head=2, n_inner=40,
                        bos_token_id=0, eos_token_id=0)
    config.n_ctx = config.n_positions
    torch.manual_seed(1)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():  # large, so that each part of the forward shows
            p.copy_(torch.randn_like(p) * 0.4 + (1 if p.dim() == 1 and p.shape[0] == 16 else 0))
    ids = torch.randint(0, 400, (2, 12))
    with torch.no_grad():
        out = model(input_ids=ids, labels=ids)
    prompt, more = ids[0, :4].tolist(), []
    for _ in range(12):
        with torch.no_grad():
            more.append(int(model(torch.tensor([prompt + more])).logits[0, -1].argmax()))
    OUT.mkdir(exist_ok=True)
    long_ids = torch.randint(0, 400, (1, 100))
    (OUT / "perplexity.json").write_text(json.dumps(
        {"ids": long_ids[0].tolist(), "cases": [perplexity(model, long_ids, stride) for stride in (1, 7, 12, 24)]}) + "\n")
    model.save_pretrained(OUT)
    (OUT / "generation_config.json").unlink(missing_ok=True)
    (OUT / "tokenizer.json").write_text(tokenizer["file"] + "\n")
    save_file({"input_ids": ids.to(torch.int32), "logits": out.logits, "loss": out.loss.reshape(()),
               "prompt": torch.tensor(prompt, dtype=torch.int32), "greedy": torch.tensor(more, dtype=torch.int32)},
              OUT / "expected.safetensors")
    for file in OUT.glob("*.safetensors"):
        file.chmod(0o644)


main()
