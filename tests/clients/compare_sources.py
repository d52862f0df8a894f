#!/usr/bin/env python3
"""Compares what a model answered here (model_answers) with what nanoGPT's or llm.c's own code makes of its export.

usage: compare_sources.py nanogpt NANOGPT EXPORT ANSWERS
       compare_sources.py llmc LLMC_ANSWERS EXPORT ANSWERS

NANOGPT is nanoGPT's folder, LLMC_ANSWERS the program that llmc_answers.c becomes. Logits, greedy tokens and their text
must be those of ANSWERS.safetensors and ANSWERS.jsonl. Prints a line and returns 1 if anything differs.
"""
import contextlib
import json
import pathlib
import pickle
import subprocess
import sys

import numpy as np
from safetensors.numpy import load_file

TOLERANCE = 3e-4


def of_nanogpt(folder, export, expected):
    import torch
    sys.path.insert(0, str(folder))
    from model import GPT, GPTConfig  # as in its sample.py, from here on
    checkpoint = torch.load(export / "ckpt.pt", map_location="cpu")
    with contextlib.redirect_stdout(sys.stderr):  # it says how many parameters it has
        model = GPT(GPTConfig(**checkpoint["model_args"]))
    model.load_state_dict(checkpoint["model"])
    model.eval()
    ids = torch.from_numpy(expected["input_ids"]).long()
    x = torch.from_numpy(expected["prompt"]).long()[None]
    with torch.no_grad():
        logits = model(ids, targets=ids)[0].numpy()  # of all positions, which it gives with targets alone
        text = model.generate(x, len(expected["greedy"]), top_k=1)
    greedy = text[0, x.shape[1]:].numpy()
    if not (export / "meta.pkl").exists():
        return logits, greedy, None  # tokens of GPT-2's
    itos = pickle.loads((export / "meta.pkl").read_bytes())["itos"]
    return logits, greedy, "".join(itos[i] for i in greedy.tolist())


def of_llmc(program, export, expected):
    ids, prompt, count = expected["input_ids"], expected["prompt"], len(expected["greedy"])
    questions, answers = export / "questions", export / "answers"
    np.concatenate([[*ids.shape, len(prompt), count], ids.ravel(), prompt]).astype("<i4").tofile(questions)
    model, tokenizer = export / "gpt2_124M.bin", export / "gpt2_tokenizer.bin"
    subprocess.run([program, model, tokenizer, questions, answers], check=True, stdout=subprocess.DEVNULL)
    shape = expected["logits"].shape
    bytes_of_logits = 4 * int(np.prod(shape))
    made = answers.read_bytes()
    logits = np.frombuffer(made[:bytes_of_logits], "<f4").reshape(shape)
    rest = made[bytes_of_logits:]
    return logits, np.frombuffer(rest[:4 * count], "<i4"), rest[4 * count:].decode("utf-8", "replace")


kind, source, export, answers = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
expected = load_file(f"{answers}.safetensors")
logits, greedy, text = {"nanogpt": of_nanogpt, "llmc": of_llmc}[kind](source, export, expected)
with open(f"{answers}.jsonl", encoding="utf-8") as lines:
    expected_text = json.loads(next(lines))["greedy_text"]
difference = float(np.abs(logits - expected["logits"]).max())
same = greedy.tolist() == expected["greedy"].tolist()
same_text = text is None or text == expected_text
print(f"{export.name}: {kind}, logits differ by at most {difference:.1e}, greedy tokens {'equal' if same else 'DIFFER'}, "
      f"text {'equal' if same_text else 'DIFFERS'}")
sys.exit(0 if difference <= TOLERANCE and same and same_text else 1)
