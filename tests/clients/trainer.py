#!/usr/bin/env python3
"""Fine-tunes a model folder in Hugging Face's layout on a text with transformers' Trainer, and prints the median time of a
step and the peak of memory, as `fine_tuning.sh` reads it.

usage: trainer.py FOLDER TEXT [--steps N] [--batch-size B] [--block-size T]
(needs the Python packages torch, transformers and accelerate)
"""
import argparse
import resource
import statistics
import tempfile
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainerCallback, TrainingArguments


class Times(TrainerCallback):
    """Seconds from the end of a step to the end of the next: with its batch."""

    def __init__(self):
        self.last, self.seconds, self.losses = None, [], []

    def on_step_end(self, args, state, control, **kwargs):
        now = time.perf_counter()
        if self.last is not None:
            self.seconds.append(now - self.last)
        self.last = now

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            self.losses.append(logs["loss"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("text")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--block-size", type=int, default=256)
    o = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    model = AutoModelForCausalLM.from_pretrained(o.folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(o.folder)
    with open(o.text, encoding="utf-8") as file:
        ids = tokenizer(file.read())["input_ids"]
    T = o.block_size
    blocks = [{"input_ids": ids[i:i + T], "labels": ids[i:i + T]} for i in range(0, len(ids) - T + 1, T)]
    times = Times()
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(out, per_device_train_batch_size=o.batch_size, max_steps=o.steps, learning_rate=1e-4,
                                      weight_decay=0.1, adam_beta2=0.95, logging_steps=1, save_strategy="no", report_to=[],
                                      use_cpu=True, seed=1, disable_tqdm=True)
        Trainer(model=model, args=arguments, train_dataset=blocks, callbacks=[times]).train()
    seconds = statistics.median(times.seconds[1:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"transformers {transformers.__version__}: {seconds * 1e3:.1f} ms/step "
          f"{o.batch_size * T / seconds:.0f} tok/s peak {peak} MB, loss {times.losses[0]:.3f} to {times.losses[-1]:.3f}")


main()
