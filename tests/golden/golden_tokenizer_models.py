#!/usr/bin/env python3
"""Writes tokenizer_models.json: small files tokenizer.model of SentencePiece, in base64, and the ids that SentencePiece
gives texts with them.

usage: golden_tokenizer_models.py          (needs the Python package sentencepiece; 0.2.2 made them)
"""
import base64
import io
import json
import pathlib
import re
import tempfile

import sentencepiece

HERE = pathlib.Path(__file__).parent


def texts_of_sibling():
    """CORPUS, TEXTS and RULES of golden_sentencepiece.py, which needs another package to be imported."""
    source = (HERE / "golden_sentencepiece.py").read_text()
    found = {}
    for name, end in (("CORPUS", '""".splitlines()'), ("TEXTS", "\n]"), ("RULES", "\n")):
        exec(re.search(rf"^{name} = .*?{re.escape(end)}", source, re.M | re.S).group(0), found)
    return found["CORPUS"], found["TEXTS"], found["RULES"]


CORPUS, TEXTS, RULES = texts_of_sibling()
TEXTS += ["<sep>the cat", "a<sep> b <sep><sep>the<se", "fox<sep", "  <sep>  ", "e\u0301\u0301 ﬁﬁ the\u00a0\u00a0cat",
          "-" * 11, "other fox, the  dog.  ", "the cat<s>"]
SYMBOLS = ["<sep>", "<se", "fox", "\u00a0x"]
STYLES = {
    "bpe": dict(model_type="bpe", vocab_size=360, byte_fallback=True),
    "bpe llama": dict(model_type="bpe", vocab_size=340, byte_fallback=True, remove_extra_whitespaces=False, rules=False),
    "bpe symbols": dict(model_type="bpe", vocab_size=360, byte_fallback=True, user_defined_symbols=SYMBOLS),
    "bpe unknown": dict(model_type="bpe", vocab_size=130, user_defined_symbols=["<sep>"], add_dummy_prefix=False),
    "unigram": dict(model_type="unigram", vocab_size=330, byte_fallback=True),
    "unigram symbols": dict(model_type="unigram", vocab_size=110, user_defined_symbols=SYMBOLS),
    "unigram across words": dict(model_type="unigram", vocab_size=110, split_by_whitespace=False, rules=False),
    "other names": dict(model_type="unigram", vocab_size=100, bos_piece="<bos>", eos_piece="<end>", pad_id=3),
}


def trained(rules=True, **options):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write(RULES + "65 301 301\t58\n")
        file.flush()
        normal = dict(normalization_rule_tsv=file.name) if rules else dict(normalization_rule_name="identity")
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS * 3), model_writer=model,
                                                 hard_vocab_limit=False, minloglevel=2, **normal, **options)
    return model.getvalue()


def main():
    golden = {}
    for style, options in STYLES.items():
        file = trained(**options)
        pieces = sentencepiece.SentencePieceProcessor(model_proto=file)
        encodings = []
        for text in TEXTS:
            if "\0" in text:
                continue
            ids = pieces.encode(text)
            encodings.append({"text": text, "ids": ids, "decoded": pieces.decode(ids)})
        golden[style] = {"file": base64.b64encode(file).decode(), "encodings": encodings}
    out = HERE / "tokenizer_models.json"
    out.write_text(json.dumps(golden, ensure_ascii=True, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
