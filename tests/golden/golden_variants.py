"""The GPT's variants in PyTorch: how Q, K and V are made, rotary positions, tied heads, other norms and dropouts, squared
ReLU, learned scalars of the residual stream, embeddings of n-grams."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from golden_models import ADAMW, WEIGHT_DECAY, make_optimizer

SIZE = dict(vocab_size=13, block_size=6, n_layer=2, n_head=2, n_embd=8)


def rope(x):
    """Rotary positions of x (B, H, T, D), whose pairs lie half a head apart."""
    T, D = x.shape[-2:]
    frequency = 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    angle = torch.outer(torch.arange(T, dtype=torch.float64), frequency).repeat(1, 2).to(x.dtype)
    low, high = x.chunk(2, dim=-1)
    return x * angle.cos() + torch.cat([-high, low], dim=-1) * angle.sin()


def relu2(x):
    return F.relu(x).square()


def ngram_rows(vocab_size, n, most):
    return min((vocab_size + 1) ** n, most)


def mixed(x):
    """The end of a step of SplitMix64."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def ngram_row(ngram, vocab_size, rows):
    """The n-gram as a number in base V + 1, or a hash of it if there are not rows for all."""
    each_has_one = (vocab_size + 1) ** len(ngram) <= rows
    x = 0
    for token in ngram:
        x = x * (vocab_size + 1) + token if each_has_one else mixed((x + token + 1) % 2**64)
    return x % rows


def rows_of_ngrams(idx, n, vocab_size, rows):
    """(B, T) → the row of the n tokens up to each; before a row's first token, there is token V."""
    padded = [[vocab_size] * (n - 1) + tokens for tokens in idx.tolist()]
    return torch.tensor([[ngram_row(tokens[t:t + n], vocab_size, rows) for t in range(idx.shape[1])] for tokens in padded])


class Norm(nn.Module):
    def __init__(self, width, unbiased):
        super().__init__()
        self.unbiased = unbiased
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        var = x.var(dim=-1, keepdim=True, unbiased=self.unbiased)
        return self.weight * (x - x.mean(dim=-1, keepdim=True)) / torch.sqrt(var + 1e-5) + self.bias


class Attention(nn.Module):
    """Written out, so that dropout acts on weights (B, H, T, T) as it does in the tutorials."""

    def __init__(self, width, heads, c):
        super().__init__()
        self.heads, self.rope = heads, c.get("rope", False)
        self.separate, bias = c.get("separate_qkv", False), c.get("qkv_bias", True)
        if self.separate:
            self.W_query, self.W_key, self.W_value = (nn.Linear(width, width, bias=bias) for _ in range(3))
        else:
            self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width)
        self.qk_norm = c.get("qk_norm", False)
        if self.qk_norm:
            self.q_norm, self.k_norm = (Norm(width // heads, c.get("unbiased_norm", False)) for _ in range(2))
        self.drop = nn.Dropout(c.get("dropout", 0.0))
        self.out_drop = nn.Dropout(c.get("dropout", 0.0) if c.get("attn_out_dropout", True) else 0.0)

    def forward(self, x):
        B, T, C = x.shape
        parts = [w(x) for w in (self.W_query, self.W_key, self.W_value)] if self.separate else self.c_attn(x).split(C, 2)
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in parts)
        if self.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rope:
            q, k = rope(q), rope(k)
        scores = (q @ k.transpose(2, 3)).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
        y = self.drop((scores / k.shape[-1] ** 0.5).softmax(-1)) @ v
        return self.out_drop(self.c_proj(y.transpose(1, 2).reshape(B, T, C)))


class MLP(nn.Module):
    def __init__(self, width, c):
        super().__init__()
        inner = c.get("n_inner", 4 * width)
        self.c_fc, self.c_proj = nn.Linear(width, inner), nn.Linear(inner, width)
        self.act = {"gelu": nn.GELU("tanh"), "gelu-erf": nn.GELU(), "relu": nn.ReLU(),
                    "relu2": relu2}[c.get("activation", "gelu")]
        self.inner_drop = nn.Dropout(c.get("dropout", 0.0) if c.get("ff_dropout", False) else 0.0)
        self.drop = nn.Dropout(c.get("dropout", 0.0))

    def forward(self, x):
        return self.drop(self.c_proj(self.inner_drop(self.act(self.c_fc(x)))))


class Block(nn.Module):
    def __init__(self, width, heads, c):
        super().__init__()
        self.ln_1 = Norm(width, c.get("unbiased_norm", False))
        self.attn = Attention(width, heads, c)
        self.ln_2 = Norm(width, c.get("unbiased_norm", False))
        self.mlp = MLP(width, c)
        self.residual_scalars = None
        if c.get("residual_scalars", False):
            self.residual_scalars = nn.ParameterDict({"state": torch.ones(1), "embedding": torch.zeros(1)})

    def forward(self, x, x0):
        if self.residual_scalars is not None:
            x = self.residual_scalars["state"] * x + self.residual_scalars["embedding"] * x0
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class VariantGPT(nn.Module):
    def __init__(self, c, vocab_size, block_size, n_layer, n_head, n_embd):
        super().__init__()
        placeholder = c.get("placeholder", False)
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.ngrams = nn.ModuleDict({str(n): nn.Embedding(ngram_rows(vocab_size, n, c.get("ngram_rows", 16384)), n_embd)
                                     for n in range(2, c.get("ngrams", 1) + 1)})
        self.wpe = None if c.get("rope", False) else nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(c.get("dropout", 0.0))
        self.h = nn.ModuleList([] if placeholder else [Block(n_embd, n_head, c) for _ in range(n_layer)])
        self.ln_f = nn.Identity() if placeholder else Norm(n_embd, c.get("unbiased_norm", False))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        if c.get("tied", True):
            self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        x = self.wte(idx)
        for n, table in self.ngrams.items():
            x = x + table(rows_of_ngrams(idx, int(n), self.wte.num_embeddings, table.num_embeddings))
        if self.wpe is not None:
            x = x + self.wpe(torch.arange(idx.shape[1]))
        x = self.drop(x)
        x0 = F.rms_norm(x, x.shape[-1:], eps=1e-5)
        for block in self.h:
            x = block(x, x0)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


VARIANTS = {
    f"{'tied' if tied else 'untied'}-{'separate' if separate else 'merged'}{'-rope' if rotary else ''}":
        dict(tied=tied, separate_qkv=separate, rope=rotary)
    for tied in (True, False) for separate in (False, True) for rotary in (False, True)
} | {
    "book": dict(tied=False, separate_qkv=True, qkv_bias=False, dropout=0.1),
    "relu-dropout": dict(tied=False, separate_qkv=True, qkv_bias=False, unbiased_norm=True, activation="relu",
                         ff_dropout=True, dropout=0.2),
    "gptconfig": dict(activation="gelu-erf", n_inner=20, attn_out_dropout=False, dropout=0.1),
    "placeholder": dict(tied=False, placeholder=True, dropout=0.1),
}
NEWER_VARIANTS = {  # their weights are drawn behind all others, so that those and the batch stay as they are
    "relu2-scalars": dict(activation="relu2", residual_scalars=True),
    "pairs": dict(ngrams=2),
    "shared-ngrams": dict(tied=False, ngrams=3, ngram_rows=50, activation="relu2", residual_scalars=True, qk_norm=True,
                          rope=True),
}
DROPOUT_SEED = 7  # set once before the first forward: all draws after that are dropout's


def key_of(name, p):
    return f"{name} ({', '.join(map(str, p.shape))})"


def gain_of(name):
    is_gain = "ln_" in name or "_norm" in name
    return 1.0 if is_gain and name.endswith("weight") or name.endswith("residual_scalars.state") else 0.0


def make_weights(variants, weights):
    """Adds every weight that some variant has, far from a fresh model's, so that every path counts. Variants share them."""
    for c in variants.values():
        for name, p in VariantGPT(c, **SIZE).named_parameters():
            if name == "lm_head.weight" and c.get("tied", True):
                continue  # the first name of a tied weight is the embedding's
            key = key_of(name, p)
            if key not in weights:
                weights[key] = torch.empty_like(p).normal_(gain_of(name), 0.3)


def load(model, weights):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weights[key_of(name, p)])


def variant_training():
    """Logits, loss and every gradient of the first of ten AdamW steps on one batch, and the ten losses."""
    torch.manual_seed(42)
    weights = {}
    make_weights(VARIANTS, weights)
    V, T = SIZE["vocab_size"], SIZE["block_size"]
    idx, targets = torch.randint(0, V, (3, T)), torch.randint(0, V, (3, T))
    make_weights(NEWER_VARIANTS, weights)
    tensors = {f"param/{key}": t for key, t in weights.items()}
    tensors |= {"idx": idx.to(torch.int32), "targets": targets.to(torch.int32)}
    facts = {"weight_decay": WEIGHT_DECAY, "dropout_seed": DROPOUT_SEED, "size": SIZE, **ADAMW, "variants": {}}
    for name, c in (VARIANTS | NEWER_VARIANTS).items():
        model = VariantGPT(c, **SIZE)
        load(model, weights)
        optimizer = make_optimizer(model)
        losses = []
        torch.manual_seed(DROPOUT_SEED)
        for step in range(10):
            logits, loss = model(idx, targets)
            optimizer.zero_grad()
            loss.backward()
            if step == 0:
                tensors[f"{name}/logits"] = logits.detach().clone()
                tensors |= {f"{name}/grad/{n}": p.grad.clone() for n, p in model.named_parameters()}
            optimizer.step()
            losses.append(loss.item())
        facts["variants"][name] = {"config": c, "losses": losses, "parameters": sum(p.numel() for p in model.parameters())}
    return tensors, facts
