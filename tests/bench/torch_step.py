"""The step that `bench step` times, in PyTorch: fused attention, fused AdamW.

usage: torch_step.py CONFIG [--steps N] [--dtype f32|bf16]
"""

import argparse
import resource
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

#                 layers, heads, channels, tokens, block, B, T, dropout, biases
CONFIGURATIONS = {
    "gpt2-b4t64": (12, 12, 768, 50257, 1024, 4, 64, 0.0, True),
    "gpt2-b4t256": (12, 12, 768, 50257, 1024, 4, 256, 0.0, True),
    "gpt2-b1t1024": (12, 12, 768, 50257, 1024, 1, 1024, 0.0, True),
    "char": (6, 6, 384, 65, 256, 64, 256, 0.0, False),
    "char-dropout": (6, 6, 384, 65, 256, 64, 256, 0.2, False),
    "char-cpu": (4, 4, 128, 65, 64, 12, 64, 0.0, False),
}


class Block(nn.Module):
    def __init__(self, channels, heads, dropout, bias):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.ln_1 = nn.LayerNorm(channels, bias=bias)
        self.c_attn = nn.Linear(channels, 3 * channels, bias=bias)
        self.c_proj = nn.Linear(channels, channels, bias=bias)
        self.ln_2 = nn.LayerNorm(channels, bias=bias)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels, bias=bias), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * channels, channels, bias=bias), nn.Dropout(dropout))

    def attend(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0)
        return F.dropout(self.c_proj(y.transpose(1, 2).flatten(2)), self.p, self.training)

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, layers, heads, channels, tokens, block, dropout, bias):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, channels), nn.Embedding(block, channels)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(channels, heads, dropout, bias) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(channels, bias=bias)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.drop(self.wte(ids) + self.wpe.weight[: ids.shape[1]])
        logits = F.linear(self.ln_f(self.blocks(x)), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configuration", choices=CONFIGURATIONS)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    args = parser.parse_args()
    layers, heads, channels, tokens, block, B, T, dropout, bias = CONFIGURATIONS[args.configuration]
    torch.manual_seed(1337)
    model = GPT(layers, heads, channels, tokens, block, dropout, bias)
    adamw = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids, targets = torch.randint(0, tokens, (2, B, T))
    seconds = []
    for _ in range(args.steps + 2):
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = model(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    step = statistics.median(seconds[2:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"PyTorch {torch.__version__} {args.configuration} {args.dtype}: {step * 1e3:.1f} ms/step "
          f"{B * T / step:.0f} tok/s peak {peak} MB")


main()
