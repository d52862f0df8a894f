#!/usr/bin/env python3
"""Writes sentencepiece.json: small tokenizers of SentencePiece's kinds, and what Hugging Face's
tokenizers 0.23 makes of texts with them.

usage: golden_sentencepiece.py          (needs the Python packages tokenizers and sentencepiece)
"""
import io
import json
import pathlib
import struct
import tempfile

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

HERE = pathlib.Path(__file__).parent
CORPUS = """the cat sat on the mat, and the other cat saw it. A quick brown fox jumps over the lazy dog.
Hello, I am a model; who are you? In 1984 there were 12345 of them. def f(x):   return x ** 2  # 007
na\u00efve caf\u00e9 \u4e2d\u6587\u5b57\u7b26 \u4e2d\u6587 the theatre there then they them these those that this
""".splitlines()
TEXTS = [
    "Hello, I am", "hello world", " the cat", "the  cat   sat\n\n on\tthe mat ", "", " ", "   ", "\n", "In 1984; 3.14159",
    "na\u00efve cafe\u0301 \u4e2d\u6587\u5b57\u7b26 \U0001f44d\U0001f3fd \ufb01 x\u00b2 \u212b", "a\u2581b \u2581 c", "<s>the cat</s> sat<h1> the",
    "the <mask> cat <mask>", "  the\u00a0cat\u3000sat ", "\u0130stanbul \u00c9T\u00c9 ``x''", "<0x0A>", "the" * 40, "cat " * 20, "\U0001d7d9\0\ufffd",
    "\uff21\uff42\uff23 e\u0301\u0302", "<unk> <pad> [MASK]",
]
RULES = "FB01\t66 69\n00B2\t32\n212B\tC5\n65 301\tE9\nA0\t20\n3000\t20\nFF21\t41\nFF42\t62\nFF23\t43\n130\t49\nA\t20\nD\t20\n9\t20\n"


def fields_of(message):
    """The numbers and values of a protobuf message."""
    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    at = 0
    while at < len(message):
        tag = number()
        size = {0: None, 1: 8, 2: None, 5: 4}[tag & 7]
        if tag & 7 == 0:
            yield tag >> 3, number()
            continue
        size = number() if tag & 7 == 2 else size
        at += size
        yield tag >> 3, message[at - size:at]


class Model:
    """sentencepiece_model.proto: pieces are field 1, the normalizer's rules field 2 of field 3."""

    def __init__(self, data):
        self.pieces, self.rules = [], b""
        for field, value in fields_of(data):
            if field == 1:
                piece = dict(fields_of(value))
                self.pieces.append((piece[1].decode(), struct.unpack("<f", piece[2])[0]))
            elif field == 3:
                self.rules = dict(fields_of(value)).get(2, b"")


def trained(kind, vocab_size, **options):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write(RULES)
        rules.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS * 3), model_writer=model, model_type=kind, vocab_size=vocab_size,
            normalization_rule_tsv=rules.name, hard_vocab_limit=False, minloglevel=2, **options)
    return Model(model.getvalue())


def merges_of(pieces):
    """As transformers' converter makes them of scores."""
    vocab = {piece: i for i, (piece, _) in enumerate(pieces)}
    merges = []
    for piece, score in pieces:
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocab and right in vocab:
                merges.append((left, right, score))
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return vocab, [(left, right) for left, right, _ in merges]


def pairs(byte_fallback=True):
    vocab, merges = merges_of(trained("bpe", 400 if byte_fallback else 130, byte_fallback=byte_fallback,
                                      split_digits=True, allow_whitespace_only_pieces=True,
                                      remove_extra_whitespaces=False).pieces)
    return Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback))


def template(t, form):
    names = [name for name in form.split() if name != "$A"]
    return processors.TemplateProcessing(single=form, pair=form + " $B:1",
                                         special_tokens=[(name, t.token_to_id(name)) for name in names])


def with_space(t):
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])


def llama():
    t = pairs()
    with_space(t)
    t.post_processor = template(t, "<s> $A")
    return t


def unknown():
    t = pairs(byte_fallback=False)
    with_space(t)
    return t


def gemma():
    t = pairs()
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("<h1>", normalized=False, rstrip=True)])
    return t


def mistral():
    t = pairs()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    return t


def unigram(model, byte_fallback=False):
    return Tokenizer(models.Unigram(model.pieces, 0, byte_fallback))


def t5():
    model = trained("unigram", 120)
    t = unigram(model)
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(model.rules),
                                         normalizers.Strip(left=False, right=True),
                                         normalizers.Replace(Regex(" {2,}"), "\u2581")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.add_special_tokens(["</s>", "<unk>", "<pad>"])
    t.post_processor = template(t, "$A </s>")
    return t


def albert():
    model = trained("unigram", 150, byte_fallback=False)
    t = unigram(model)
    t.normalizer = normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Precompiled(model.rules),
        normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.add_special_tokens(["<s>", "</s>", "<unk>", "<pad>", AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = template(t, "<s> $A </s>")
    return t


def main():
    made = {}
    for style in (llama, unknown, gemma, mistral, t5, albert):
        t = style()
        encodings = []
        for text in TEXTS:
            ids = t.encode(text, add_special_tokens=False).ids
            encodings.append({"text": text, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)})
        made[style.__name__] = {"file": t.to_str(), "encodings": encodings}
    (HERE / "sentencepiece.json").write_text(json.dumps(made, indent=0) + "\n")


main()
