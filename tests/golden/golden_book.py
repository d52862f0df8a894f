"""Chapter 5 of "Build a Large Language Model (From Scratch)" in PyTorch: how its script trains, evaluates and samples."""

import torch
from torch.utils.data import DataLoader

from golden_variants import VariantGPT

BOOK_MODEL = dict(tied=False, separate_qkv=True, qkv_bias=False, dropout=0.1)


def windows(ids, length, stride):
    """Inputs and targets of each window, as far as there is a target for every input."""
    starts = range(0, len(ids) - length, stride)
    return [(torch.tensor(ids[i:i + length]), torch.tensor(ids[i + 1:i + length + 1])) for i in starts]


@torch.no_grad()
def loss_of_first(model, loader, count):
    """Mean loss of the first batches. Like the book's loop, it begins an iterator, which draws from the generator."""
    losses = []
    for i, (idx, targets) in enumerate(loader):
        if i == min(count, len(loader)):
            break
        losses.append(model(idx, targets)[1].item())
    return sum(losses) / len(losses)


@torch.no_grad()
def greedy(model, ids, count, context):
    ids = list(ids)
    for _ in range(count):
        window = torch.tensor([ids[-context:]])
        ids.append(model(window, window)[0][0, -1].argmax().item())
    return ids


def train(train_ids, val_ids, prompt, size, *, seed, batch, stride, epochs, eval_every, eval_batches, lr, most_steps=None,
          tell=lambda *_: None):
    """The loss of each step, [steps made, train loss, val loss] of each evaluation, and a text after each pass."""
    torch.manual_seed(seed)
    model = VariantGPT(BOOK_MODEL, **size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.1)
    length = size["block_size"]
    train_loader = DataLoader(windows(train_ids, length, stride), batch_size=batch, shuffle=True, drop_last=True)
    val_loader = DataLoader(windows(val_ids, length, stride), batch_size=batch, shuffle=False, drop_last=False)
    losses, evaluations, samples = [], [], []
    for _ in range(epochs):
        model.train()
        for idx, targets in train_loader:
            if len(losses) == most_steps:
                return losses, evaluations, samples
            optimizer.zero_grad()
            _, loss = model(idx, targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            tell("iter", len(losses) - 1, losses[-1])
            if (len(losses) - 1) % eval_every == 0:
                model.eval()
                pair = [loss_of_first(model, loader, eval_batches) for loader in (train_loader, val_loader)]
                model.train()
                evaluations.append([len(losses), *pair])
                tell("step", *evaluations[-1])
        model.eval()
        samples.append(greedy(model, prompt, 50, length))
        tell("sample", samples[-1])
    return losses, evaluations, samples


def tiny_book():
    """Two passes over a text of a few characters with a model that takes no time."""
    text = "".join(f"the cat sat on mat {i} and the dog ate.\n" for i in range(120))
    characters = sorted(set(text))
    ids = [characters.index(c) for c in text]
    split = int(0.9 * len(ids))
    size = dict(vocab_size=len(characters), block_size=16, n_layer=2, n_head=2, n_embd=16)
    prompt = [characters.index(c) for c in "the cat"]
    losses, evaluations, samples = train(ids[:split], ids[split:], prompt, size, seed=123, batch=8, stride=32, epochs=2,
                                         eval_every=5, eval_batches=3, lr=5e-3)
    return {"losses": losses, "evaluations": evaluations,
            "samples": ["".join(characters[i] for i in sample).replace("\n", " ") for sample in samples]}
