"""tg.train(): the numbers of the command line, callbacks, interrupts, progress; and runs that are opened."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import tapegrad as tg

PROGRAM = os.environ.get("TAPEGRAD_PROGRAM")
TEXT = "The cat sat on the mat. The dog sat on the log. The cat and the dog sat in the sun.\n" * 20
SMALL = {"n_layer": 2, "n_head": 2, "n_embd": 32, "block_size": 32, "batch_size": 4, "max_iters": 20, "eval_interval": 10, "log_interval": 5}
FILES = ("model.safetensors", "optimizer.safetensors", "config.json", "tokenizer.json")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text(TEXT)

    def train(self, name="run", **options):
        return tg.train(self.text, out_dir=self.folder / name, progress=False, **{**SMALL, **options})

    def assert_same(self, a, b, files=FILES):
        for file in files:
            self.assertEqual((self.folder / a / file).read_bytes(), (self.folder / b / file).read_bytes(), file)


class Numbers(Case):
    @unittest.skipUnless(PROGRAM, "needs the program to compare with")
    def test_a_run_has_the_bits_of_the_command_line(self):
        for more in ({}, {"preset": "llama-char", "optimizer": "lion", "learning_rate": 1e-3, "dropout": 0.1, "seed": 3, "tokenizer": "bpe:270", "sample": False}):
            run = self.train("here", overwrite=True, **more)
            words = [f"--{name.replace('_', '-')}={value}" for name, value in {**SMALL, **more}.items()]
            words = [word.replace("=False", "=no") for word in words]
            there = [PROGRAM, "train", self.text, "--overwrite", "--out-dir", self.folder / "there", *words]
            subprocess.run([str(word) for word in there], check=True, capture_output=True)
            self.assert_same("here", "there")
            other = tg.Run(self.folder / "there").metrics
            self.assertEqual(set(run.metrics), set(other))
            for name in ("iteration", "loss", "norm", "lr", "val_loss", "train_loss"):
                np.testing.assert_array_equal(run.metrics[name], other[name])

    def test_a_resumed_run_goes_on(self):
        self.train("whole")
        self.train("parts", max_iters=8, lr_decay_iters=20)
        self.train("parts", init_from="resume")
        self.assert_same("whole", "parts", FILES[:2])


class Names(Case):
    def test_files_have_names_of_any_bytes(self):
        strange = Path(os.fsdecode(os.fsencode(self.folder) + b"/\xff"))
        strange.mkdir()
        texts = strange / "texts"
        texts.mkdir()
        (texts / os.fsdecode(b"te\xfext.txt")).write_text(TEXT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            run = tg.train(texts, out_dir=strange / "run", **SMALL)
        self.assertEqual(run.path, strange / "run")
        self.assertIn("te\ufffdxt.txt: ", printed.getvalue())
        self.assertIn("&lt;svg", run._repr_html_())
        with self.assertRaisesRegex(tg.Error, "cannot read .*\ufffd.*No such file"):
            tg.train(strange / "nothing", out_dir=strange / "other", progress=False, **SMALL)


class Callbacks(Case):
    def test_each_step_and_evaluation_reaches_the_callback(self):
        seen = []
        run = self.train(callback=lambda step, metrics: seen.append((step, metrics)), sample_interval=10)
        steps = [(step, numbers) for step, numbers in seen if "ms" in numbers]
        self.assertEqual([step for step, _ in steps], list(range(20)))
        at = run.metrics["iteration"].tolist()
        for step, numbers in steps[::5]:
            self.assertEqual(numbers["loss"], run.metrics["loss"][at.index(step)])
        evaluated = {step: numbers["val_loss"] for step, numbers in seen if "val_loss" in numbers}
        self.assertEqual(list(evaluated), [0, 10, 20])
        self.assertTrue(any("sample" in numbers for _, numbers in seen))

    def test_an_exception_ends_the_run_which_is_saved(self):
        class Enough(Exception):
            pass

        def stop(step, metrics):
            if step == 8:
                raise Enough(step)

        with self.assertRaises(Enough):
            self.train("parts", callback=stop)
        self.train("parts", init_from="resume")
        self.train("whole")
        self.assert_same("whole", "parts", FILES[:2])

    def test_a_callback_may_compute_but_not_train(self):
        def callback(step, metrics):
            if step == 1:
                w = tg.ones((200, 200)).set_requires_grad()
                with tg.Tape() as tape:
                    tape.backward(tg.sum(tg.matmul(w, w)))
                self.train("other")

        self.assertRaisesRegex(tg.Error, "trains already: one run at a time", self.train, callback=callback)
        self.train("other", max_iters=1)

    def test_other_threads_run_meanwhile(self):
        counted, ended = [0], threading.Event()

        def count():
            while not ended.is_set():
                counted[0] += 1
                ended.wait(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        self.train(callback=None)
        ended.set()
        thread.join()
        self.assertGreater(counted[0], before)


class Interrupts(Case):
    def interrupted(self, name, send):
        """A run that is sent a signal behind step 8, from another thread."""
        ready = threading.Event()
        thread = threading.Thread(target=lambda: (ready.wait(), send()))
        thread.start()
        try:
            self.train(name, max_iters=100_000, eval_interval=100_000, callback=lambda step, metrics: step == 8 and ready.set())
        finally:
            thread.join()

    def test_ctrl_c_ends_a_run_with_its_checkpoint(self):
        def twice():
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            self.interrupted("run", twice)
        self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        made = json.loads((self.folder / "run" / "trainer.json").read_text())["iteration"]
        self.assertGreater(made, 8)
        seen = []
        run = self.train(init_from="resume", max_iters=made + 2, callback=lambda step, metrics: seen.append(step))
        self.assertEqual((min(seen), max(seen)), (made, made + 2))
        self.assertIn("SIGINT", (run.path / "sessions.jsonl").read_text())
        with self.assertRaises(KeyboardInterrupt):  # as ever
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(60)

    def test_a_handler_of_ones_own_decides(self):
        heard = []
        old = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
        self.addCleanup(signal.signal, signal.SIGINT, old)
        self.interrupted("run", lambda: os.kill(os.getpid(), signal.SIGINT))
        self.assertEqual(heard, [1])
        self.assertTrue((self.folder / "run" / "model.safetensors").exists())

    def test_sigterm_ends_the_process_once_the_run_is_saved(self):
        program = (
            "import os, signal, sys, tapegrad as tg\n"
            f"tg.train(sys.argv[1], out_dir=sys.argv[2], **{({**SMALL, 'max_iters': 100_000})!r},\n"
            "  callback=lambda step, metrics: step == 8 and os.kill(os.getpid(), signal.SIGTERM))\n"
        )
        ended = subprocess.run([sys.executable, "-c", program, str(self.text), str(self.folder / "run")], capture_output=True, check=False)
        self.assertEqual(ended.returncode, -signal.SIGTERM)
        self.assertEqual(json.loads((self.folder / "run" / "trainer.json").read_text())["iteration"], 9)


class Options(Case):
    def test_unknown_names_suggest_the_nearest(self):
        for name, text in [("n_layr", "'n_layr'; did you mean n_layer?"), ("learning_rat", "did you mean learning_rate?"), ("xqzw", "'xqzw'$")]:
            self.assertRaisesRegex(TypeError, text, self.train, **{name: 1})
        self.assertFalse((self.folder / "run").exists())

    def test_values_that_break_a_rule_are_errors_by_their_names(self):
        for options, text in [
            ({"n_layer": 0}, r"^\[train\] n_layer"),
            ({"optimizer": "adamm"}, "optimizer"),
            ({"n_head": 3}, "n_embd"),
            ({"max_minutes": 1}, "max_minutes and max_iters both"),
            ({"plan": True}, "tapegrad train --plan"),
        ]:
            with self.subTest(options):
                self.assertRaisesRegex(tg.Error, text, self.train, **options)
        self.assertRaisesRegex(tg.Error, "No such file", self.train, val=self.folder / "nothing")

    def test_none_is_not_given_and_numbers_of_numpys_are_numbers(self):
        run = self.train(n_layer=np.int64(1), learning_rate=np.float64(1e-3), lora_rank=None, dropout=np.float32(0.5), max_iters=1)
        self.assertEqual(run.config["model"]["n_layer"], 1)
        self.assertEqual(run.config["optimizer"]["learning_rate"], 1e-3)


class Shown(Case):
    def shown(self, **options):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            tg.train(self.text, out_dir=self.folder / "run", overwrite=True, **{**SMALL, **options})
        return out.getvalue()

    def test_lines_go_where_python_prints(self):
        with mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            shown = self.shown()
            self.assertIn("iter 5: loss ", shown)
            self.assertIn("step 20: train loss ", shown)
            self.assertIn("sample:", shown)
            self.assertEqual(self.shown(progress=False), "")

    def test_a_bar_of_tqdms_counts_steps(self):
        bars = []

        class Bar:
            def __init__(self, **options):
                self.options, self.count, self.closed = options, 0, False
                bars.append(self)

            def set_postfix(self, loss, refresh):
                float(loss)

            def update(self):
                self.count += 1

            def close(self):
                self.closed = True

            @staticmethod
            def write(line):
                print(line)

        auto = types.ModuleType("tqdm.auto")
        auto.tqdm = Bar
        with mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": auto}):
            self.assertIn("iter 15: loss ", self.shown())
        (bar,) = bars
        self.assertEqual((bar.options["total"], bar.options["initial"], bar.count, bar.closed), (20, 0, 20, True))

    def test_an_exception_of_what_prints_comes_out(self):
        class Broken(io.StringIO):
            def write(self, text):
                raise OSError("full")

        with mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}), contextlib.redirect_stdout(Broken()):
            self.assertRaisesRegex(OSError, "full", tg.train, self.text, out_dir=self.folder / "run", **SMALL)


class Runs(Case):
    def test_a_folder_opens_as_what_train_returns(self):
        run = self.train()
        again = tg.Run(str(self.folder / "run"))
        self.assertEqual(again.path, run.path)
        metrics = again.metrics
        self.assertEqual(metrics["iteration"].dtype, np.int64)
        self.assertTrue(all(len(column) == len(metrics["iteration"]) for column in metrics.values()))
        self.assertEqual(np.isfinite(metrics["val_loss"]).sum(), 3)
        self.assertLess(metrics["loss"][-2], metrics["loss"][0])
        self.assertEqual(again.model().config["n_layer"], 2)
        self.assertEqual(again.model().generate("The ", greedy=True, max_new_tokens=5), tg.load(run.path).generate("The ", greedy=True, max_new_tokens=5))
        self.assertRaisesRegex(tg.Error, "there is no run here", tg.Run, self.folder)

    def test_a_notebook_shows_the_curves_of_the_loss(self):
        run = self.train("<run>")
        shown = run._repr_html_()
        self.assertIn("&lt;path", shown)
        self.assertIn("validation loss", shown)
        self.assertNotIn("<run>", shown)
        self.assertNotIn("<script", shown)

    def test_a_frame_is_one_of_pandas_by_iteration(self):
        pandas = types.ModuleType("pandas")
        pandas.DataFrame = lambda columns: types.SimpleNamespace(set_index=lambda name: (columns, name))
        with mock.patch.dict(sys.modules, {"pandas": pandas}):
            columns, index = self.train(max_iters=2).frame()
        self.assertEqual(index, "iteration")
        self.assertIn("loss", columns)
        with mock.patch.dict(sys.modules, {"pandas": None}):
            self.assertRaises(ImportError, tg.Run(self.folder / "run").frame)


if __name__ == "__main__":
    unittest.main()
