#!/usr/bin/env python3
"""Opens an exported folder with transformers, and compares it with what the model answered here (model_answers).

usage: compare_export.py FOLDER ANSWERS [--tolerance 3e-4]

The folder must open with AutoModelForCausalLM and AutoTokenizer without a warning; its logits, its greedy text and the ids of
all texts must be those of ANSWERS.safetensors and ANSWERS.jsonl. Prints a line and returns 1 if anything differs.
"""
import argparse
import json
import logging
import sys
import unicodedata
import warnings

import torch
from safetensors.torch import load_file
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder")
parser.add_argument("answers")
parser.add_argument("--tolerance", type=float, default=3e-4)
args = parser.parse_args()

said = []  # whatever a user would see on the way


class Listener(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())


warnings.showwarning = lambda message, *rest: said.append(str(message))
transformers.utils.logging.set_verbosity_warning()
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.disable_default_handler()
transformers.utils.logging.add_handler(Listener())
# PyTorch's own attention leaves soft caps out.
model, info = AutoModelForCausalLM.from_pretrained(args.folder, dtype=torch.float32, output_loading_info=True,
                                                  attn_implementation="eager")
tokenizer = AutoTokenizer.from_pretrained(args.folder)
said += [f"{what}: {sorted(names)}" for what, names in info.items() if names]
opened = list(said)  # long texts below are longer than the model's context, which the tokenizer says, rightly

expected = load_file(args.answers + ".safetensors")
lines = [json.loads(line) for line in open(args.answers + ".jsonl", encoding="utf-8")]
with torch.no_grad():
    logits = model.eval()(expected["input_ids"].long()).logits
    x = expected["prompt"].long()[None]
    made = model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=len(expected["greedy"]), do_sample=False,
                          eos_token_id=None, pad_token_id=0)[0, x.shape[1]:]
difference = float((logits - expected["logits"]).abs().max())
same = made.tolist() == expected["greedy"].tolist()
same_text = tokenizer.decode(made) == lines[0]["greedy_text"]
wrong = back = tokens = 0
for line in lines[1:]:
    ids = tokenizer.encode(line["text"], add_special_tokens=False)
    tokens += len(ids)
    wrong += ids != line["ids"]
    back += tokenizer.decode(ids) not in (line["text"], unicodedata.normalize("NFC", line["text"]))
for text in opened[:5]:
    print(f"said: {text}", file=sys.stderr)
ok = difference <= args.tolerance and same and same_text and not wrong and not back and not opened
print(f"{args.folder}: {type(model).__name__}, {type(tokenizer).__name__}, logits differ by at most {difference:.1e}, greedy tokens "
      f"{'equal' if same else 'DIFFER'}, text {'equal' if same_text else 'DIFFERS'}, {len(lines) - 1} texts, {tokens} tokens, {wrong} differ, "
      f"{back} decode to others, {len(opened)} warnings")
sys.exit(0 if ok else 1)
