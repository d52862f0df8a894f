"""Tensors: from and to NumPy, parts, operators, text, and what is refused."""

import copy
import gc
import pickle
import unittest
import weakref
from unittest import mock

import numpy as np
import tapegrad as tg

DTYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8", "bool": "bool"}


class Numpy(unittest.TestCase):
    def test_each_dtype_goes_there_and_back(self):
        for name, numpy_name in DTYPES.items():
            with self.subTest(name):
                a = np.array([[0, 1, 1], [1, 0, 1]], dtype=numpy_name)
                for x in (tg.from_numpy(a), tg.tensor(a)):
                    self.assertEqual(x.dtype, getattr(tg, name))
                    self.assertEqual(x.numpy().dtype, a.dtype)
                    np.testing.assert_array_equal(x.numpy(), a)

    def test_from_numpy_shares_the_memory_and_tensor_copies_it(self):
        a = np.zeros((2, 2), dtype=np.float32)
        shared, copied = tg.from_numpy(a), tg.tensor(a)
        a[1, 0] = 5
        self.assertEqual(shared.tolist(), [[0, 0], [5, 0]])
        self.assertEqual(copied.tolist(), [[0, 0], [0, 0]])
        shared += 1
        self.assertEqual(a[1, 0], 6)
        self.assertTrue(np.shares_memory(shared.numpy(), a))

    def test_an_array_lives_as_long_as_a_tensor_on_its_memory(self):
        class Array(np.ndarray):  # can be referred to weakly
            pass

        a = np.arange(1000, dtype=np.float32).view(Array)
        gone = weakref.ref(a)
        x = tg.from_numpy(a)
        part = x.rows(10, 20)
        del a, x
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(part.tolist(), list(range(10, 20)))
        del part
        gc.collect()
        self.assertIsNone(gone())

    def test_a_view_keeps_its_tensor_alive_and_is_read_only(self):
        view = tg.full((1000,), 3).numpy()
        others = [tg.zeros((1000,)) for _ in range(10)]  # would take freed memory
        self.assertTrue((view == 3).all() and len(others) == 10)
        with self.assertRaisesRegex(ValueError, "read-only"):
            view[0] = 1

    def test_arrays_that_cannot_be_shared_are_refused_and_can_be_copied(self):
        a = np.arange(6, dtype=np.float32).reshape(2, 3)
        locked = a.copy()
        locked.flags.writeable = False
        for array, text in [(a.T, "not contiguous"), (a[:, ::2], "not contiguous"), (locked, "read-only")]:
            with self.assertRaisesRegex(tg.Error, f"{text}.*copies"):
                tg.from_numpy(array)
            np.testing.assert_array_equal(tg.tensor(array).numpy(), array)
        for bad in (a.astype(np.float16), a.astype(">f4"), a.astype(np.complex64), np.array(["a"]), np.array([None])):
            with self.assertRaises(tg.Error):
                tg.from_numpy(bad)
            with self.assertRaises(tg.Error):
                tg.tensor(bad)
        with self.assertRaises(TypeError):
            tg.from_numpy([1, 2])

    def test_memory_that_is_not_aligned_is_refused(self):
        bytes_ = np.zeros(9, dtype=np.uint8)
        with self.assertRaisesRegex(tg.Error, "multiple of 4"):
            tg.from_numpy(bytes_[1:].view(np.float32))

    def test_truth_values_have_bytes_of_0_and_1(self):
        a = np.array([1, 2], dtype=np.uint8).view(bool)
        for make in (tg.from_numpy, tg.tensor):
            with self.assertRaisesRegex(tg.Error, "another byte than 0 and 1"):
                make(a)

    def test_pickle_and_copy_make_a_tensor_of_its_own(self):
        x = tg.tensor([[1.0, 2.0]], dtype=tg.f64, requires_grad=True)
        for other in (copy.copy(x), copy.deepcopy(x), *(pickle.loads(pickle.dumps(x, p)) for p in range(6))):
            self.assertEqual((other.tolist(), other.dtype, other.requires_grad), (x.tolist(), tg.f64, True))
            self.assertFalse(np.shares_memory(other.numpy(), x.numpy()))
        with tg.Tape():
            self.assertRaisesRegex(tg.Error, "detach", copy.copy, x * 2)

    def test_dlpack_shares_the_memory_both_ways(self):
        for name, numpy_name in DTYPES.items():
            if name == "bool":
                continue  # NumPy's part of DLPack is older than its truth values
            with self.subTest(name):
                x, a = tg.ones((2, 3), dtype=getattr(tg, name)), np.ones((2, 3), dtype=numpy_name)
                there, back = np.from_dlpack(x), tg.from_dlpack(a)
                self.assertTrue(np.shares_memory(there, x.numpy()) and np.shares_memory(back.numpy(), a))
                self.assertEqual((there.dtype, back.dtype), (a.dtype, x.dtype))
        self.assertEqual(tg.from_dlpack(x).tolist(), x.tolist())
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        self.assertRaisesRegex(tg.Error, "not contiguous", tg.from_dlpack, np.ones((2, 3)).T)
        self.assertRaises((AttributeError, TypeError), tg.from_dlpack, 5)
        w = tg.ones((1,)).set_requires_grad()
        with tg.Tape():
            self.assertRaisesRegex(tg.Error, "detach", np.from_dlpack, w * 2)

    def test_memory_that_is_read_only_stays_so(self):
        locked = np.ones(3)
        locked.flags.writeable = False
        self.assertRaises((tg.Error, BufferError), tg.from_dlpack, locked)
        new, old = mock.Mock(), mock.Mock()  # other libraries' tensors: only new ones say what is read-only
        new.__dlpack__, old.__dlpack__ = lambda max_version: "dltensor_versioned", lambda: "dltensor"
        with mock.patch.object(np, "from_dlpack", lambda x: locked), mock.patch.object(np, "__version__", "2.1.0"):
            self.assertRaisesRegex(tg.Error, "read-only", tg.from_dlpack, new)
            self.assertEqual(tg.from_dlpack(old).tolist(), [1, 1, 1])

    def test_dlpack_and_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not installed")
        x, y = tg.zeros((2, 2)), torch.zeros(3)
        torch.from_dlpack(x)[0, 1] = 5
        self.assertEqual(x[0, 1].item(), 5)
        shared = tg.from_dlpack(y)
        shared += 1
        self.assertEqual(y.tolist(), [1, 1, 1])

    def test_empty_arrays_and_scalars(self):
        self.assertEqual(tg.from_numpy(np.zeros((0, 3), dtype=np.float32)).numpy().shape, (0, 3))
        self.assertEqual(tg.tensor(np.float64(2)).shape, ())
        self.assertEqual(tg.tensor(2.5).numpy().shape, ())

    def test_operators_with_arrays_are_refused(self):
        x, a = tg.ones((2,)), np.ones(2, dtype=np.float32)
        for call in (lambda: x + a, lambda: a + x, lambda: x @ a, lambda: a * x):
            self.assertRaises(TypeError, call)
        self.assertEqual((np.float32(2) * x).tolist(), [2, 2])
        self.assertEqual((x + np.int64(2)).tolist(), [3, 3])


class Making(unittest.TestCase):
    def test_dtypes_of_lists(self):
        self.assertEqual(tg.tensor([[1.0, 2.0]]).dtype, tg.f32)
        self.assertEqual(tg.tensor([1, 2]).dtype, tg.i64)
        self.assertEqual(tg.tensor([True]).dtype, tg.bool)
        self.assertEqual(tg.tensor([1.0], dtype=tg.f64).dtype, tg.f64)
        self.assertTrue(tg.tensor(1.0, requires_grad=True).requires_grad)
        with self.assertRaisesRegex(tg.Error, "i64 cannot have a gradient"):
            tg.tensor([1, 2], requires_grad=True)

    def test_rules_and_random_numbers(self):
        self.assertEqual(tg.arange(3).tolist(), [0, 1, 2])
        self.assertEqual(tg.arange(2, dtype=tg.i64).dtype, tg.i64)
        self.assertEqual(tg.arange(1, 2, 0.5).tolist(), [1, 1.5])
        self.assertEqual(tg.eye(2, dtype=tg.i32).tolist(), [[1, 0], [0, 1]])
        self.assertEqual(tg.linspace(0, 1, 3).tolist(), [0, 0.5, 1])
        first = tg.randn((2, 2), tg.Rng(0)).tolist()
        self.assertAlmostEqual(first[0][0], 1.5409961, places=6)  # torch.manual_seed(0); torch.randn(2, 2)
        rng = tg.Rng(3)
        state = rng.state()
        permutation = rng.randperm(5)
        rng.set_state(state)
        self.assertEqual(rng.randperm(5), permutation)
        self.assertRaises(tg.Error, rng.set_state, "nonsense")
        self.assertRaises(tg.Error, rng.randint, 0)
        self.assertRaises((tg.Error, MemoryError), rng.randperm, 2**40)
        self.assertRaises(tg.Error, rng.randperm, -1)
        self.assertRaises(tg.Error, tg.Rng, 1, "dice")

    def test_a_text_is_pytorchs(self):
        self.assertEqual(repr(tg.tensor([[1.0, 2.5]])), "tensor([[1.0000, 2.5000]], shape=(1, 2), dtype=f32)")


class Parts(unittest.TestCase):
    def test_parts_are_those_of_numpy(self):
        a = np.arange(24.0).reshape(2, 3, 4)
        x = tg.tensor(a)
        for key in [
            0, -1, (1, 2, 3), slice(None), slice(1, None), (slice(None), slice(0, 2), -1), (..., 0), (0, ...),
            (slice(None), None, 1), None, (..., None), slice(5, 9), slice(2, 1), (0, slice(-2, None)), (),
            slice(None, None, -1), (0, slice(None, None, 2), slice(3, 0, -2)), (slice(1, 0, 3), 1), (..., slice(None, None, -5)),
        ]:
            with self.subTest(key):
                np.testing.assert_array_equal(x[key].numpy(), a[key])
                self.assertEqual(x[key].shape, a[key].shape)

    def test_tensors_as_indices(self):
        a = np.arange(6.0).reshape(3, 2)
        x, ids = tg.tensor(a), np.array([2, 0, 2], dtype=np.int64)
        np.testing.assert_array_equal(x[tg.tensor(ids)].numpy(), a[ids])
        np.testing.assert_array_equal(x[tg.tensor(ids), tg.tensor([1, 0, 0])].numpy(), a[ids, [1, 0, 0]])
        np.testing.assert_array_equal(x[:, tg.tensor([1, 1, 0])].numpy(), a[:, [1, 1, 0]])
        np.testing.assert_array_equal(x[x > 2].numpy(), a[a > 2])
        np.testing.assert_array_equal(np.array(x), a)
        self.assertTrue(x.__array__(copy=True).flags.writeable)
        with self.assertRaises(ValueError):
            x.__array__(np.float16, copy=False)
        for whole in (x[:], x[...], x[()]):
            whole += 1
        np.testing.assert_array_equal(x.numpy(), a)
        with self.assertRaisesRegex(tg.Error, "one tensor at most"):
            x[None, tg.tensor([0, 1]), tg.tensor([0, 1])]

    def test_parts_that_do_not_exist_are_errors(self):
        x = tg.zeros((2, 3))
        for key in (2, -3, 2**70, (0, 0, 0), (0, 3), (..., ...)):
            with self.assertRaises(IndexError):
                x[key]
        for key in (tg.tensor([True, False]), tg.tensor([0, 9]), tg.tensor([0.0])):
            with self.assertRaises(tg.Error):
                x[key]
        for key in ("a", 1.0, [0, 1], True, np.zeros(2)):
            with self.assertRaises(TypeError):
                x[key]
        with self.assertRaises(ValueError):
            x[::0]

    def test_a_gradient_flows_through_a_part(self):
        x = tg.ones((2, 3))
        with tg.Tape() as tape:
            tape.watch(x)
            y = tg.sum(x[:, 1:] * 2) + x[...][0, 0] + x[1, ::-2].sum()
            self.assertEqual(tape.gradient(y, x).tolist(), [[1, 2, 2], [1, 2, 3]])

    def test_parts_are_changed_as_numpys(self):
        for key, value in [
            (0, 5), ((1, slice(None, None, 2)), 7.5), ((..., -1), np.arange(3.0)), (slice(None, None, -1), np.arange(24.0).reshape(2, 3, 4)),
            (tg.tensor([1, 0]), -1), ((0, tg.tensor([2, 0])), tg.ones((2, 4), dtype=tg.f64)), (..., 1), ((), 2), (None, 3), (slice(0, 0), 4),
        ]:
            a = np.arange(24.0).reshape(2, 3, 4)
            x = same = tg.tensor(a)
            x[key] = value
            parts = key if isinstance(key, tuple) else (key,)
            a[tuple(p.numpy() if isinstance(p, tg.Tensor) else p for p in parts)] = value.numpy() if isinstance(value, tg.Tensor) else value
            np.testing.assert_array_equal(same.numpy(), a)
        x[x > 1] = 0
        self.assertTrue(bool((x <= 1).to(tg.i32).prod() == 1))
        empty = tg.zeros((0, 2))
        empty[:] = 1

    def test_reading_and_writing_address_the_same_elements(self):
        ids, mask = tg.tensor([1, 0, 1]), tg.tensor(np.arange(24).reshape(2, 3, 4) % 5 == 0)
        for key in [
            0, (0, 1), (1, 2, 3), (), ..., None, (None, 1), slice(None, None, -1), (0, slice(None), ids), (0, ids), (..., ids), (1, None, ids),
            (slice(None), ids, 2), (ids, 0), (ids, slice(1, None), 3), ids, (ids, ids), (ids, ids, ids), mask, mask.to(tg.u8), (0, ids, slice(0, 2)),
        ]:
            with self.subTest(key):
                x = tg.tensor(np.arange(24).reshape(2, 3, 4))
                x[key] = x[key]
                self.assertEqual(x.numpy().ravel().tolist(), list(range(24)))
                x[key] = -1
                self.assertTrue((x[key].numpy() == -1).all())
        for key in (mask[0], (0, mask[0]), (mask, ...), (0, ids, ids), [0, 1], np.array([0]), True, 1.0):
            errors = []
            for call in (lambda: x[key], lambda: x.__setitem__(key, 0)):
                with self.assertRaises((tg.Error, TypeError)) as raised:
                    call()
                errors.append(str(raised.exception))
            self.assertEqual(*errors)

    def test_whole_numbers_beyond_the_dtype_are_refused(self):
        for dtype, values in [(tg.u8, (300, -1, [0, 256])), (tg.i32, (2**40, -(2**31) - 1)), (tg.i64, (np.uint64(2**63), 2**64 - 1))]:
            x = tg.zeros((2,), dtype=dtype)
            for value in values:
                self.assertRaisesRegex(tg.Error, "values must be from .* in a tensor of", x.__setitem__, slice(None), value)
            limits = np.iinfo(x.numpy().dtype)
            x[:] = [limits.min, limits.max]
            self.assertEqual(x.tolist(), [limits.min, limits.max])

    def test_changes_that_are_refused(self):
        w, x, n = tg.tensor([1.0, 2.0], requires_grad=True), tg.tensor([1.0, 2.0]), tg.tensor([1, 2])
        with tg.Tape() as tape:
            y = w * x
            for change in (w, y):
                self.assertRaisesRegex(tg.Error, "live tape tracks", change.__setitem__, 0, 1)
            self.assertRaisesRegex(tg.Error, "detach", x.__setitem__, 0, y[0])
            x[0] = 9
            self.assertRaisesRegex(tg.Error, "was changed", tape.backward, y.sum())
        w[0] = 3
        self.assertEqual(w.tolist(), [3, 2])
        self.assertRaisesRegex(tg.Error, "float64 do not go into a tensor of", n.__setitem__, 0, 1.5)
        for value, error in (([1.0, 2.0, 3.0], ValueError), ("a", tg.Error), (None, tg.Error)):
            self.assertRaises(error, x.__setitem__, 0, value)
        self.assertRaises(IndexError, x.__setitem__, 2, 0)

    def test_a_tensor_is_a_sequence_of_rows(self):
        x = tg.tensor([[1, 2], [3, 4]])
        self.assertEqual(len(x), 2)
        self.assertEqual([row.tolist() for row in x], [[1, 2], [3, 4]])
        self.assertRaises(TypeError, len, tg.zeros(()))
        self.assertRaises(TypeError, iter, tg.zeros(()))


class Operators(unittest.TestCase):
    def test_operators_are_those_of_numpy(self):
        a, b = np.array([[1.0, -2.0], [3.0, 4.0]]), np.array([2.0, 0.5])
        x, y = tg.tensor(a), tg.tensor(b)
        for f in [
            lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q, lambda p, q: abs(p) ** q,
            lambda p, q: p @ q, lambda p, q: -p, lambda p, q: p + 1, lambda p, q: 1 - p, lambda p, q: 2 * p, lambda p, q: 2 / p,
            lambda p, q: p**2, lambda p, q: 2**p, lambda p, q: p / 3, lambda p, q: p < q, lambda p, q: p >= 3, lambda p, q: 1 < p,
            lambda p, q: p == q, lambda p, q: p != 1,
        ]:
            np.testing.assert_allclose(f(x, y).numpy(), f(a, b), rtol=1e-15)

    def test_in_place_operators_keep_the_tensor(self):
        x = y = tg.ones((2,))
        x += 1
        x *= tg.tensor([1.0, 2.0])
        x -= 1
        x /= 2
        self.assertIs(x, y)
        self.assertEqual(y.tolist(), [0.5, 1.5])
        self.assertIs(tg.fill(x, 7), x)
        self.assertEqual(y.tolist(), [7, 7])

    def test_what_operators_refuse(self):
        x, n = tg.ones((2, 3)), tg.tensor([1, 2, 3])
        for call in (lambda: x + n, lambda: x + tg.ones((2,)), lambda: n + 0.5, lambda: bool(x), lambda: float(x)):
            self.assertRaises(tg.Error, call)
        for call in (lambda: x + "1", lambda: x + None, lambda: None * x, lambda: x + [1, 2, 3], lambda: x + 2**2000):
            self.assertRaises(TypeError, call)

    def test_one_element_is_a_number(self):
        self.assertEqual(tg.tensor(2**60 + 1).item(), 2**60 + 1)
        self.assertIs(tg.tensor(True).item(), True)
        self.assertIsInstance(tg.tensor(2, dtype=tg.u8).item(), int)
        self.assertEqual(float(tg.tensor([[2.5]])), 2.5)
        self.assertTrue(bool(tg.tensor(1.0)) and not bool(tg.tensor(0.0)))
        self.assertRaises(tg.Error, tg.ones((2,)).item)

    def test_members(self):
        x = tg.ones((2, 3))
        self.assertEqual((x.ndim, x.dim(), x.numel(), x.nbytes), (2, 2, 6, 24))
        self.assertEqual(x.view((3, -1)).shape, (3, 2))
        self.assertEqual(x.to(tg.i32).dtype, tg.i32)
        self.assertTrue(x.allclose(x.clone()))
        self.assertNotEqual(x.id(), x.clone().id())
        self.assertEqual(len({x, x, x.clone()}), 2)
        self.assertRaises(tg.Error, x.view, (4, -1))
        self.assertRaises(tg.Error, x.rows, 1, 9)


if __name__ == "__main__":
    unittest.main()
