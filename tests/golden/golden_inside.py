#!/usr/bin/env python3
"""Writes inside.safetensors into hf_gpt2/, hf_llama/, hf_qwen2/ and hf_qwen3/: what transformers 5.12 computes inside of these
models on the ids of expected.safetensors: the states between blocks, the attention of each block, and the gradient of the loss
with respect to each token's embedding.

usage: golden_inside.py              (needs the Python packages torch, transformers, safetensors, and golden_hf.py's files)
"""
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent


def write(name):
    model = AutoModelForCausalLM.from_pretrained(HERE / name, attn_implementation="eager", dtype=torch.float32).eval()
    ids = load_file(HERE / name / "expected.safetensors")["input_ids"].long()
    embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()
    result = model(inputs_embeds=embeddings, labels=ids, output_attentions=True, output_hidden_states=True)
    result.loss.backward()
    out = HERE / name / "inside.safetensors"
    # Their last state has gone through the final norm.
    save_file({"states": torch.stack(result.hidden_states).detach(), "attention": torch.stack(result.attentions).detach(),
               "input_gradient": embeddings.grad}, out)
    out.chmod(0o644)


for model_name in ("hf_gpt2", "hf_llama", "hf_qwen2", "hf_qwen3"):
    write(model_name)
