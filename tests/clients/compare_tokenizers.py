#!/usr/bin/env python3
"""Compares the ids of tapegrad's reader of tokenizer.json with those of Hugging Face's tokenizers.

usage: compare_tokenizers.py make TEXTS [--count N] [--texts FILE ...]
       compare_tokenizers.py judge TOKENIZER.json TEXTS IDS

`make` writes texts: random strings of many scripts, marks, spaces, digits and special tokens' names,
and the files. Between the two, encode_texts TOKENIZER.json TEXTS > IDS. `judge` prints a line and
returns 1 if any differ, in ids or in the text that they are decoded to, all at once or by tokens.
"""
import argparse
import json
import random
import sys
import unicodedata

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|end_of_text|>", "<|", "|>",
           "<s>", "</s>", "<bos>", "<start_of_turn>", "<unk>", "<h1>", "<0x0A>", "[multimodal]", "\u2581", "\u2581\u2581", "<pad>"]
WORDS = ["the", "Hello", "I'll", "we'VE", "don't", "'s", "'S", "'\u017f", "\u017f", "x", "naïve", "e\u0301", "\u00e9", "中文",
         "字符", "привет", "مرحبا", "नमस्ते", "한국어", "\u1100\u1161", "👍🏽", "\U0001d7d9", "½", "Ⅷ", "٣٤", "123456", "0", "3.14159",
         "def f(x):", "\u212b", "\u2126", "ﬁ", "\u0344", "\u1e9b\u0323"]
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "\u200b", "\ufeff", " \n ", "\x0b"]
MARKS = list("!?.,;:-_()[]{}'\"/\\@#$%^&*+=<>|~`") + ["...", "\u2019", "\u2014", "\x00", "\x07", "\u0301", "\ufffd"]


def random_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 24)):
        kind = rng.random()
        if kind < 0.35:
            parts.append(rng.choice(WORDS))
        elif kind < 0.6:
            parts.append(rng.choice(SPACES))
        elif kind < 0.75:
            parts.append(rng.choice(MARKS))
        elif kind < 0.8:
            parts.append(rng.choice(SPECIAL))
        elif kind < 0.9:
            parts.append("".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789'\n ") for _ in range(rng.randrange(60))))
        else:  # known to all versions of Unicode that the libraries have
            while True:
                c = chr(rng.randrange(0x110000))
                if unicodedata.ucd_3_2_0.category(c) not in ("Cs", "Cn", "Co"):
                    break
            parts.append(c)
    return "".join(parts)


def make(args):
    rng = random.Random(1337)
    texts = [random_text(rng) for _ in range(args.count)]
    texts += ["", " " * 300, "a" * 5000, "ab" * 3000, "\n" * 100, "1" * 100, "hello  "]
    for path in args.texts:
        texts.append(open(path, encoding="utf-8", newline="").read())
    json.dump(texts, open(args.file, "w"))


def judge(args):
    from tokenizers import Tokenizer
    theirs = Tokenizer.from_file(args.tokenizer)
    texts = json.load(open(args.file))
    ours = [json.loads(line) for line in open(args.ids)]
    wrong = sum(1 for _ in range(abs(len(ours) - len(texts))))
    tokens = 0
    for text, mine in zip(texts, ours):
        expected = theirs.encode(text, add_special_tokens=False).ids
        decoded = theirs.decode(expected, skip_special_tokens=False)
        tokens += len(expected)
        if mine["ids"] != expected or mine["text"] != decoded or mine["stream"] != decoded:
            wrong += 1
            if wrong <= 3:
                print(f"differs: {text[:80]!r}\n  ours   {mine['ids'][:30]}\n  theirs {expected[:30]}", file=sys.stderr)
                print(f"  ours   {mine['text'][:80]!r}\n  theirs {decoded[:80]!r}", file=sys.stderr)
    print(f"{args.tokenizer}: {len(texts)} texts, {tokens} tokens, {wrong} differ")
    return 1 if wrong else 0


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
commands = parser.add_subparsers(dest="command", required=True)
p = commands.add_parser("make")
p.add_argument("file")
p.add_argument("--count", type=int, default=20000)
p.add_argument("--texts", nargs="*", default=[])
p = commands.add_parser("judge")
p.add_argument("tokenizer")
p.add_argument("file")
p.add_argument("ids")
args = parser.parse_args()
sys.exit(make(args) if args.command == "make" else judge(args))
