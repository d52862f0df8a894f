"""The models of the tests in PyTorch: a small GPT, GPT-2 124M as the tutorials build it, the residual experiment."""

import math
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F


def fingerprint(tensor):
    """The first numbers, the sum in float64, and the CRC-32 of the bytes (little-endian, row-major)."""
    t = tensor.detach().contiguous()
    return {"shape": list(t.shape), "head": t.flatten()[:5].tolist(), "sum": t.double().sum().item(),
            "crc32": zlib.crc32(t.numpy().tobytes())}


def fingerprints(module):
    return {name: fingerprint(p) for name, p in module.named_parameters()}


class Attention(nn.Module):
    def __init__(self, n_embd, n_head, bias):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class MLP(nn.Module):
    def __init__(self, n_embd, bias, gelu):
        super().__init__()
        self.gelu = gelu
        self.c_fc = nn.Linear(n_embd, 4 * n_embd, bias=bias)
        self.c_proj = nn.Linear(4 * n_embd, n_embd, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate=self.gelu))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, bias, gelu):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd, bias=bias)
        self.attn = Attention(n_embd, n_head, bias)
        self.ln_2 = nn.LayerNorm(n_embd, bias=bias)
        self.mlp = MLP(n_embd, bias, gelu)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Constructed, tied and initialised in the order of nanoGPT, which decides what each weight draws."""

    def __init__(self, vocab_size, block_size, n_layer, n_head, n_embd, bias, tied, gelu):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block(n_embd, n_head, bias, gelu) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd, bias=bias)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        if tied:
            self.wte.weight = self.lm_head.weight
        self.apply(self.init)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * n_layer))

    @staticmethod
    def init(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


GPT_CONFIGS = {
    "tied": dict(vocab_size=17, block_size=8, n_layer=2, n_head=2, n_embd=16, bias=True, tied=True, gelu="tanh"),
    "untied": dict(vocab_size=17, block_size=8, n_layer=2, n_head=2, n_embd=16, bias=False, tied=False, gelu="none"),
}
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY = 0.1
GRAD_CLIP = {"tied": 1.0, "untied": 3.0}  # the first always clips here, the second only at first


def make_optimizer(model):
    params = list(model.parameters())
    return torch.optim.AdamW([{"params": [p for p in params if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
                              {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}], **ADAMW)


def train_step(model, optimizer, idx, targets, grad_clip):
    _, loss = model(idx, targets)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    return loss.item(), norm.item()


def gpt_training():
    """Ten AdamW steps on one batch, from weights far from their usual start, so that every path counts."""
    tensors, facts = {}, {}
    for name, config in GPT_CONFIGS.items():
        facts[name] = {"config": config, "weight_decay": WEIGHT_DECAY, "grad_clip": GRAD_CLIP[name], **ADAMW}
        for dtype, torch_dtype in [("f32", torch.float32), ("f64", torch.float64)]:
            torch.manual_seed(42)
            model = GPT(**config)
            with torch.no_grad():
                for p_name, p in model.named_parameters():
                    p.normal_(1.0 if ".ln_" in "." + p_name and p_name.endswith("weight") else 0.0, 0.3)
            idx, targets = torch.randint(0, 17, (3, 8)), torch.randint(0, 17, (3, 8))
            model = model.to(torch_dtype)
            key = f"{name}/{dtype}"
            tensors |= {f"{key}/idx": idx.to(torch.int32), f"{key}/targets": targets.to(torch.int32)}
            tensors |= {f"{key}/param/{n}": p.detach().clone() for n, p in model.named_parameters()}
            logits, loss = model(idx, targets)
            loss.backward()
            tensors |= {f"{key}/logits": logits.detach(), f"{key}/loss": loss.detach()}
            tensors |= {f"{key}/grad/{n}": p.grad.clone() for n, p in model.named_parameters()}
            optimizer = make_optimizer(model)
            steps = [train_step(model, optimizer, idx, targets, GRAD_CLIP[name]) for _ in range(10)]
            tensors |= {f"{key}/final/{n}": p.detach() for n, p in model.named_parameters()}
            facts[name][dtype] = {"losses": [s[0] for s in steps], "norms": [s[1] for s in steps],
                                  "final_loss": model(idx, targets)[1].item()}
    return tensors, facts


def init_facts():
    """What construction from a seed gives, and the losses of a training run from there on."""
    facts = {"gpt": [], "linear": [], "embedding": []}
    for seed, size in [(1337, dict(vocab_size=17, block_size=8, n_layer=2, n_head=2, n_embd=16)),
                       (1, dict(vocab_size=65, block_size=64, n_layer=4, n_head=4, n_embd=128))]:
        for bias, tied in [(True, True), (False, True), (False, False)]:
            config = dict(size, bias=bias, tied=tied, gelu="tanh")
            torch.manual_seed(seed)
            model = GPT(**config)
            facts["gpt"].append({"seed": seed, "config": config, "weights": fingerprints(model),
                                 "next_uniform": torch.rand(1).item()})
    for fan_in, fan_out in [(1, 1), (3, 3), (3, 1), (5, 7), (16, 48), (100, 10), (768, 65), (3072, 8)]:
        torch.manual_seed(123)
        facts["linear"].append({"in": fan_in, "out": fan_out, "weights": fingerprints(nn.Linear(fan_in, fan_out))})
    for rows, width in [(3, 2), (5, 16), (50, 33)]:
        torch.manual_seed(123)
        facts["embedding"].append({"rows": rows, "width": width, "weights": fingerprints(nn.Embedding(rows, width))})
    facts["training"] = training_run()
    return facts


def training_run():
    """nanoGPT's loop on the text t[i] = (i·i + i div 5) mod 17: the start of each window is drawn by randint."""
    text = torch.tensor([(i * i + i // 5) % 17 for i in range(400)])
    config = dict(vocab_size=17, block_size=8, n_layer=2, n_head=2, n_embd=16, bias=False, tied=True, gelu="tanh")
    torch.manual_seed(1337)
    model = GPT(**config)
    optimizer = make_optimizer(model)
    losses = []
    for _ in range(50):
        starts = torch.randint(len(text) - 8, (4,))
        idx = torch.stack([text[s:s + 8] for s in starts])
        targets = torch.stack([text[s + 1:s + 9] for s in starts])
        losses.append(train_step(model, optimizer, idx, targets, 1.0)[0])
    return {"seed": 1337, "config": config, "tokens": 400, "batch_size": 4, "iterations": 50,
            "weight_decay": WEIGHT_DECAY, "grad_clip": 1.0, **ADAMW, "losses": losses}


class TanhGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / torch.pi)) * (x + 0.044715 * torch.pow(x, 3))))


def residual_experiment():
    """mean |gradient| of each weight of a deep chain of layers, without and with shortcuts."""
    facts = []
    for activation, make in [("gelu", TanhGELU), ("gelu-erf", nn.GELU), ("relu", nn.ReLU)]:
        for seed in (123, 7):
            for shortcut in (False, True):
                sizes = [3, 3, 3, 3, 3, 1]
                torch.manual_seed(seed)
                layers = nn.ModuleList(nn.Sequential(nn.Linear(a, b), make()) for a, b in zip(sizes, sizes[1:]))
                x = torch.tensor([[1.0, 0.0, -1.0]])
                for layer in layers:
                    y = layer(x)
                    x = x + y if shortcut and x.shape == y.shape else y
                loss = F.mse_loss(x, torch.zeros(1, 1))
                loss.backward()
                facts.append({"activation": activation, "seed": seed, "shortcut": shortcut, "sizes": sizes,
                              "input": [1, 0, -1], "loss": loss.item(),
                              "mean_abs_grad": [layer[0].weight.grad.abs().mean().item() for layer in layers]})
    return facts


class BookAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (w(x).view(B, T, self.heads, -1).transpose(1, 2) for w in (self.W_query, self.W_key, self.W_value))
        scores = (q @ k.transpose(2, 3)).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
        y = (scores / k.shape[-1] ** 0.5).softmax(-1) @ v
        return self.out_proj(y.transpose(1, 2).reshape(B, T, C))


class BookBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.att = BookAttention(width, heads)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), TanhGELU(), nn.Linear(4 * width, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.att(self.norm1(x))
        return x + self.ff(self.norm2(x))


class BookGPT(nn.Module):
    def __init__(self, vocab=50257, context=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.trf_blocks = nn.Sequential(*[BookBlock(width, heads) for _ in range(layers)])
        self.final_norm = nn.LayerNorm(width)
        self.out_head = nn.Linear(width, vocab, bias=False)

    def forward(self, idx):
        x = self.tok_emb(idx) + self.pos_emb(torch.arange(idx.shape[1]))
        return self.out_head(self.final_norm(self.trf_blocks(x)))


@torch.no_grad()
def book_model():
    """GPT-2 124M with an untied head and separate query, key and value weights, seed 123, untrained."""
    torch.manual_seed(123)
    model = BookGPT().eval()
    weights = dict(model.named_parameters())
    names = ["tok_emb.weight", "pos_emb.weight", "out_head.weight"]
    for block in (0, 11):
        for part in ("att.W_query.weight", "att.W_key.weight", "att.W_value.weight", "att.out_proj.weight",
                     "att.out_proj.bias", "ff.0.weight", "ff.0.bias", "ff.2.weight", "ff.2.bias"):
            names.append(f"trf_blocks.{block}.{part}")
    prompt = [15496, 11, 314, 716]
    ids = list(prompt)
    logits = model(torch.tensor([ids]))
    margins = []
    for _ in range(10):
        last = model(torch.tensor([ids]))[0, -1]
        top = last.topk(2).values
        margins.append((top[0] - top[1]).item())
        ids.append(last.argmax().item())
    return {"seed": 123, "parameters": sum(p.numel() for p in weights.values()),
            "weights": {name: fingerprint(weights[name]) for name in names}, "prompt": prompt,
            "continuation": ids[len(prompt):], "margins": margins,
            "last_logits_head": logits[0, -1, :5].tolist(), "last_logits_sum": logits[0, -1].double().sum().item()}
