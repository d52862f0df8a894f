"""Decoders: opened, their texts and logits, made anew and trained; and what they refuse."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
import tapegrad as tg

PROGRAM = os.environ.get("TAPEGRAD_PROGRAM")
TEXT = "The cat sat on the mat. The dog sat on the log. The cat and the dog sat in the sun.\n" * 20
SMALL = {"vocab_size": 11, "block_size": 8, "n_layer": 2, "n_head": 2, "n_embd": 8}


def program(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@unittest.skipUnless(PROGRAM, "needs the program that trains a model")
class Opened(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "text.txt").write_text(TEXT)
        cls.run_folder = cls.folder / "run"
        size = ("--n-layer", 2, "--n-head", 2, "--n-embd", 32, "--block-size", 32, "--batch-size", 4, "--max-iters", 20)
        program("train", "--corpus", cls.folder / "text.txt", "--out-dir", cls.run_folder, *size)
        cls.model = tg.load(cls.run_folder)

    def test_methods_have_their_names_in_help(self):
        names = [getattr(tg.Decoder, name).__qualname__ for name in ("stream", "generate", "encode", "decode")]
        self.assertEqual(names, ["Decoder.stream", "Decoder.generate", "Decoder.encode", "Decoder.decode"])

    def test_texts_are_those_of_sample_text(self):
        for options in (
            {"seed": 3, "max_new_tokens": 40},
            {"seed": 4, "max_new_tokens": 20, "temperature": 0.5, "top_k": 3, "top_p": 0.9},
            {"max_new_tokens": 30, "greedy": True, "logit_bias": {2: -100}},
        ):
            words = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in options.items()]
            words = [word.replace("={2: -100}", "=2=-100") for word in words]
            with self.subTest(options):
                shown = program("sample", self.run_folder, "The ", *words)
                self.assertEqual(tg.load(self.run_folder, weights="stored").generate("The ", **options), shown[4:-1])
                self.assertEqual(self.model.generate("The ", **options), shown[4:-1])

    def test_numbers_of_numpys_are_numbers(self):
        options = {"max_new_tokens": np.int64(20), "temperature": np.float32(0.5), "top_p": np.float64(0.75), "stop_token_ids": (1,), "greedy": np.bool_(0)}
        plain = {"max_new_tokens": 20, "temperature": 0.5, "top_p": 0.75, "stop_token_ids": [1]}
        self.assertEqual(self.model.generate("The ", **options), self.model.generate("The ", **plain))

    def test_models_of_other_programs_are_opened(self):
        run_folder, hf, gguf = (self.folder / name for name in ("bpe", "hf", "model.gguf"))
        size = ("--n-layer", 1, "--n-head", 2, "--n-embd", 32, "--block-size", 32, "--batch-size", 2, "--max-iters", 3)
        program("train", "--corpus", self.folder / "text.txt", "--tokenizer", "bpe:270", "--out-dir", run_folder, *size)
        program("export", "--model", run_folder, "--format", "hf", "-o", hf)
        program("export", "--model", run_folder, "--format", "gguf", "--dtype", "q8_0", "-o", gguf)
        for path in (hf, gguf):
            text = json.loads(program("sample", path, "The ", "-n", 20, "--json"))["text"]
            self.assertEqual(tg.load(path).generate("The ", max_new_tokens=20), text)
        self.assertTrue(tg.load(gguf).all_quantized())
        self.assertFalse(tg.load(hf).all_quantized())

    def test_a_stream_has_the_pieces_of_the_text(self):
        pieces = self.model.stream("The ", max_new_tokens=30)
        first = next(pieces)
        self.assertIsInstance(first, str)
        self.assertEqual(first + "".join(pieces), self.model.generate("The ", max_new_tokens=30))
        self.assertRaises(StopIteration, next, pieces)

    def test_a_packed_model_makes_texts_and_has_no_matrices_to_train(self):
        packed = tg.load(self.run_folder, weights="q8_0")
        self.assertEqual(len(packed.encode(packed.generate("The ", max_new_tokens=9))), 9)
        self.assertNotIn("h.0.attn.c_attn.weight", packed.parameters())
        ids = tg.tensor([packed.encode("The cat")])
        difference = np.abs(packed.logits(ids).numpy() - self.model.logits(ids).numpy()).max()
        self.assertTrue(0 < difference < 0.1, difference)

    def test_tokens_logits_and_states(self):
        ids = self.model.encode("The cat")
        self.assertEqual(self.model.decode(ids), "The cat")
        rows = tg.tensor([ids, ids])
        logits, hidden = self.model.logits(rows), self.model.hidden(rows)
        self.assertEqual(logits.shape, (2, 7, self.model.config["vocab_size"]))
        self.assertEqual(hidden.shape, (2, 7, 32))
        self.assertEqual(self.model.embed(rows).shape, (2, 7, 32))
        np.testing.assert_array_equal(self.model.head(hidden).numpy(), logits.numpy())

    def test_the_config_and_the_parameters_are_those_of_the_model(self):
        config = self.model.config
        self.assertEqual((config["n_layer"], config["block_size"], config["arch"]), (2, 32, "gpt2"))
        model = tg.load(self.run_folder)
        parameters = model.parameters()
        self.assertEqual(parameters["wte.weight"].shape, (config["vocab_size"], 32))
        ids = tg.tensor([[1, 2]])
        before = model.logits(ids).tolist()
        parameters["ln_f.weight"] *= 2
        self.assertNotEqual(model.logits(ids).tolist(), before)

    def test_other_threads_run_beside_a_text_which_has_one_reader_and_ends_by_ctrl_c(self):
        go, texts, heard = threading.Lock(), [], []

        def other():
            with go:
                texts.append(self.model.generate("The ", max_new_tokens=50))
                os.kill(os.getpid(), signal.SIGINT)

        def hear(*_):
            try:
                heard.append(next(pieces))
            except tg.Error as error:  # the signal is heard while the first reader waits for a piece
                heard.append(str(error))
            raise KeyboardInterrupt

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, hear))
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1000)  # other threads run only where this one lets them
        pieces, thread = self.model.stream("The ", max_new_tokens=10**5), threading.Thread(target=other)
        go.acquire()
        thread.start()
        go.release()
        with self.assertRaises(KeyboardInterrupt):
            "".join(pieces)
        thread.join()
        self.assertEqual(texts, [self.model.generate("The ", max_new_tokens=50)])
        self.assertRegex(heard[0], "another thread waits for this text")
        self.assertEqual(list(pieces), [])

    def test_what_is_refused_is_an_exception_with_a_sentence(self):
        for call, error, text in [
            (lambda: tg.load(self.folder / "nothing"), tg.Error, "does not exist"),
            (lambda: tg.load(self.folder), tg.Error, "no model"),
            (lambda: tg.load(self.folder / "text.txt"), tg.Error, "no model|not a|none"),
            (lambda: tg.load(self.run_folder, weights="q99"), tg.Error, "q99"),
            (lambda: tg.load(self.run_folder, checkpoint="7"), tg.Error, "7"),
            (lambda: tg.load(self.run_folder, weights="stored", dtype=tg.f64), tg.Error, "f32 alone"),
            (lambda: self.model.generate("Ж"), tg.Error, "Ж|not in"),
            (lambda: self.model.generate("The", warmth=2), TypeError, "unexpected keyword argument 'warmth'"),
            (lambda: self.model.generate("The", top_p=2), tg.Error, "'top_p' must be from 0 to 1, not 2"),
            (lambda: self.model.generate("The", top_k="many"), tg.Error, "'top_k' must be a whole number"),
            (lambda: self.model.stream("The", top_k=self), TypeError, r"stream\(\) got top_k="),
            (lambda: self.model.generate("The", temperature=np.array(0.3)), TypeError, r"generate\(\) got temperature="),
            (lambda: self.model.generate("The", greedy=tg.ones(())), TypeError, r"generate\(\) got greedy="),
            (lambda: self.model.generate("The", stop_token_ids=["x"]), tg.Error, "^stop_token_ids: 'x' is not the number of a token"),
            (lambda: self.model.generate("The", logit_bias=["5"]), tg.Error, "^logit_bias: '5' must be a token and a number"),
            (lambda: self.model.generate(7), TypeError, "incompatible function arguments"),
            (lambda: self.model.decode([10**6]), tg.Error, "1000000"),
            (lambda: self.model.logits(tg.tensor([1, 2])), tg.Error, r"ids must be \(B, T\)"),
            (lambda: self.model.logits(tg.tensor([[1.0]])), tg.Error, "f32"),
            (lambda: self.model.logits(tg.tensor([[999]])), tg.Error, "999"),
        ]:
            with self.subTest(text):
                self.assertRaisesRegex(error, text, call)


class Made(unittest.TestCase):
    def test_a_decoder_learns_by_a_loop_of_ones_own(self):
        model = tg.Decoder(tg.Rng(1), **SMALL)
        optimizer = tg.AdamW(model.parameters(), lr=3e-2)
        schedule = tg.Schedule(learning_rate=3e-2, min_lr=1e-3, lr_decay_iters=60)
        ids, targets = tg.tensor([[1, 2, 3, 4]]), tg.tensor([[2, 3, 4, 5]])
        for step in range(60):
            with tg.Tape() as tape:
                loss = model.loss(ids, targets)
                tape.backward(loss)
            tg.clip_grad_norm(model.parameters(), 1.0)
            optimizer.step(schedule(step))
            optimizer.zero_grad()
            if step == 0:
                self.assertAlmostEqual(loss.item(), np.log(11), delta=0.2)
        self.assertLess(loss.item(), 0.1)
        self.assertEqual(tg.argmax(model.logits(ids), -1).tolist(), [[2, 3, 4, 5]])

    def test_config_reaches_the_model(self):
        model = tg.Decoder(tg.Rng(1), dtype=tg.f64, arch="llama", n_kv_head=1, **SMALL)
        self.assertEqual((model.config["norm"], model.config["n_kv_head"]), ("rms", 1))
        self.assertEqual(model.logits(tg.tensor([[1]])).dtype, tg.f64)

    def test_wrong_configs_are_refused(self):
        for options, error, text in [
            ({"n_layer": 0}, tg.Error, "'n_layer' must be from 1 to 4096, not 0"),
            ({"arch": "bert"}, tg.Error, "'arch' must be one of gpt2, llama, not bert"),
            ({"layers": 3}, TypeError, "unexpected keyword argument 'layers'"),
            ({"n_embd": 7}, tg.Error, "n_embd|n_head"),
            ({"n_layer": "two"}, tg.Error, "'n_layer' must be a whole number"),
            ({"n_layer": None}, tg.Error, "'n_layer' must be"),
            ({"n_layer": 2**40}, tg.Error, "'n_layer' must be"),
            ({"n_layer": 2**80}, tg.Error, "'n_layer' must be"),
            ({"n_layer": self}, TypeError, r"Decoder\(\) got n_layer="),
        ]:
            with self.subTest(options):
                self.assertRaisesRegex(error, text, lambda: tg.Decoder(tg.Rng(1), **{**SMALL, **options}))
        self.assertRaisesRegex(tg.Error, "no tokenizer", tg.Decoder(tg.Rng(1), **SMALL).generate, "a")
        self.assertRaisesRegex(tg.Error, "no tokenizer", tg.Decoder(tg.Rng(1), **SMALL).encode, "a")


if __name__ == "__main__":
    unittest.main()
