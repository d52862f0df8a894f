"""Values of ops against NumPy's formulas, and their gradients against central differences."""

import json
import math
import os
import unittest
from pathlib import Path

import numpy as np
import tapegrad as tg
from differences import assert_gradients

RANDOM = np.random.default_rng(7)


def normal(*shape):
    return RANDOM.standard_normal(shape)


def positive(*shape):
    return RANDOM.uniform(0.5, 2, shape)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


IDS = np.array([[2, 0], [1, 1]], dtype=np.int32)

# (op, NumPy's formula, inputs in f64)
CASES = {
    "add": (tg.add, np.add, [normal(2, 3), normal(3)]),
    "div": (tg.div, np.divide, [normal(2, 3), positive(2, 1)]),
    "pow": (tg.pow, np.power, [positive(2, 3), normal(3)]),
    "pow by a number": (lambda x: tg.pow(x, 3), lambda x: x**3, [normal(4)]),
    "maximum": (tg.maximum, np.maximum, [normal(5), normal(5)]),
    "exp": (tg.exp, np.exp, [normal(3)]),
    "log1p": (tg.log1p, np.log1p, [positive(3)]),
    "atan2": (tg.atan2, np.arctan2, [normal(4), positive(4)]),
    "erf": (tg.erf, np.vectorize(math.erf), [normal(4)]),
    "relu": (tg.relu, lambda x: np.maximum(x, 0), [normal(6)]),
    "clamp": (lambda x: tg.clamp(x, low=-0.5, high=0.5), lambda x: np.clip(x, -0.5, 0.5), [normal(6)]),
    "gelu": (lambda x: tg.gelu(x, form="erf"), lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5)), [normal(4)]),
    "softplus": (lambda x: tg.softplus(x, 2), lambda x: np.log1p(np.exp(2 * x)) / 2, [normal(4)]),
    "clamped_swiglu": (tg.clamped_swiglu,
                       lambda g, u: np.minimum(g, 7) / (1 + np.exp(-1.702 * np.minimum(g, 7))) * (np.clip(u, -7, 7) + 1),
                       [normal(4), normal(4)]),
    "swiglu": (tg.swiglu, lambda g, u: g / (1 + np.exp(-g)) * u, [normal(4), normal(4)]),
    "sum": (lambda x: tg.sum(x, 0), lambda x: x.sum(0), [normal(2, 3)]),
    "mean": (lambda x: tg.mean(x, [0, 2], keepdim=True), lambda x: x.mean((0, 2), keepdims=True), [normal(2, 3, 4)]),
    "var": (tg.var, lambda x: x.var(ddof=1), [normal(5)]),
    "norm": (lambda x: tg.norm(x, dims=-1), lambda x: np.linalg.norm(x, axis=-1), [normal(2, 3)]),
    "prod": (tg.prod, np.prod, [normal(4)]),
    "max along a dimension": (lambda x: tg.max(x, 1).values, lambda x: x.max(1), [normal(2, 3)]),
    "cumsum": (lambda x: tg.cumsum(x, 1), lambda x: x.cumsum(1), [normal(2, 3)]),
    "sort": (lambda x: tg.sort(x, descending=True).values, lambda x: -np.sort(-x), [normal(2, 4)]),
    "matmul": (lambda a, b: tg.matmul(a, b, transpose_b=True), lambda a, b: a @ b.T, [normal(2, 3), normal(4, 3)]),
    "linear": (tg.linear, lambda x, w, b: x @ w.T + b, [normal(5, 3), normal(2, 3), normal(2)]),
    "linear without bias": (tg.linear, lambda x, w: x @ w.T, [normal(5, 3), normal(2, 3)]),
    "einsum": (lambda a, b: tg.einsum("bij,bjk->bik", [a, b]), lambda a, b: a @ b, [normal(2, 2, 3), normal(2, 3, 2)]),
    "softmax": (tg.softmax, softmax, [normal(2, 3)]),
    "log_sum_exp": (lambda x: tg.log_sum_exp(x, dim=0), lambda x: np.log(np.exp(x).sum(0)), [normal(2, 3)]),
    "layer_norm": (
        lambda x, w: tg.layer_norm(x, weight=w, eps=1e-3),
        lambda x, w: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3) * w,
        [normal(2, 5), normal(5)],
    ),
    "rms_norm": (tg.rms_norm, lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5), [normal(2, 5)]),
    "where": (lambda a, b: tg.where(a > b, a, b * 2), lambda a, b: np.where(a > b, a, b * 2), [normal(5), normal(5)]),
    "reshape": (lambda x: tg.reshape(x, (3, -1)), lambda x: x.reshape(3, -1), [normal(2, 3)]),
    "permute": (lambda x: tg.permute(x, [2, 0, 1]), lambda x: x.transpose(2, 0, 1), [normal(2, 3, 4)]),
    "concat": (lambda a, b: tg.concat([a, b], 1), lambda a, b: np.concatenate([a, b], 1), [normal(2, 3), normal(2, 1)]),
    "split": (lambda x: tg.split(x, [1, 2], 0)[1], lambda x: x[1:], [normal(3, 2)]),
    "gather_rows": (lambda x: tg.gather_rows(x, tg.tensor(IDS)), lambda x: x[IDS], [normal(3, 2)]),
    "roll": (lambda x: tg.roll(x, 1, 0), lambda x: np.roll(x, 1, 0), [normal(3, 2)]),
    "tril": (tg.tril, np.tril, [normal(3, 3)]),
    "mse_loss": (tg.mse_loss, lambda x, t: ((x - t) ** 2).mean(), [normal(4), normal(4)]),
    "huber_loss": (
        lambda x, t: tg.huber_loss(x, t, delta=0.5, reduction="sum"),
        lambda x, t: np.where(abs(x - t) < 0.5, (x - t) ** 2 / 2, 0.5 * (abs(x - t) - 0.25)).sum(),
        [normal(6), normal(6)],
    ),
    "cross_entropy": (
        lambda x: tg.cross_entropy(x, tg.tensor(np.array([2, 0], dtype=np.int32))),
        lambda x: -np.log(softmax(x)[[0, 1], [2, 0]]).mean(),
        [normal(2, 3)],
    ),
    "conv2d of one pixel": (
        lambda x, w: tg.conv2d(x, w, stride=(1, 2)),
        lambda x, w: np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0])[..., ::2],
        [normal(1, 2, 3, 4), normal(3, 2, 1, 1)],
    ),
    "avg_pool2d": (
        lambda x: tg.avg_pool2d(x, 2),
        lambda x: x.reshape(1, 1, 2, 2, 2, 2).mean((3, 5)),
        [normal(1, 1, 4, 4)],
    ),
    "grid_sample": (
        lambda x: tg.grid_sample(x, tg.affine_grid(tg.tensor(np.array([[[-1.0, 0, 0], [0, 1, 0]]])), 2), mode="nearest"),
        lambda x: np.flip(x, -1),
        [normal(1, 1, 2, 2)],
    ),
    "upsample": (lambda x: tg.upsample_by(x, 2), lambda x: x.repeat(2, -1).repeat(2, -2), [normal(1, 1, 2, 2)]),
    "attention": (
        lambda q, k, v: tg.attention(q, k, v, n_head=1, causal=False, scores=tg.ScoreOptions(scale=0.5)),
        lambda q, k, v: softmax(0.5 * q @ k.transpose(0, 2, 1)) @ v,
        [normal(1, 3, 4), normal(1, 3, 4), normal(1, 3, 4)],
    ),
    "rope there and back": (
        lambda x: tg.rope(tg.rope(x, 4, first=3), 4, first=3, back=True),
        lambda x: x,
        [normal(2, 4)],
    ),
}


class Ops(unittest.TestCase):
    def test_values_are_those_of_numpys_formulas(self):
        for name, (op, formula, arrays) in CASES.items():
            with self.subTest(name):
                y = op(*[tg.tensor(a) for a in arrays])
                self.assertEqual(y.dtype, tg.f64)
                self.assertEqual(y.shape, np.shape(formula(*arrays)))
                np.testing.assert_allclose(y.numpy(), formula(*arrays), rtol=1e-9, atol=1e-12)

    def test_gradients_are_those_of_central_differences(self):
        for name, (op, _, arrays) in CASES.items():
            with self.subTest(name):
                assert_gradients(self, op, *arrays)

    def test_dropout_draws_from_the_generator_that_is_passed(self):
        x = tg.ones((100,))
        first = tg.dropout(x, 0.5, tg.Rng(1)).tolist()
        self.assertEqual(first, tg.dropout(x, 0.5, tg.Rng(1)).tolist())
        self.assertNotEqual(first, tg.dropout(x, 0.5, tg.Rng(2)).tolist())
        self.assertEqual(set(first), {0.0, 2.0})

    def test_results_of_several_tensors_are_named_tuples(self):
        values, indices = tg.topk(tg.tensor([3.0, 9.0, 5.0]), k=2)
        self.assertEqual(values.tolist(), [9, 5])
        self.assertEqual(indices.tolist(), [1, 2])
        self.assertEqual(tg.lstm(tg.zeros((2, 1, 4)), tg.zeros((1, 1)), tg.zeros((1, 1)), tg.zeros((4, 1)))._fields, ("y", "h", "c"))

    def test_images_change_by_the_draws_of_a_generator(self):
        golden = json.loads(Path(os.environ["TAPEGRAD_SOURCE_DIR"], "tests", "golden", "image_transforms.json").read_text())
        images = tg.tensor(golden["images"]).view(golden["shape"])
        for name, change in {
            "crop": lambda rng: tg.random_crop(images, rng, height=4, width=3, padding=2),
            "horizontal flip": lambda rng: images.random_horizontal_flip(rng),
            "cutout": lambda rng: tg.cutout(images, rng, 2),
            "normalize": lambda rng: tg.normalize_channels(images, [0.25, -1.5], [0.3, 7.0]),
        }.items():
            with self.subTest(name):
                changed, expected = change(tg.Rng(5)), golden["cases"][name]
                self.assertEqual(changed.shape, tuple(expected["shape"]))
                self.assertEqual(changed.reshape([-1]).tolist(), expected["values"])

    def test_rows_are_split_and_drawn_as_pytorch_does(self):
        golden = json.loads(Path(os.environ["TAPEGRAD_SOURCE_DIR"], "tests", "golden", "row_selection.json").read_text())
        for split in golden["splits"]:
            x, lengths = tg.arange(split["rows"], dtype=tg.i64), split["lengths"]
            if isinstance(lengths[0], float):
                lengths = tg.split_lengths(split["rows"], lengths)
            parts = tg.random_split([x, x * 2], lengths, tg.Rng(split["seed"]))
            self.assertEqual([part[0].tolist() for part in parts], split["parts"])
            self.assertEqual([part[1].tolist() for part in parts], [[2 * row for row in part] for part in split["parts"]])
        for sample in golden["samples"]:
            rows = tg.weighted_sample(golden["weights"], len(sample["rows"]), tg.Rng(sample["seed"]), sample["replacement"])
            self.assertEqual(rows, sample["rows"])
        self.assertEqual(tg.rows_at([tg.tensor([5.0, 6.0, 7.0])], [2, 0])[0].tolist(), [7, 5])

    def test_wrong_arguments_are_exceptions_with_a_sentence(self):
        x = tg.ones((2, 3))
        for call, error, text in [
            (lambda: tg.matmul(x, x), tg.Error, r"\[matmul\] inner dimensions differ: a is \(2, 3\), b is \(2, 3\)"),
            (lambda: tg.gelu(x, form="tan"), tg.Error, "form is 'tan', but must be one of 'tanh', 'erf'"),
            (lambda: tg.exp(tg.tensor([1, 2])), tg.Error, "works in f32 and f64, not in i64"),
            (lambda: tg.add(x, None), TypeError, "incompatible function arguments"),
            (lambda: tg.clamp(x, tg.tensor(0.0), 1), TypeError, "incompatible function arguments"),
            (lambda: tg.reshape(x, "ab"), TypeError, "incompatible function arguments"),
            (lambda: tg.reshape(x, (1,) * 9), tg.Error, "at most 8 dimensions"),
            (lambda: tg.cross_entropy(x, tg.tensor([0, 3], dtype=tg.i32)), tg.Error, "3"),
            (lambda: tg.zeros((2**40, 2**40)), tg.Error, "more elements than can be counted"),
        ]:
            self.assertRaisesRegex(error, text, call)

    def test_error_is_a_runtime_error(self):
        self.assertTrue(issubclass(tg.Error, RuntimeError))


if __name__ == "__main__":
    unittest.main()
