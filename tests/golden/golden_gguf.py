#!/usr/bin/env python3
"""Writes gguf_gpt2.gguf, the model of hf_gpt2/ in f32, and gguf_llama.gguf with gguf_llama.safetensors: a tiny Llama whose
weights are Q8_0, F16, BF16 and F32, and what transformers computes with these weights. The files are written by llama.cpp's own
Python package gguf, the tokenizers are those of tokenizers.json.

usage: golden_gguf.py                (needs the Python packages torch, transformers, safetensors, gguf)
"""
import json
import pathlib

import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent
TOKENIZERS = json.loads((HERE / "tokenizers.json").read_text())


def add_tokenizer(writer, name, pre, rows):
    file = json.loads(TOKENIZERS[name]["file"])
    tokens, types = [f"[PAD{i}]" for i in range(rows)], [5] * rows
    for token, i in file["model"]["vocab"].items():
        tokens[i], types[i] = token, 1
    for added in file["added_tokens"]:
        tokens[added["id"]], types[added["id"]] = added["content"], 3 if added["special"] else 4
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in file["model"]["merges"]])
    ends = [a["id"] for a in file["added_tokens"] if a["content"] in ("<|endoftext|>", "<|end_of_text|>")]
    begins = [a["id"] for a in file["added_tokens"] if a["content"] == "<|begin_of_text|>"]
    writer.add_eos_token_id(ends[0])
    writer.add_bos_token_id((begins or ends)[0])


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_sizes(writer, positions, width, layers, inner, heads):
    writer.add_context_length(positions)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)


def gpt2():
    weights = {name.removeprefix("transformer."): t.numpy() for name, t in load_file(HERE / "hf_gpt2/model.safetensors").items()}
    writer = GGUFWriter(str(HERE / "gguf_gpt2.gguf"), "gpt2")
    add_sizes(writer, 24, 16, 2, 40, 2)
    writer.add_layer_norm_eps(1e-5)
    add_tokenizer(writer, "gpt2", "gpt-2", weights["wte.weight"].shape[0])
    names = {"wte.": "token_embd.", "wpe.": "position_embd.", "ln_f.": "output_norm.", "ln_1.": "attn_norm.", "ln_2.": "ffn_norm.",
             "attn.c_attn.": "attn_qkv.", "attn.c_proj.": "attn_output.", "mlp.c_fc.": "ffn_up.", "mlp.c_proj.": "ffn_down."}
    for name, w in weights.items():
        if name == "lm_head.weight":
            continue
        theirs = name.replace("h.", "blk.", 1) if name.startswith("h.") else name
        for ours, new in names.items():
            theirs = theirs.replace(ours, new)
        if ".attn.c_" in name and name.endswith("weight") or ".mlp.c_" in name and name.endswith("weight"):
            w = np.ascontiguousarray(w.T)
        writer.add_tensor(theirs, w)
    finish(writer)


def llama():
    torch.manual_seed(1)
    rows = 404
    config = LlamaConfig(vocab_size=rows, max_position_embeddings=24, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=False,
                         rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    model = LlamaForCausalLM(config).eval()
    writer = GGUFWriter(str(HERE / "gguf_llama.gguf"), "llama")
    add_sizes(writer, 24, 32, 2, 64, 4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_dimension_count(8)
    add_tokenizer(writer, "llama3", "llama-bpe", rows)
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    for i in range(2):
        ours, theirs = f"model.layers.{i}.", f"blk.{i}."
        names |= {ours + "input_layernorm": theirs + "attn_norm", ours + "post_attention_layernorm": theirs + "ffn_norm",
                  ours + "self_attn.q_proj": theirs + "attn_q", ours + "self_attn.k_proj": theirs + "attn_k",
                  ours + "self_attn.v_proj": theirs + "attn_v", ours + "self_attn.o_proj": theirs + "attn_output",
                  ours + "mlp.gate_proj": theirs + "ffn_gate", ours + "mlp.up_proj": theirs + "ffn_up",
                  ours + "mlp.down_proj": theirs + "ffn_down"}
    kinds = {"attn_q": Type.F16, "attn_k": Type.BF16, "attn_v": Type.Q8_0, "attn_output": Type.F32, "ffn_gate": Type.BF16,
             "ffn_up": Type.F16, "ffn_down": Type.Q8_0, "token_embd": Type.Q8_0, "output": Type.Q8_0}
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.3 + (1 if p.dim() == 1 else 0))
            theirs = names[name.removesuffix(".weight")]
            kind = kinds[theirs.split(".")[-1]] if p.dim() == 2 else Type.F32
            stored = quantize(p.numpy(), kind)
            p.copy_(torch.from_numpy(np.array(dequantize(stored, kind), np.float32)))
            if theirs.endswith(("attn_q", "attn_k")):  # as llama.cpp's converter exchanges rows
                heads = 4 if theirs.endswith("attn_q") else 2
                stored = stored.reshape(heads, 2, 4, *stored.shape[1:]).swapaxes(1, 2).reshape(stored.shape)
            writer.add_tensor(theirs + ".weight", np.ascontiguousarray(stored), raw_dtype=kind)
        ids = torch.randint(0, 400, (2, 12))
        prompt, more = ids[0, :4].tolist(), []
        for _ in range(12):
            more.append(int(model(torch.tensor([prompt + more])).logits[0, -1].argmax()))
        save_file({"input_ids": ids.to(torch.int32), "logits": model(ids).logits.clone(),
                   "prompt": torch.tensor(prompt, dtype=torch.int32), "greedy": torch.tensor(more, dtype=torch.int32)},
                  HERE / "gguf_llama.safetensors")
    (HERE / "gguf_llama.safetensors").chmod(0o644)
    finish(writer)


gpt2()
llama()
