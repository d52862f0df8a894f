#!/usr/bin/env python3
"""Writes tokenizers.json: small tokenizers of the styles that models use, and what Hugging Face's
tokenizers 0.23 makes of texts with them.

usage: golden_tokenizers.py          (needs the Python package tokenizers)
"""
import json
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXTS = [
    "Hello, I am", "hello world", "0" * 17, "In 1984 there were 12345; 3.14159", "today\n \n", "hello  ", "a\r\nb", "\n\n\n",
    "  two  spaces\tand\ttabs\n\n  x", "I'LL we'Ve don't 'S '''s '\u017f", "Café naïve e\u0301 x²½ Ⅷ٣४", "\u212b \u1e9b\u0323 \u1100\u1161",
    "中文字符 👍🏽 \U0001d7d9", "a\0b", " \u00850 \u00a0nbsp\u3000wide \u180e", "\ufffd\ufeff", "", "def f(x):\n    return x ** 2  # 007",
    "one<|endoftext|>two <|im_start|> <|begin_of_text|>", "<|endoftext|", "a <tool> b<tool>", "a" * 100, "ab " * 50,
]


def byte_level(regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)


def split(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"), byte_level(False)])


STYLES = {
    "gpt2": (None, byte_level(True), ["<|endoftext|>"]),
    "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
               ["<|endoftext|>", "<|im_start|>"]),
    "llama3": (None, split(LETTERS + r"\p{N}{1,3}" + REST), ["<|begin_of_text|>", "<|end_of_text|>"]),
    "qwen2": (normalizers.NFC(), split(LETTERS + r"\p{N}" + REST), ["<|endoftext|>", "<|im_start|>"]),
}


def train(style):
    normalizer, pre_tokenizer, special = STYLES[style]
    t = Tokenizer(models.BPE(ignore_merges=style == "llama3"))
    if normalizer is not None:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer
    t.decoder = decoders.ByteLevel()
    corpus = [(HERE.parent.parent / name).read_text() for name in ("README.md", "docs/gpt.md", "docs/training.md")]
    t.train_from_iterator(corpus + TEXTS[:18], trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_tokens(["<tool>"])
    if style == "llama3":
        t.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                          special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    return t


def main():
    made = {}
    for style in STYLES:
        t = train(style)
        made[style] = {
            "file": t.to_str(),
            "begin": t.encode("").ids,
            "encodings": [{"text": text, "ids": t.encode(text, add_special_tokens=False).ids} for text in TEXTS],
        }
    (HERE / "tokenizers.json").write_text(json.dumps(made, indent=0) + "\n")


main()
