"""The encoder-decoder Transformer in PyTorch: pre-norm, bias-free, with the norm that divides by std + eps."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import golden_models

ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY = 0.1
CONFIG = dict(vocab_size=13, block_size=9, n_layer=2, n_head=2, n_embd=8, n_hidden=12)
DROPOUT, DROPOUT_SEED = 0.2, 7  # set once before the first forward: all draws after that are dropout's


class StdNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + self.eps) + self.b_2


class Attention(nn.Module):
    """Bias-free projections around PyTorch's own multi-head attention, whose key_padding_mask it takes."""

    def __init__(self, width, heads, dropout, causal=False):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.width, self.heads, self.causal = width, heads, causal

    def forward(self, query, memory, padding=None):
        T = query.shape[1]
        later = torch.ones(T, T, dtype=torch.bool).triu(1) if self.causal else None
        y, _ = F.multi_head_attention_forward(
            query.transpose(0, 1), memory.transpose(0, 1), memory.transpose(0, 1), self.width, self.heads, None, None,
            None, None, False, self.drop.p, self.wo.weight, None, key_padding_mask=padding, need_weights=False,
            attn_mask=later, use_separate_proj_weight=True, q_proj_weight=self.wq.weight, k_proj_weight=self.wk.weight,
            v_proj_weight=self.wv.weight)
        return self.drop(y.transpose(0, 1).contiguous())  # which draws in the order of the memory


class MLP(nn.Module):
    def __init__(self, width, hidden, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.w1, self.w2 = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.drop(self.w2(self.w1(x).relu()))


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention_norm = StdNorm(c["n_embd"])
        self.attention = Attention(c["n_embd"], c["n_head"], c.get("dropout", 0.0))
        self.fnn_norm = StdNorm(c["n_embd"])
        self.feed_forward = MLP(c["n_embd"], c["n_hidden"], c.get("dropout", 0.0))

    def forward(self, x, padding):
        normed = self.attention_norm(x)
        x = x + self.attention(normed, normed, padding)
        return x + self.feed_forward(self.fnn_norm(x))


class DecoderLayer(nn.Module):
    def __init__(self, c, residual_from_norm):
        super().__init__()
        self.attention_norm_1 = StdNorm(c["n_embd"])
        self.mask_attention = Attention(c["n_embd"], c["n_head"], c.get("dropout", 0.0), causal=True)
        self.attention_norm_2 = StdNorm(c["n_embd"])
        self.attention = Attention(c["n_embd"], c["n_head"], c.get("dropout", 0.0))
        self.ffn_norm = StdNorm(c["n_embd"])
        self.feed_forward = MLP(c["n_embd"], c["n_hidden"], c.get("dropout", 0.0))
        self.residual_from_norm = residual_from_norm

    def forward(self, x, memory, source_padding, target_padding):
        normed = self.attention_norm_1(x)
        x = (normed if self.residual_from_norm else x) + self.mask_attention(normed, normed, target_padding)
        normed = self.attention_norm_2(x)
        x = (normed if self.residual_from_norm else x) + self.attention(normed, memory, source_padding)
        return x + self.feed_forward(self.ffn_norm(x))


class Stack(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), StdNorm(width)

    def forward(self, x, *more):
        for layer in self.layers:
            x = layer(x, *more)
        return self.norm(x)


class Positions(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
        table = torch.zeros(length, width)
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", table[None])

    def forward(self, x):
        return x + self.pe[:, :x.shape[1]]


class Transformer(nn.Module):
    def __init__(self, c, residual_from_norm=False):
        super().__init__()
        width, layers = c["n_embd"], range(c["n_layer"])
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(c["vocab_size"], width), wpe=Positions(c["block_size"], width),
            encoder=Stack([EncoderLayer(c) for _ in layers], width),
            decoder=Stack([DecoderLayer(c, residual_from_norm) for _ in layers], width)))
        self.drop = nn.Dropout(c.get("dropout", 0.0))
        self.lm_head = nn.Linear(width, c["vocab_size"], bias=False)
        self.apply(self.init)

    @staticmethod
    def init(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, source, target, source_padding=None, target_padding=None):
        embed = lambda ids: self.drop(self.transformer.wpe(self.transformer.wte(ids)))
        memory = self.transformer.encoder(embed(source), source_padding)
        return self.lm_head(self.transformer.decoder(embed(target), memory, source_padding, target_padding))


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)


def padding_of(lengths, longest):
    return torch.arange(longest)[None] >= torch.tensor(lengths)[:, None]


def make_case(name):
    """Inputs of a case: the second and third sequences of "padded" and "dropout" are shorter than the first."""
    torch.manual_seed({"plain": 5, "padded": 6, "residual_from_norm": 7, "dropout": 8}[name])
    source, target = torch.randint(0, 13, (3, 9)), torch.randint(0, 13, (3, 7))
    labels = torch.randint(0, 13, (3, 7))
    labels[0, 2] = -1
    case = {"source": source, "target": target, "labels": labels}
    if name in ("padded", "dropout"):
        case |= {"source_padding": padding_of([9, 4, 6], 9), "target_padding": padding_of([7, 3, 5], 7)}
        labels[case["target_padding"]] = -1
    return case


def ten_losses(model, args, labels):
    params = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in params if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
                                   {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}], **ADAMW)
    losses = []
    for _ in range(10):
        loss = loss_of(model(*args), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + [loss_of(model(*args), labels).item()]


def random_weights(model):
    torch.manual_seed(42)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if name.endswith("a_2") else 0.0, 0.3)
    return model


def transformer_training():
    """Gradients (in f64) and eleven losses (in both dtypes) around ten AdamW steps, from weights far from their usual
    start, so that every path counts; and what one sequence for both sides gives, as a tutorial's forward has it."""
    tensors, facts = {}, {"config": CONFIG, "weight_decay": WEIGHT_DECAY, **ADAMW, "dropout": DROPOUT,
                      "dropout_seed": DROPOUT_SEED, "cases": {}}
    start = random_weights(Transformer(CONFIG))
    tensors |= {f"param/{n}": t.clone() for n, t in start.state_dict().items()}
    for name in ("plain", "padded", "residual_from_norm", "dropout"):
        case = make_case(name)
        tensors |= {f"{name}/{k}": t.to(torch.uint8 if t.dtype == torch.bool else torch.int32) for k, t in case.items()}
        labels = case.pop("labels")
        args, facts["cases"][name] = list(case.values()), {}
        for dtype, torch_dtype in [("f32", torch.float32), ("f64", torch.float64)]:
            config = CONFIG | ({"dropout": DROPOUT} if name == "dropout" else {})
            model = Transformer(config, name == "residual_from_norm").to(torch_dtype)
            model.load_state_dict(start.state_dict())
            if dtype == "f64":
                torch.manual_seed(DROPOUT_SEED)
                logits = model(*args)
                loss_of(logits, labels).backward()
                tensors |= {f"{name}/logits": logits.detach()}
                tensors |= {f"{name}/grad/{n}": p.grad.clone() for n, p in model.named_parameters()}
            torch.manual_seed(DROPOUT_SEED)
            facts["cases"][name][dtype] = ten_losses(model, args, labels)
    ids = make_case("plain")["source"]
    tensors["one_sequence/logits"] = start.double()(ids, ids).detach()
    return tensors, facts


def transformer_init():
    torch.manual_seed(1337)
    model = Transformer(CONFIG)
    return {"seed": 1337, "weights": golden_models.fingerprints(model), "next_uniform": torch.rand(1).item(),
            "parameters": sum(p.numel() for p in model.parameters()),
            "without_embeddings": sum(p.numel() for p in model.parameters()) - model.transformer.wte.weight.numel()}
