"""Ops, functions and recomputation that are written in Python: gradients, checks, exceptions, threads."""

import threading
import traceback
import unittest

import numpy as np
import tapegrad as tg


def softsign_forward(saved, x):
    return saved.keep(x) / (1 + x.abs())


def softsign_vjp(saved, dy):
    root = 1 + saved[0].abs()
    return dy / (root * root)


def softsign(x):
    return tg.apply("softsign", [x], softsign_forward, softsign_vjp)


def scale_and_sum(x, bias=None):
    """Two outputs, an input that may be None, by NumPy."""

    def forward(saved, x, bias):
        saved.keep(x)
        shift = 0 if bias is None else bias.numpy()
        return [tg.tensor(x.numpy() * 3 + shift), tg.tensor(x.numpy().sum() * x.numpy()[0])]

    def vjp(saved, scaled, summed):
        x = saved[0].numpy()
        gradient = np.zeros_like(x) if scaled is None else 3 * scaled.numpy()
        if summed is not None:
            gradient = gradient + summed.item() * x[0]
            gradient[0] += summed.item() * x.sum()
        of_bias = scaled if saved.needs(1) else None
        return tg.tensor(gradient), of_bias

    return tg.apply("scale_and_sum", [x, bias], forward, vjp)


def random(*shape, seed=0):
    return tg.randn(shape, tg.Rng(seed), tg.f64)


class OwnOps(unittest.TestCase):
    def test_gradients_of_every_order_flow_through_an_op_of_ones_own(self):
        x = tg.tensor([1.5, -0.5], dtype=tg.f64)
        with tg.Tape() as outer:
            outer.watch(x)
            with tg.Tape() as inner:
                inner.watch(x)
                slope = inner.gradient(tg.sum(softsign(x)), x)
            np.testing.assert_allclose(slope.detach().numpy(), [1 / 2.5**2, 1 / 1.5**2])
            np.testing.assert_allclose(outer.gradient(tg.sum(slope), x).numpy(), [-2 / 2.5**3, 2 / 1.5**3])

    def test_its_gradients_pass_the_check_and_wrong_ones_do_not(self):
        lines = tg.check_gradients(softsign, [random(3, 4)], order=2)
        self.assertTrue(any("softsign" in line for line in lines) and any("gradient of f" in line for line in lines))
        tg.check_gradients(lambda x, bias: scale_and_sum(x, bias)[0] * scale_and_sum(x)[1], [random(4), random(4, seed=1)])

        def wrong(x):
            return tg.apply("wrong", [x], softsign_forward, lambda saved, dy: dy / (1 + saved[0].abs()))

        with self.assertRaisesRegex(tg.Error, r"differ from central differences:\n.*wrong"):
            tg.check_gradients(wrong, [random(3)])

        def once(x):  # right, but its gradient is a constant for the next tape
            return tg.apply("once", [x], softsign_forward, lambda saved, dy: softsign_vjp([saved[0].detach()], dy))

        tg.check_gradients(once, [random(3)])
        self.assertRaisesRegex(tg.Error, "gradient of f", tg.check_gradients, once, [random(3)], order=2)
        self.assertRaisesRegex(tg.Error, "must be 1 or 2", tg.check_gradients, softsign, [random(3)], order=3)

    def test_outputs_and_inputs_may_be_several_and_some_be_none(self):
        x, bias = tg.tensor([1.0, 2.0], requires_grad=True), tg.tensor([5.0, 6.0], requires_grad=True)
        with tg.Tape() as tape:
            scaled, summed = scale_and_sum(x, bias)
            self.assertEqual((scaled.tolist(), summed.item()), ([8, 12], 3))
            self.assertEqual([g.tolist() for g in tape.gradient(summed + tg.sum(scaled), [x, bias], keep=True)], [[7, 4], [1, 1]])
            self.assertEqual(tape.gradient(summed, x).tolist(), [4, 1])
        self.assertEqual(scale_and_sum(x)[0].tolist(), [3, 6])

    def test_nothing_is_recorded_or_kept_without_need(self):
        seen = []

        def forward(saved, x):
            seen.append(saved)
            y = saved.keep(x) * x
            seen.append(len(saved))
            return y

        softsign_of = lambda x: tg.apply("square", [x], forward, lambda saved, dy: 2 * saved[0] * dy)  # noqa: E731
        softsign_of(tg.ones((3,)))
        w = tg.ones((3,)).set_requires_grad()
        with tg.Tape() as tape:
            y = softsign_of(w)
            self.assertEqual(tape.size(), 1)
            self.assertEqual(tape.gradient(tg.sum(y), w).tolist(), [2, 2, 2])
        self.assertEqual(seen[1::2], [0, 1])
        for use in (lambda: len(seen[0]), lambda: seen[2].keep(w), lambda: seen[2][0]):
            self.assertRaisesRegex(tg.Error, "it has ended", use)


class Exceptions(unittest.TestCase):
    def test_what_forward_or_vjp_raises_comes_out_as_it_is(self):
        class Mine(Exception):
            pass

        def fail(*_):
            raise Mine("here")

        for size in (3, 100_000):  # the second is computed without the GIL
            w = tg.ones((size,)).set_requires_grad()
            try:
                tg.apply("op", [w], fail, softsign_vjp)
            except Mine as mine:
                self.assertEqual(traceback.extract_tb(mine.__traceback__)[-1].name, "fail")
            else:
                self.fail("nothing was raised")
            with tg.Tape() as tape:
                y = tg.sum(tg.apply("op", [w * 2], softsign_forward, fail))
                self.assertRaises(Mine, tape.backward, y)
            for call in (lambda: tg.jacobian(fail, w), lambda: tg.checkpoint(fail, [w]), lambda: tg.check_gradients(fail, [w])):
                self.assertRaises(Mine, call)
            with tg.Tape() as tape:  # nothing is left over
                tape.backward(tg.sum(softsign(w)))
            self.assertEqual(w.grad.shape, (size,))

    def test_an_error_of_ours_and_an_interrupt_stay_what_they_are(self):
        for error in (tg.Error("mine"), KeyboardInterrupt()):

            def fail(saved, x):
                raise error

            with self.assertRaises(type(error)) as caught:
                tg.apply("op", [tg.ones((2,))], fail, fail)
            self.assertIs(caught.exception, error)

    def test_what_is_no_tensor_is_named(self):
        x = tg.ones((2,)).set_requires_grad()
        for call, kind, text in [
            (lambda: tg.apply("op", [x], lambda saved, x: 1.5, softsign_vjp), TypeError, "must return a Tensor here, and returned float"),
            (lambda: tg.apply("op", [x], lambda saved, x: x, softsign_vjp), tg.Error, r"\[op\] the forward returned one of its inputs"),
            (lambda: tg.apply("", [x], softsign_forward, softsign_vjp), tg.Error, "needs a name"),
            (lambda: tg.apply("op", [x], softsign_forward, None), TypeError, "incompatible function arguments"),
            (lambda: tg.jacobian(lambda x: 1, x), TypeError, "returned int"),
        ]:
            with tg.Tape():
                self.assertRaisesRegex(kind, text, call)
        for vjp, kind, text in [
            (lambda saved, dy: [dy, dy], tg.Error, r"\[op\] the vjp returned 2 gradients for 1 inputs"),
            (lambda saved, dy: tg.ones((3,)), tg.Error, r"\[op\] the vjp returned a gradient of"),
            (lambda saved, dy: saved[7], IndexError, "fewer tensors were kept"),
            (lambda saved, dy: saved.keep(dy), tg.Error, "a vjp keeps nothing"),
        ]:
            with tg.Tape() as tape:
                y = tg.sum(tg.apply("op", [x], softsign_forward, vjp))
                self.assertRaisesRegex(kind, text, tape.backward, y)


class Threads(unittest.TestCase):
    def test_threads_with_ops_of_their_own_do_not_wait_for_each_other_for_ever(self):
        x, sums = tg.ones((64, 256)), []

        def work():
            w = tg.ones((256, 256)).set_requires_grad()
            for _ in range(20):
                with tg.Tape() as tape:
                    tape.backward(tg.sum(softsign(tg.linear(softsign(tg.linear(x, w)), w))))
            sums.append(w.grad.numpy().sum())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(timeout=300)
        self.assertEqual(len(set(sums)), 1)
        self.assertEqual(len(sums), 4)

    def test_a_tape_may_be_let_go_of_with_functions_in_it(self):
        w = tg.ones((3,)).set_requires_grad()
        for _ in range(3):
            with tg.Tape():
                tg.apply("op", [w], lambda saved, x: saved.keep(x) * 2, lambda saved, dy: dy * 2)


class Derivatives(unittest.TestCase):
    def test_derivatives_of_functions_have_the_shapes_of_torch(self):
        x, v = random(3), random(3, seed=1)
        cubes = lambda x: tg.sum(x**3)  # noqa: E731
        np.testing.assert_allclose(tg.jacobian(lambda x: x * x, x).numpy(), np.diag(2 * x.numpy()))
        np.testing.assert_allclose(tg.hessian(cubes, x).numpy(), np.diag(6 * x.numpy()))
        value, product = tg.hvp(cubes, x, v)
        np.testing.assert_allclose(product.numpy(), 6 * x.numpy() * v.numpy())
        self.assertAlmostEqual(value.item(), cubes(x).item())
        np.testing.assert_allclose(tg.vjp(cubes, x).product.numpy(), 3 * x.numpy() ** 2)
        np.testing.assert_allclose(tg.jvp(lambda x: x * x, x, v).product.numpy(), 2 * x.numpy() * v.numpy())

    def test_functions_of_several_tensors_get_each_as_an_argument(self):
        a, b = random(2), random(2, seed=1)
        f = lambda a, b: tg.sum(a * a * b)  # noqa: E731
        da, db = tg.jacobian(f, [a, b])
        np.testing.assert_allclose(da.numpy(), 2 * a.numpy() * b.numpy())
        np.testing.assert_allclose(db.numpy(), a.numpy() ** 2)
        np.testing.assert_allclose(tg.hessian(f, [a, b])[0][1].numpy(), np.diag(2 * a.numpy()))
        self.assertEqual(len(tg.hvp(f, [a, b], [a, b]).products), 2)

    def test_a_live_tape_differentiates_derivatives(self):
        x = random(2)
        with tg.Tape() as tape:
            tape.watch(x)
            third = tape.gradient(tg.sum(tg.hessian(lambda x: tg.sum(softsign(x)), x)), x)
        np.testing.assert_allclose(third.numpy(), 6 / (1 + np.abs(x.numpy())) ** 4)

    def test_gradients_of_each_example(self):
        w, rows = tg.ones((3,)).set_requires_grad(), random(4, 3)
        (each,) = tg.per_example_gradients(lambda i: tg.sum(w.to(tg.f64) * rows[i]), 4, [w])
        np.testing.assert_allclose(each.numpy(), rows.numpy(), rtol=1e-6)

    def test_a_checkpoint_runs_its_function_again_with_the_same_draws(self):
        runs, x, rng = [], tg.ones((50,)).set_requires_grad(), tg.Rng(3)

        def f(x, rng):
            runs.append(1)
            return tg.dropout(x * x, 0.5, rng)

        with tg.Tape() as tape:
            y = tg.checkpoint(f, [x], rng)
            np.testing.assert_array_equal(tape.gradient(tg.sum(y), x).numpy(), 2 * y.detach().numpy())
        self.assertEqual(len(runs), 2)
        self.assertEqual(tg.checkpoint(lambda a, b: a + b, [x, x]).tolist(), [2] * 50)


if __name__ == "__main__":
    unittest.main()
