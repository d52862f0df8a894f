"""The adapter for lm-evaluation-harness, against `tapegrad evaluate` and the model's own losses."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import tapegrad as tg
from tapegrad.lm_eval import TapegradLM

PROGRAM = os.environ.get("TAPEGRAD_PROGRAM")
TEXT = "The cat sat on the mat. The dog sat on the log. The cat and the dog sat in the sun.\n" * 20


def requests(*arguments):
    return [types.SimpleNamespace(args=each) for each in arguments]


class Adapter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "text.txt").write_text(TEXT)
        size = {"n_layer": 2, "n_head": 2, "n_embd": 32, "block_size": 32, "batch_size": 4, "max_iters": 60}
        cls.run_folder = tg.train(cls.folder / "text.txt", tokenizer="bpe:270", out_dir=cls.folder / "run", progress=False, **size).path
        cls.lm = TapegradLM(cls.run_folder, batch_size="auto", device="cpu")

    @unittest.skipUnless(PROGRAM, "needs the program to compare with")
    def test_log_likelihoods_are_those_of_evaluate(self):
        items = [
            {"context": "The cat sat on the", "choices": ["mat.", "log.", "dog sat in"]},
            {"context": "The ", "choices": ["dog", "cat and the"]},
            {"context": "The cat sat on the mat. The dog sat on the log. " * 4, "choices": ["The cat", "sun"]},
            {"context": "", "choices": ["The cat", "sat"]},
        ]
        task = {"doc_to_text": "{{ context }}", "doc_to_choice": "choices", "doc_to_target": "0", "target_delimiter": ""}
        (self.folder / "task.json").write_text(json.dumps(task))
        (self.folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
        lines = self.folder / "lines.jsonl"
        call = [PROGRAM, "evaluate", self.run_folder, "--task", self.folder / "task.json", "--items", self.folder / "items.jsonl", "--per-item", lines]
        subprocess.run([str(word) for word in call], check=True, capture_output=True)
        theirs = [json.loads(line)["logprobs"] for line in lines.read_text().splitlines()[1:]]
        for item, logprobs in zip(items, theirs, strict=True):
            ours = self.lm.loglikelihood(requests(*[(item["context"], choice) for choice in item["choices"]]))
            np.testing.assert_allclose([logprob for logprob, _ in ours], logprobs, rtol=1e-4, atol=1e-5)

    def test_greedy_is_what_the_model_would_write(self):
        written = self.lm.model.generate("The cat", greedy=True, max_new_tokens=3)
        (_, likeliest), (_, other) = self.lm.loglikelihood(requests(("The cat", written), ("The cat", "zzz")))
        self.assertTrue(likeliest)
        self.assertFalse(other)

    def test_rolling_predicts_each_token_once(self):
        for text in (TEXT[:40], TEXT[:500]):
            ids = self.lm.model.encode(text)
            tokens = self.lm.model.encode("", prompt=True)[-1:] + ids
            expected = 0.0
            for begin in range(0, len(ids), 32):
                end = min(begin + 32, len(ids))
                first = max(0, end - 32)
                logits = self.lm.model.logits(tg.tensor([tokens[first:end]]))[0]
                each = tg.log_softmax(logits, -1).numpy()[np.arange(end - first), tokens[first + 1 : end + 1]]
                expected += each[begin - first :].sum()
            (ours,) = self.lm.loglikelihood_rolling(requests((text,)))
            self.assertAlmostEqual(ours / expected, 1, places=5)
        self.assertEqual(len(self.lm.model.encode(TEXT[:40])) <= 32, True)
        (whole,) = self.lm.loglikelihood_rolling(requests((TEXT[:40],)))
        ids = self.lm.model.encode("", prompt=True)[-1:] + self.lm.model.encode(TEXT[:40])
        loss = self.lm.model.loss(tg.tensor([ids[:-1]]), tg.tensor([ids[1:]])).item()
        self.assertAlmostEqual(-whole / (len(ids) - 1), loss, places=5)

    def test_texts_end_before_their_stops(self):
        whole = self.lm.model.generate("The cat", greedy=True, max_new_tokens=20)
        stop = whole[5:8]
        (short, long, drawn) = self.lm.generate_until(
            requests(
                ("The cat", {"until": [stop, "\n\n"], "max_gen_toks": 20}),
                ("The cat", {"until": "no such text", "max_gen_toks": 20, "do_sample": False, "temperature": 0.0}),
                (TEXT, {"until": [], "max_gen_toks": 4, "do_sample": True, "temperature": 0.5}),
            )
        )
        self.assertEqual((short, long), (whole[: whole.find(stop)], whole))
        self.assertTrue(drawn)
        self.assertRaisesRegex(tg.Error, "max_gen_toks is 32", self.lm.generate_until, requests(("a", {"max_gen_toks": 32})))

    def test_a_continuation_without_tokens_is_an_error(self):
        self.assertRaisesRegex(tg.Error, "has 0 tokens", self.lm.loglikelihood, requests(("The cat", "")))
        self.assertRaisesRegex(tg.Error, "from 1 to 32", self.lm.loglikelihood, requests(("The", TEXT)))

    def test_lm_eval_gets_it_by_name(self):
        names = {}
        model, registry = types.ModuleType("lm_eval.api.model"), types.ModuleType("lm_eval.api.registry")
        model.LM = type("LM", (), {})
        registry.register_model = lambda name: lambda c: names.setdefault(name, c)
        modules = {"lm_eval": types.ModuleType("lm_eval"), "lm_eval.api": types.ModuleType("lm_eval.api"), model.__name__: model, registry.__name__: registry}
        import tapegrad.lm_eval as adapter

        self.addCleanup(importlib.reload, adapter)
        with mock.patch.dict(sys.modules, modules):
            importlib.reload(adapter)
        self.assertTrue(issubclass(names["tapegrad"], model.LM))
        self.assertEqual(names["tapegrad"](self.run_folder).most, 32)


if __name__ == "__main__":
    unittest.main()
