#!/usr/bin/env python3
"""Writes nanogpt/: three tiny checkpoints as nanoGPT's train.py saves them, a vocabulary of characters in all protocols of pickle
that a file may have, and expected.safetensors with the logits that PyTorch computes.
  ckpt.pt    compiled (names with _orig_mod.), with biases and with the state of an optimizer that has made a step
  old.pt     f16, from before model_args had "bias": GELU by tanh
  plain.pt   without biases, f16, with the causal masks of old files, and some weights that are not contiguous

usage: golden_nanogpt.py             (needs the Python packages torch, safetensors)
"""
import math
import pathlib
import pickle

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent / "nanogpt"
TEXT = "Ein Fuß, zwei Füße; 3 日本語.\n"
L, H, C, T = 2, 2, 8, 12


def new_weights(vocabulary, bias):
    w = {"transformer.wte.weight": torch.randn(vocabulary, C), "transformer.wpe.weight": torch.randn(T, C)}
    norms = {"transformer.ln_f": C}
    for i in range(L):
        block = f"transformer.h.{i}"
        norms |= {f"{block}.ln_1": C, f"{block}.ln_2": C}
        for name, rows, columns in [("attn.c_attn", 3 * C, C), ("attn.c_proj", C, C), ("mlp.c_fc", 4 * C, C), ("mlp.c_proj", C, 4 * C)]:
            w[f"{block}.{name}.weight"] = torch.randn(rows, columns) / 2
            if bias:
                w[f"{block}.{name}.bias"] = torch.randn(rows) / 2
    for name, size in norms.items():
        w[name + ".weight"] = 1 + torch.randn(size) / 4
        if bias:
            w[name + ".bias"] = torch.randn(size) / 4
    w["lm_head.weight"] = w["transformer.wte.weight"]
    return w


def logits(w, ids, gelu="none"):
    """GPT-2, with the exact GELU unless told, which is nanoGPT's."""
    def norm(x, name):
        return F.layer_norm(x, (C,), w[name + ".weight"], w.get(name + ".bias"), 1e-5)

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:ids.shape[1]]
    for i in range(L):
        block = f"transformer.h.{i}"
        heads = linear(norm(x, block + ".ln_1"), block + ".attn.c_attn").split(C, dim=2)
        q, k, v = (t.view(*t.shape[:2], H, C // H).transpose(1, 2) for t in heads)
        scores = q @ k.transpose(2, 3) / math.sqrt(C // H)
        mask = torch.ones(ids.shape[1], ids.shape[1]).tril() == 0
        y = scores.masked_fill(mask, -math.inf).softmax(-1) @ v
        x = x + linear(y.transpose(1, 2).flatten(2), block + ".attn.c_proj")
        x = x + linear(F.gelu(linear(norm(x, block + ".ln_2"), block + ".mlp.c_fc"), approximate=gelu), block + ".mlp.c_proj")
    return F.linear(norm(x, "transformer.ln_f"), w["lm_head.weight"])


def checkpoint(weights, vocabulary, bias, optimizer):
    return {"model": weights, "optimizer": optimizer,
            "model_args": dict(n_layer=L, n_head=H, n_embd=C, block_size=T, bias=bias, vocab_size=vocabulary, dropout=0.1),
            "iter_num": 70000, "best_val_loss": torch.tensor(1.4697),
            "config": dict(out_dir="out-tiny", dataset="tiny_char", learning_rate=1e-3, decay_lr=True, init_from="scratch", seed=2**40)}


def main():
    torch.manual_seed(7)
    HERE.mkdir(exist_ok=True)
    characters = sorted(set(TEXT))
    itos = dict(enumerate(characters))
    meta = {"vocab_size": len(characters), "itos": itos, "stoi": {c: i for i, c in itos.items()}}
    for protocol in (2, 3, 4, 5):
        (HERE / f"meta_{protocol}.pkl").write_bytes(pickle.dumps(meta, protocol))
    ids = torch.randint(len(characters), (2, T))

    compiled = new_weights(len(characters), True)
    leaves = [t.requires_grad_() for name, t in compiled.items() if name != "lm_head.weight"]
    optimizer = torch.optim.AdamW(leaves, lr=1e-3, betas=(0.9, 0.99))
    F.cross_entropy(logits(compiled, ids).flatten(0, 1), ids.flatten()).backward()
    optimizer.step()
    compiled = {name: t.detach() for name, t in compiled.items()}
    state = torch.nn.Module().state_dict()  # an OrderedDict with _metadata, as that of every model
    state.update({"_orig_mod." + name: t for name, t in compiled.items()})
    torch.save(checkpoint(state, len(characters), True, optimizer.state_dict()), HERE / "ckpt.pt")

    plain = {name: t.half() for name, t in new_weights(len(characters) + 5, False).items()}
    plain["lm_head.weight"] = plain["transformer.wte.weight"]
    whole = torch.zeros(5, 2 * C, C).half()
    whole[2, C:] = plain["transformer.h.0.attn.c_proj.weight"].t()
    plain["transformer.h.0.attn.c_proj.weight"] = whole[2, C:].t()  # an offset, and strides the wrong way round
    masks = {f"transformer.h.{i}.attn.bias": torch.ones(T, T).tril().view(1, 1, T, T) for i in range(L)}
    torch.save(checkpoint(plain | masks, len(characters) + 5, False, {}), HERE / "plain.pt")

    old = {name: t.half() for name, t in new_weights(len(characters), True).items()}
    old["lm_head.weight"] = old["transformer.wte.weight"]
    saved = checkpoint(old, len(characters), True, {})
    del saved["model_args"]["bias"]
    torch.save(saved, HERE / "old.pt")

    save_file({"input_ids": ids.int(), "ckpt": logits(compiled, ids),
               "plain": logits({name: t.float() for name, t in plain.items()}, ids),
               "old": logits({name: t.float() for name, t in old.items()}, ids, "tanh")}, HERE / "expected.safetensors")


main()
