"""Calls with arguments at random: each returns or raises what it may, and none ends the interpreter."""

import random
import unittest

import numpy as np
import tapegrad as tg

CALLS = 10_000
# Python's own: __new__ of another class ends the interpreter in every module of pybind11's.
UNTRIED = ("__class__", "__init_subclass__", "__new__", "__subclasshook__")
EXPECTED = (tg.Error, AttributeError, TypeError, ValueError, IndexError, OverflowError, MemoryError, BufferError)


def tensors(random_):
    shape = tuple(random_.choice((0, 1, 2, 3)) for _ in range(random_.randrange(4)))
    dtype = random_.choice((tg.f32, tg.f32, tg.f64, tg.i32, tg.i64, tg.u8, tg.bool))
    return tg.full(shape, random_.choice((0, 1, 2)), dtype=dtype)


def argument(random_):
    return random_.choice((
        tensors, tensors, tensors,
        lambda r: [tensors(r) for _ in range(r.randrange(3))],
        lambda r: r.randrange(-3, 5),
        lambda r: r.choice((0.5, -1.0, float("nan"), float("inf"))),
        lambda r: [r.randrange(-2, 4) for _ in range(r.randrange(4))],
        lambda r: r.choice((None, True, "mean", "ij,jk->ik", "", ..., slice(0, 2), tg.f64, tg.Rng(1), tg.ScoreOptions())),
        lambda r: np.zeros(r.randrange(3), dtype=r.choice(("float32", "float16", "int64"))),
    ))(random_)


class RandomCalls(unittest.TestCase):
    def test_functions_and_members_return_or_raise(self):
        random_ = random.Random(5)
        functions = [getattr(tg, name) for name in tg.__all__ if callable(getattr(tg, name))]
        # A Decoder without options is GPT-2, which takes seconds to draw; train() without any takes minutes.
        functions = [f for f in functions if f not in (tg.Error, tg.TapePause, tg.Decoder, tg.train)]
        functions += [getattr(tg.nn, name) for name in tg.nn.__all__]
        members = [name for name in dir(tg.Tensor) if callable(getattr(tg.Tensor, name)) and name not in UNTRIED]
        returned = 0
        for _ in range(CALLS):
            if random_.random() < 0.7:
                call = random_.choice(functions)
            else:
                call = getattr(tensors(random_), random_.choice(members))
            arguments = [argument(random_) for _ in range(random_.randrange(5))]
            try:
                with tg.Tape() as tape:
                    for x in arguments:
                        if isinstance(x, tg.Tensor) and x.dtype in (tg.f32, tg.f64):
                            tape.watch(x)
                    y = call(*arguments)
                    returned += 1
                    if isinstance(y, tg.Tensor) and tape.tracks(y):
                        tape.backward(y, seeds=tg.ones(y.shape, dtype=y.dtype))
                        repr(y)
            except EXPECTED:
                pass
        self.assertGreater(returned, CALLS // 20)


if __name__ == "__main__":
    unittest.main()
