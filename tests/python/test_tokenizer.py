"""Tokenizers beside those of models."""

import tempfile
import unittest
from pathlib import Path

import tapegrad as tg


class Tokenizers(unittest.TestCase):
    def test_gpt2_is_gpt2s(self):
        gpt2 = tg.Tokenizer.gpt2()
        self.assertEqual((gpt2.kind, gpt2.vocab_size(), len(gpt2)), ("gpt2", 50257, 50257))
        self.assertEqual(gpt2.encode("Hello, I am"), [15496, 11, 314, 716])
        self.assertEqual(gpt2.decode([15496, 11, 314, 716]), "Hello, I am")
        self.assertEqual(gpt2.encode("<|endoftext|>", allow_special=True), [50256])
        self.assertGreater(len(gpt2.encode("<|endoftext|>")), 1)
        self.assertEqual((gpt2.ends(), gpt2.is_added(50256), gpt2.is_added(0)), ([50256], True, False))

    def test_they_have_what_the_header_declares(self):
        letters = tg.Tokenizer.of_characters("cab")
        self.assertEqual(repr(letters), "tapegrad.Tokenizer(kind='char', 3 tokens)")
        self.assertEqual((len(letters.padded(7)), len(letters)), (7, 3))
        self.assertIn("A token for each character", tg.Tokenizer.of_characters.__doc__)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tokenizer.json")
            path.write_text(letters.hf_json(), encoding="utf-8")
            self.assertEqual(tg.Tokenizer.from_hf(path).encode("cab"), [2, 0, 1])

    def test_a_token_may_be_a_part_of_a_character(self):
        bytes_alone = tg.Tokenizer.train_bpe("", 257)
        ids = bytes_alone.encode("\u72d7")
        self.assertEqual(b"".join(map(bytes_alone.token_bytes, ids)), "\u72d7".encode())
        self.assertEqual(bytes_alone.decode(ids), "\u72d7")
        self.assertEqual(bytes_alone.decode(ids[:1]), "\ufffd")

    def test_characters_and_files(self):
        letters = tg.Tokenizer.of_characters("cab")
        self.assertEqual(letters.encode("abc"), [0, 1, 2])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tokenizer.json")
            letters.save(path)
            self.assertEqual(tg.Tokenizer.open(path).encode("cab"), [2, 0, 1])
            self.assertRaisesRegex(tg.Error, "nothing", tg.Tokenizer.open, Path(folder, "nothing.json"))

    def test_what_they_refuse(self):
        letters = tg.Tokenizer.of_characters("abc")
        self.assertRaises(tg.Error, letters.encode, "d")
        for wrong in (-1, 3, 2**31 - 1):
            self.assertRaises(tg.Error, letters.decode, [wrong])
            self.assertRaises(tg.Error, letters.token_bytes, wrong)
        self.assertRaisesRegex(tg.Error, "short|many", tg.Tokenizer.train_bpe, "ab", 300)
        self.assertRaises(TypeError, letters.decode, ["a"])
        self.assertRaises(TypeError, letters.encode, 5)
        self.assertRaises(TypeError, tg.Tokenizer)
        self.assertRaisesRegex(tg.Error, "no tokenizer", lambda: tg.Decoder(tg.Rng(1), vocab_size=5, n_layer=1, n_head=1, n_embd=4).tokenizer)


if __name__ == "__main__":
    unittest.main()
