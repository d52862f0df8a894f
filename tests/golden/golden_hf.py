#!/usr/bin/env python3
"""Writes hf_gpt2/, hf_llama/, hf_qwen2/ and hf_qwen3/: tiny models in Hugging Face's layout, and expected.safetensors with what
transformers 5.12 computes with each: logits, a greedy text, and the losses of ten steps of fine-tuning. The tokenizer is that of
tokenizers.json; hf_llama has scaled rotary positions, a head size of its own and a head that is not tied.

usage: golden_hf.py                  (needs the Python packages torch, transformers, safetensors)
"""
import json
import math
import pathlib

import torch
from safetensors.torch import save_file
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

HERE = pathlib.Path(__file__).parent
VOCABULARY = 404  # more rows than the tokenizer has tokens


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


def fine_tuning(model, ids):
    """The losses before each of ten steps of nanoGPT's: AdamW that decays matrices alone, and a norm of at most 1."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    optimizer, losses = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8), []
    for _ in range(10):
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return torch.tensor(losses)


def write(name, model, width):
    out, model = HERE / name, model.eval()
    with torch.no_grad():
        for p in model.parameters():  # large, so that each part of the forward shows
            p.copy_(torch.randn_like(p) * 0.4 + (1 if p.dim() == 1 and p.shape[0] == width else 0))
    ids = torch.randint(0, 400, (2, 12))
    with torch.no_grad():
        result = model(input_ids=ids, labels=ids)
    prompt, more = ids[0, :4].tolist(), []
    for _ in range(12):
        with torch.no_grad():
            more.append(int(model(torch.tensor([prompt + more])).logits[0, -1].argmax()))
    out.mkdir(exist_ok=True)
    if name == "hf_gpt2":
        long_ids = torch.randint(0, 400, (1, 100))
        (out / "perplexity.json").write_text(json.dumps(
            {"ids": long_ids[0].tolist(), "cases": [perplexity(model, long_ids, stride) for stride in (1, 7, 12, 24)]}) + "\n")
    model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    (out / "tokenizer.json").write_text(json.loads((HERE / "tokenizers.json").read_text())["gpt2"]["file"] + "\n")
    logits, loss = result.logits.clone(), result.loss.reshape(()).clone()
    save_file({"input_ids": ids.to(torch.int32), "logits": logits, "loss": loss,
               "prompt": torch.tensor(prompt, dtype=torch.int32), "greedy": torch.tensor(more, dtype=torch.int32),
               "fine_tuning": fine_tuning(model, ids)}, out / "expected.safetensors")
    for file in out.glob("*.safetensors"):
        file.chmod(0o644)


def main():
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=24, n_embd=16, n_layer=2, n_head=2, n_inner=40, bos_token_id=0,
                        eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    config.n_ctx = config.n_positions
    write("hf_gpt2", GPT2LMHeadModel(config), 16)
    shape = {"vocab_size": VOCABULARY, "max_position_embeddings": 24, "hidden_size": 16, "intermediate_size": 40,
             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 0, "eos_token_id": 0}
    write("hf_llama", LlamaForCausalLM(LlamaConfig(
        **shape, head_dim=6, tie_word_embeddings=False, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 4.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 16})), 16)
    write("hf_qwen2", Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=True)), 16)
    write("hf_qwen3", Qwen3ForCausalLM(Qwen3Config(**shape, head_dim=4, tie_word_embeddings=True)), 16)


if __name__ == "__main__":
    main()
