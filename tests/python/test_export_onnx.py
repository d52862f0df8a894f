"""Functions of Python's as graphs of ONNX; where Debian's python3-onnx is installed, by its checker, and by its evaluator from 1.13 on."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import tapegrad as tg
from tapegrad import nn

try:
    import onnx
except ImportError:
    onnx = None
try:
    from onnx.reference import ReferenceEvaluator
except ImportError:
    ReferenceEvaluator = None


def attention_by_hand(x, w, hidden):
    q, k, v = tg.split(tg.linear(x, w), [4, 4, 4], -1)
    scores = tg.matmul(q, k, transpose_b=True) * 0.5
    return tg.matmul(tg.softmax(tg.masked_fill(scores, hidden, -np.inf)), v)


class ExportOnnx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "f.onnx"

    def check(self, f, *inputs, **names):
        """The file exists, and onnx computes the same of it."""
        tg.export_onnx(self.file, f, *inputs, **names)
        self.assertGreater(self.file.stat().st_size, 0)
        if onnx is None:
            self.skipTest("python3-onnx is not installed")
        model = onnx.load(self.file)
        onnx.checker.check_model(model, full_check=True)
        if ReferenceEvaluator is None:
            return model
        feeds = {given.name: x.numpy() for given, x in zip(model.graph.input, inputs)}
        results = ReferenceEvaluator(model).run(None, feeds)
        ours = f(*inputs)
        for result, y in zip(results, ours if isinstance(ours, list) else [ours]):
            np.testing.assert_allclose(result, y.numpy(), rtol=1e-4, atol=1e-5)
        return model

    def test_a_module_with_the_names_of_its_parameters(self):
        rng = tg.Rng(1)
        net = nn.Sequential(nn.Linear(rng, 4, 8), tg.gelu, nn.LayerNorm(rng, 8), nn.Linear(rng, 8, 3), tg.softmax)
        model = self.check(net, tg.randn((5, 4), rng), input_names=["x"], output_names=["p"])
        stored = {tensor.name for tensor in model.graph.initializer}
        self.assertLessEqual(set(net.parameters()), stored)
        self.assertEqual([model.graph.input[0].name, model.graph.output[0].name], ["x", "p"])

    def test_attention_by_hand(self):
        rng = tg.Rng(2)
        w, hidden = tg.randn((12, 6), rng), tg.tensor(np.triu(np.ones((5, 5), dtype=bool), 1))
        self.check(lambda x: attention_by_hand(x, w, hidden), tg.randn((2, 5, 6), rng))

    def test_convolutions(self):
        rng = tg.Rng(3)
        w, head = tg.randn((4, 2, 3, 3), rng), tg.randn((3, 4 * 3 * 3), rng)
        self.check(
            lambda x: tg.linear(tg.flatten(tg.max_pool2d(tg.relu(tg.conv2d(x, w, padding=1)), 2), 1), head),
            tg.randn((2, 2, 6, 6), rng),
        )

    def test_several_results_and_ids(self):
        table = tg.randn((7, 3), tg.Rng(4))
        ids = tg.tensor(np.array([[0, 6, 3], [3, 1, 2]], dtype=np.int32))
        self.check(lambda ids: [tg.embedding(table, ids), tg.embedding(table, ids).sum()], ids, parameters={"table": table})

    def test_an_op_of_ones_own_by_its_name_in_onnx(self):
        def softsign(x, onnx):
            return tg.apply("softsign", [x], lambda saved, x: x / (1 + x.abs()), lambda saved, dy: dy, onnx=onnx)

        x = tg.randn((3, 2), tg.Rng(6))
        with self.assertRaisesRegex(tg.Error, r"\[softsign\].*no row"):
            tg.export_onnx(self.file, lambda x: softsign(x, ""), x)
        self.check(lambda x: softsign(x, "Softsign"), x)

    def test_an_op_of_several_outputs_has_an_error_of_its_own(self):
        def halves(x):
            forward = lambda saved, x: [x * 0.5, x * 0.5]
            return tg.apply("halves", [x], forward, lambda saved, a, b: a, onnx="Split")

        with self.assertRaisesRegex(tg.Error, r"\[halves\].*it has 2 outputs"):
            tg.export_onnx(self.file, halves, tg.randn((3, 2), tg.Rng(7)))

    def test_only_exceptions_that_refuse_other_values_are_swallowed(self):
        x = tg.tensor(np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32))

        def positive(x):
            if x.detach().numpy().min() < 0:
                raise ValueError("not positive")
            return x.log()

        tg.export_onnx(self.file, positive, x)
        self.assertTrue(self.file.exists())
        self.file.unlink()
        calls = []

        def interrupted(x):
            calls.append(x)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return x * 2

        self.assertRaises(KeyboardInterrupt, tg.export_onnx, self.file, interrupted, x)
        self.assertFalse(self.file.exists())

    def test_errors_name_the_op(self):
        x = tg.randn((4, 3), tg.Rng(5))
        with self.assertRaisesRegex(tg.Error, r"\[dropout\].*no row"):
            tg.export_onnx(self.file, lambda x: tg.dropout(x, 0.5, tg.Rng(1)), x)
        with self.assertRaisesRegex(tg.Error, "where uses a tensor"):
            tg.export_onnx(self.file, lambda x: tg.where(x > 0, x, x * 0.1), x)
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            tg.export_onnx(self.file, lambda x: x * (1 / 0), x)
        with self.assertRaisesRegex(TypeError, "must be tensors"):
            tg.export_onnx(self.file, lambda x: x, 1.5)
        self.assertFalse(self.file.exists())


if __name__ == "__main__":
    unittest.main()
