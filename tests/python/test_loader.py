"""Batches of arrays."""

import unittest

import tapegrad as tg


def numbers(loader, count):
    return [[rows.tolist() for rows in loader.next()] for _ in range(count)]


class Loader(unittest.TestCase):
    def setUp(self):
        self.x = tg.arange(5, dtype=tg.i64)

    def test_an_epoch_has_each_row_once_in_the_order_of_the_seed(self):
        loader = tg.ArrayLoader([self.x, self.x * 2], tg.Rng(1), batch_size=2)
        self.assertEqual(loader.batches_per_epoch(), 3)
        batches = numbers(loader, 3)
        self.assertEqual([len(x) for x, _ in batches], [2, 2, 1])
        self.assertEqual(sorted(row for x, _ in batches for row in x), [0, 1, 2, 3, 4])
        self.assertTrue(all(doubled == [2 * row for row in x] for x, doubled in batches))
        self.assertEqual(loader.epoch(), 1)
        again = tg.ArrayLoader([self.x, self.x * 2], tg.Rng(1), batch_size=2)
        self.assertEqual(numbers(again, 3), batches)
        self.assertNotEqual(numbers(again, 15), batches * 5)

    def test_options(self):
        in_order = tg.ArrayLoader([self.x], tg.Rng(1), batch_size=2, shuffle=False, drop_last=True)
        self.assertEqual(numbers(in_order, 3), [[[0, 1]], [[2, 3]], [[0, 1]]])
        weighted = tg.ArrayLoader([self.x], tg.Rng(1), batch_size=5, weights=[0, 0, 1, 0, 1])
        self.assertEqual({row for (rows,) in numbers(weighted, 20) for row in rows}, {2, 4})
        rng = tg.Rng(7)
        state = rng.state()
        for (rows,), _ in zip(tg.ArrayLoader([self.x], rng), range(7)):  # without an end
            self.assertEqual(rows.shape, (1,))
        self.assertEqual(rng.state(), state)

    def test_a_transform_draws_by_epoch_and_batch(self):
        def shifted(rows, rng):
            return [rows[0].to(tg.f32) + tg.uniform((1,), rng, 0, 1), rows[0]]

        first, second = (tg.ArrayLoader([self.x], tg.Rng(3), batch_size=5, transform=shifted) for _ in range(2))
        batches = numbers(first, 2)
        self.assertEqual(numbers(second, 2), batches)
        (noisy, rows), _ = batches
        self.assertTrue(all(0 <= a - b < 1 for a, b in zip(noisy, rows)))
        for transform, error in ((lambda rows, rng: 1, TypeError), (lambda rows, rng: {}["x"], KeyError)):
            wrong = tg.ArrayLoader([self.x], tg.Rng(3), transform=transform)
            self.assertRaises(error, wrong.next)

    def test_a_state_goes_on_to_the_same_batches(self):
        loader, other = (tg.ArrayLoader([self.x], tg.Rng(seed), batch_size=2) for seed in (1, 2))
        loader.next()
        other.set_state(loader.state())
        self.assertEqual(numbers(other, 5), numbers(loader, 5))
        self.assertRaises(tg.Error, other.set_state, "nothing")

    def test_what_fits_no_batch_is_refused(self):
        self.assertRaises(tg.Error, tg.ArrayLoader, [], tg.Rng(1))
        self.assertRaises(tg.Error, tg.ArrayLoader, [self.x, tg.zeros((4,))], tg.Rng(1))
        self.assertRaises(tg.Error, tg.ArrayLoader, [self.x], tg.Rng(1), batch_size=0)
        self.assertRaises(tg.Error, tg.ArrayLoader, [self.x], tg.Rng(1), weights=[1.0])

    def test_no_gradient_ends_in_a_batch(self):
        loader = tg.ArrayLoader([tg.ones((2,)).set_requires_grad()], tg.Rng(1))
        with tg.Tape():
            self.assertRaisesRegex(tg.Error, "a live tape tracks it", loader.next)
        self.assertEqual(numbers(loader, 1), [[[1.0]]])


if __name__ == "__main__":
    unittest.main()
