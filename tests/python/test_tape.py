"""Tapes: what is recorded, gradients of any order, threads, and misuse."""

import sys
import threading
import time
import unittest

import numpy as np
import tapegrad as tg


class Gradients(unittest.TestCase):
    def test_backward_adds_to_the_grad_of_parameters(self):
        w = tg.tensor([1.0, 2.0], requires_grad=True)
        self.assertIsNone(w.grad)
        for _ in range(2):
            with tg.Tape() as tape:
                tape.backward(tg.sum(w * w))
        self.assertEqual(w.grad.tolist(), [4, 8])
        w.zero_grad()
        self.assertIsNone(w.grad)

    def test_gradient_of_one_and_of_several_touches_no_grad(self):
        w, x, other = tg.tensor(3.0, requires_grad=True), tg.tensor(2.0), tg.tensor(1.0, requires_grad=True)
        with tg.Tape() as tape:
            tape.watch(x)
            y, _ = w * x, other * 2
            self.assertTrue(tape.tracks(y) and tape.tracks(x))
            self.assertEqual(tape.size(), 2)
            self.assertGreater(tape.saved_bytes(), 0)
            dw, dx, none = tape.gradient(y, [w, x, other], keep=True)
            self.assertEqual((dw.item(), dx.item(), none), (2, 3, None))
            self.assertEqual(tape.gradient(y, w).item(), 2)
        self.assertIsNone(w.grad)

    def test_seeds_and_several_roots(self):
        w = tg.tensor([1.0, 2.0], requires_grad=True)
        with tg.Tape() as tape:
            y, z = w * 2, w * w
            tape.backward([y, z], seeds=[tg.ones((2,)), tg.tensor([1.0, 0.0])])
        self.assertEqual(w.grad.tolist(), [4, 2])

    def test_take_gets_gradients_as_soon_as_they_are_complete(self):
        w, early = tg.tensor(3.0, requires_grad=True), tg.tensor(2.0, requires_grad=True)
        taken = []
        with tg.Tape() as tape:
            y = (early * 5) * w * w
            tape.backward(y, take=lambda parameter, gradient: taken.append((parameter.id(), gradient.item())))
        self.assertEqual(taken, [(w.id(), 60), (early.id(), 45)])
        self.assertEqual((w.grad, early.grad), (None, None))

        def again(parameter, gradient):
            taken.append(gradient.item())
            with tg.Tape() as inner:
                inner.backward(parameter * 7)

        with tg.Tape() as tape:
            tape.backward(w, take=again)  # of a root that is a parameter itself
        self.assertEqual((taken[-1], w.grad.item()), (1, 7))
        w.zero_grad()

        a, b = tg.tensor([1.0], requires_grad=True), tg.tensor([2.0], requires_grad=True)

        def change(parameter, gradient):
            taken.append(gradient.tolist())
            gradient[0] = 7

        with tg.Tape() as tape:
            tape.backward(a + b, take=change)  # one tensor of C++ is the gradient of both
        self.assertEqual(taken[-2:], [[1.0], [1.0]])

        def fail(parameter, gradient):
            raise KeyError("of the callback")

        with tg.Tape() as tape:
            self.assertRaisesRegex(KeyError, "of the callback", tape.backward, w * 2, take=fail)
            self.assertRaises(TypeError, tape.backward, w * 2, take=1)
        self.assertIsNone(w.grad)

    def test_nested_tapes_give_second_derivatives(self):
        x = tg.tensor(2.0, dtype=tg.f64)
        with tg.Tape() as outer:
            outer.watch(x)
            with tg.Tape() as inner:
                inner.watch(x)
                slope = inner.gradient(x**3, x)
            self.assertEqual(slope.item(), 12)
            self.assertEqual(outer.gradient(slope, x).item(), 12)

    def test_a_pause_and_detach_end_gradients(self):
        w = tg.tensor(2.0, requires_grad=True)
        with tg.Tape() as tape:
            with tg.TapePause():
                paused = w * w
            self.assertFalse(tape.tracks(paused) or tape.tracks((w * w).detach()))
            w2 = w * w
            self.assertTrue(tape.tracks(w2))

    def test_a_perceptron_learns_xor(self):
        rng = tg.Rng(1)
        x = tg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        y = tg.tensor([0, 1, 1, 0])
        weights = [tg.randn(shape, rng).set_requires_grad() for shape in ((8, 2), (8,), (2, 8), (2,))]
        for _ in range(200):
            with tg.Tape() as tape:
                logits = tg.linear(tg.tanh(tg.linear(x, *weights[:2])), *weights[2:])
                loss = tg.cross_entropy(logits, y)
                tape.backward(loss)
            for w in weights:
                w -= 0.5 * w.grad
                w.zero_grad()
        self.assertLess(loss.item(), 0.05)
        self.assertEqual(tg.argmax(logits, 1).tolist(), y.tolist())


class Misuse(unittest.TestCase):
    def test_no_gradient_ends_in_silence(self):
        w = tg.tensor([1.0], requires_grad=True)
        with tg.Tape() as tape:
            y = w * 2
            for call in (y.numpy, lambda: np.asarray(y), lambda: tg.tensor(y), lambda: tg.tensor([y, y])):
                self.assertRaisesRegex(tg.Error, "detach", call)
            self.assertEqual(y.detach().numpy().tolist(), [2])
            self.assertEqual(y.tolist(), [2])
            with self.assertRaises(tg.Error):
                w += 1
            self.assertTrue(tape.tracks(y))
        self.assertEqual(w.numpy().tolist(), [1])

    def test_errors_of_backward_have_their_sentences(self):
        w = tg.tensor([1.0, 2.0], requires_grad=True)
        with tg.Tape() as tape:
            y = w * w
            for call, text in [
                (lambda: tape.backward(y), "only a tensor of one element can do without a seed"),
                (lambda: tape.backward(y, seeds=tg.ones((3,))), "the seed is"),
                (lambda: tape.backward(tg.zeros(())), "does not depend on any tensor"),
                (lambda: tape.gradient(y, tg.zeros(())), r"watch\(\) it first"),
                (lambda: tape.watch(tg.tensor([1])), "no gradient to watch"),
            ]:
                self.assertRaisesRegex(tg.Error, text, call)
            tape.backward(tg.sum(y))
            self.assertRaisesRegex(tg.Error, "has run backward", tape.backward, y)

    def test_a_tensor_that_was_changed_is_noticed(self):
        w, x = tg.tensor([1.0], requires_grad=True), tg.tensor([2.0])
        with tg.Tape() as tape:
            y = w * x
            x += 1
            self.assertRaisesRegex(tg.Error, "was changed", tape.backward, y)

    def test_a_tape_lives_in_its_block(self):
        tape = tg.Tape()
        self.assertRaisesRegex(tg.Error, "`with` block", tape.size)
        with tape:
            self.assertRaisesRegex(tg.Error, "begun already", tape.__enter__)
        self.assertRaisesRegex(tg.Error, "`with` block", tape.backward, tg.zeros(()))
        self.assertRaisesRegex(tg.Error, "`with` block", tape.__exit__, None, None, None)

    def test_an_exception_ends_the_tape(self):
        w = tg.tensor(1.0, requires_grad=True)
        with self.assertRaises(ZeroDivisionError):
            with tg.Tape() as tape:
                1 / 0
        with tg.Tape() as other:
            y = w * 2
            self.assertEqual(other.size(), 1)
        self.assertRaises(tg.Error, tape.backward, y)

    def test_check_finite_names_the_op_and_the_module(self):
        w = tg.tensor([-1.0], requires_grad=True)
        with tg.Tape(check_finite=True, names={"head.weight": w}):
            self.assertRaisesRegex(tg.Error, r"\[log\].*in module head", tg.log, w)

    def test_another_thread_cannot_use_a_tape(self):
        w, errors = tg.tensor(1.0, requires_grad=True), []

        def use(tape, y):
            for call in (lambda: tape.backward(y), tape.size, lambda: tape.watch(w), lambda: tape.__exit__(None, None, None)):
                try:
                    call()
                except tg.Error as error:
                    errors.append(str(error))

        with tg.Tape() as tape:
            y = w * 2
            thread = threading.Thread(target=use, args=(tape, y))
            thread.start()
            thread.join()
            tape.backward(y)
        self.assertEqual(len(errors), 4)
        self.assertIn("another thread takes its own", errors[0])

    def test_a_block_that_another_thread_lets_go_of_harms_nobody(self):
        kept = [tg.Tape()]
        kept[0].__enter__()
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()
        w = tg.tensor(1.0, requires_grad=True)
        with tg.Tape() as tape:
            self.assertEqual(tape.gradient(w * 2, w).item(), 2)
        self.assertEqual(w.numpy().tolist(), 1)  # no tape is left that tracks it


class Threads(unittest.TestCase):
    def test_threads_with_tapes_of_their_own_share_parameters(self):
        w, n, threads = tg.ones((64, 64)).set_requires_grad(), 20, 4
        x = tg.from_numpy(np.ones((128, 64), dtype=np.float32))  # large enough to let go of the GIL

        def work():
            for _ in range(n):
                with tg.Tape() as tape:
                    tape.backward(tg.sum(tg.linear(x, w)))

        old = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        self.addCleanup(sys.setswitchinterval, old)
        all_threads = [threading.Thread(target=work) for _ in range(threads)]
        for t in all_threads:
            t.start()
        for t in all_threads:
            t.join()
        self.assertTrue(w.grad.allclose(tg.full((64, 64), 128 * n * threads)))

    def test_other_threads_run_while_a_large_op_computes(self):
        x, begin, ran = tg.ones((400, 400)), threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: (begin.wait(), ran.set()))
        thread.start()
        old = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # nobody is asked to let go of the GIL
        self.addCleanup(sys.setswitchinterval, old)
        begin.set()
        end = time.monotonic() + 300  # other programs may keep the machine busy
        while not ran.is_set() and time.monotonic() < end:
            tg.matmul(x, x)
        self.assertTrue(ran.is_set())
        thread.join()


if __name__ == "__main__":
    unittest.main()
