"""Layers, modules of one's own, optimisers and schedules."""

import math
import gc
import pickle
import unittest
import weakref

import numpy as np
import tapegrad as tg
from tapegrad import nn


class Net(nn.Module):
    def __init__(self, rng):
        self.layers = [nn.Linear(rng, 3, 5), nn.Linear(rng, 5, 2, with_bias=False)]
        self.named = {"norm": nn.LayerNorm(rng, 5, eps=1e-3)}
        self.scale = tg.ones((1,)).set_requires_grad()
        self.shift = tg.zeros((1,))
        self.again = self.layers[0]

    def forward(self, x):
        return self.layers[1](self.named["norm"](self.layers[0](x))) * self.scale + self.shift


class Layers(unittest.TestCase):
    def test_calls_are_those_of_the_ops(self):
        rng = tg.Rng(2)
        x = tg.randn((4, 3), rng)
        linear = nn.Linear(rng, 3, 2)
        np.testing.assert_array_equal(linear(x).numpy(), tg.linear(x, linear.weight, linear.bias).numpy())
        norm = nn.RMSNorm(rng, 3, eps=1e-6)
        np.testing.assert_array_equal(norm(x).numpy(), tg.rms_norm(x, norm.weight, 1e-6).numpy())
        image = tg.randn((1, 2, 5, 5), rng)
        conv = nn.Conv2d(rng, 2, 4, 3, stride=2, padding=1)
        np.testing.assert_array_equal(conv(image).numpy(), tg.conv2d(image, conv.weight, conv.bias, stride=2, padding=1).numpy())
        self.assertEqual(nn.Embedding(rng, 7, 3)(tg.tensor([[1, 6]])).shape, (1, 2, 3))
        self.assertEqual(nn.GRU(rng, 3, 6, layers=2)(tg.randn((5, 1, 3), rng)).h.shape, (2, 1, 6))
        self.assertEqual(nn.TorchAttention(rng, 8, 2)(tg.randn((1, 4, 8), rng)).shape, (1, 4, 8))

    def test_a_state_of_an_lstm_is_a_pair(self):
        rng = tg.Rng(2)
        lstm, cell, x = nn.LSTM(rng, 3, 6), nn.LSTMCell(rng, 3, 6), tg.randn((5, 2, 3), rng)
        y, (h, c) = lstm(x)
        self.assertEqual((y.shape, h.shape, c.shape), ((5, 2, 6), (1, 2, 6), (1, 2, 6)))
        begin = lstm(x[:2])
        np.testing.assert_allclose(lstm(x[2:], begin.state).y.numpy(), y[2:].numpy(), rtol=1e-5, atol=1e-6)
        for name, tensor in cell.tensors().items():
            tg.assign(tensor, lstm.tensors()[f"{name}_l0"])
        state = None
        for step in range(5):
            state = cell(x[step], state)
            np.testing.assert_allclose(state.h.numpy(), y[step].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state.c.numpy(), c[0].numpy(), rtol=1e-5, atol=1e-6)
        self.assertRaises(TypeError, lstm, x, (h,))
        self.assertRaises(TypeError, lstm, x, (h, None))

    def test_first_weights_are_pytorchs(self):
        weight = nn.Linear(tg.Rng(0), 2, 1).weight  # torch.manual_seed(0); torch.nn.Linear(2, 1).weight
        np.testing.assert_allclose(weight.numpy(), [[-0.0053, 0.3793]], atol=1e-4)

    def test_initialisers_fill_tensors_by_pytorchs_draws(self):
        w = tg.zeros((1, 2))
        self.assertIs(nn.init.kaiming_uniform_(w, tg.Rng(0), a=5**0.5), w)  # what nn.Linear(2, 1) draws
        np.testing.assert_allclose(w.numpy(), [[-0.0053, 0.3793]], atol=1e-4)
        nn.init.kaiming_uniform_(w, tg.Rng(0), fan_in=2)
        np.testing.assert_array_equal(w.numpy(), nn.Linear(tg.Rng(0), 2, 1).weight.numpy())
        x = nn.init.orthogonal_(tg.zeros((3, 5), tg.f64), tg.Rng(1), gain=2)
        np.testing.assert_allclose(x.numpy() @ x.numpy().T, 4 * np.eye(3), atol=1e-12)
        x = nn.init.trunc_normal_(tg.zeros((1000,)), tg.Rng(1), std=2, a=-1, b=1.5).numpy()
        self.assertTrue(-1 <= x.min() < -0.9 and 1.4 < x.max() <= 1.5)
        np.testing.assert_array_equal(nn.init.normal_(tg.zeros((4,)), tg.Rng(3), mean=0, std=1).numpy(), tg.randn((4,), tg.Rng(3)).numpy())
        self.assertEqual(nn.init.ones_(w).tolist(), [[1.0, 1.0]])
        spread = nn.init.kaiming_normal_(tg.zeros((50, 400)), tg.Rng(1), mode="fan_out", nonlinearity="relu").numpy().std()
        self.assertAlmostEqual(spread, (2 / 50) ** 0.5, places=2)
        self.assertAlmostEqual(tg.calculate_gain("tanh"), 5 / 3)
        self.assertRaises(TypeError, nn.init.orthogonal_, w, tg.Rng(1), 2)
        self.assertRaises(tg.Error, nn.init.xavier_uniform_, tg.zeros((2,)), tg.Rng(1))
        with tg.Tape():
            self.assertRaisesRegex(tg.Error, "a live tape tracks it", nn.init.ones_, tg.zeros((2,)).set_requires_grad())

    def test_running_means_are_tensors_and_no_parameters(self):
        norm = nn.BatchNorm(tg.Rng(1), 2)
        x = tg.tensor([[1.0, 2.0], [3.0, 4.0]])
        norm(x, "training")
        self.assertEqual(set(norm.parameters()), {"weight", "bias"})
        np.testing.assert_allclose(norm.tensors()["running_mean"].numpy(), [0.2, 0.3], rtol=1e-6)
        self.assertEqual(norm.num_batches_tracked.item(), 1)
        self.assertRaisesRegex(tg.Error, "must be one of 'evaluation', 'training'", norm, x, "sleeping")

    def test_a_module_names_its_tensors_by_its_attributes(self):
        net = Net(tg.Rng(1))
        parameters = net.parameters()
        self.assertEqual(
            list(parameters), ["layers.0.weight", "layers.0.bias", "layers.1.weight", "named.norm.weight", "named.norm.bias", "scale"]
        )
        self.assertEqual(set(net.tensors()) - set(parameters), {"shift"})
        self.assertEqual(parameters["layers.0.weight"].id(), net.layers[0].weight.id())
        self.assertEqual(net(tg.ones((4, 3))).shape, (4, 2))

    def test_a_module_takes_tensors_layers_modules_lists_and_dicts_alone(self):
        class HasTensors:
            def tensors(self):
                return {"x": tg.ones((1,))}

        net, w = nn.Module(), tg.ones((1,)).set_requires_grad()
        net.kind, net.data, net.w, net.inner = nn.Module, HasTensors(), w, nn.Module()
        net.inner.outer, net.inner.parts = net, [tg.zeros((2,))]
        net.inner.parts.append(net.inner.parts)
        self.assertEqual(list(net.tensors()), ["w", "inner.parts.0"])
        self.assertEqual(list(net.parameters()), ["w"])
        net.named = {1: tg.ones((1,)), "1": tg.ones((1,))}
        self.assertRaisesRegex(tg.Error, "two tensors have the name named.1", net.tensors)

    def test_a_layer_keeps_its_generator(self):
        for make in (lambda rng: nn.Linear(rng, 2, 3), lambda rng: tg.Decoder(rng, vocab_size=5, block_size=4, n_layer=1, n_head=1, n_embd=2)):
            rng = tg.Rng(1)
            gone, layer = weakref.ref(rng), make(rng)
            del rng
            gc.collect()
            self.assertIsNotNone(gone())
            del layer
            gc.collect()
            self.assertIsNone(gone())

    def test_wrong_sizes_are_refused(self):
        rng = tg.Rng(1)
        for call, error in [
            (lambda: nn.Linear(rng, -1, 2), tg.Error),
            (lambda: nn.Linear(rng, 2**40, 2**40), tg.Error),
            (lambda: nn.Linear(1, 2, 3), TypeError),
            (lambda: nn.Linear(rng, 2, 2, dtype=tg.i32), tg.Error),
            (lambda: nn.Linear(rng, 3, 2)(tg.ones((1, 4))), tg.Error),
        ]:
            self.assertRaises(error, call)


class Summaries(unittest.TestCase):
    def test_a_table_by_part(self):
        summary = nn.summary(Net(tg.Rng(1)), tg.ones((4, 3)))
        lines = [
            "part        shapes       parameters  fixed  output",
            "layers.0    (5, 3), (5)          20      0  (4, 5)",
            "layers.1    (2, 5)               10      0  (4, 2)",
            "named.norm  (5), (5)             10      0  (4, 5)",
            "scale       (1)                   1      0  (4, 2)",
            "shift       (1)                   0      1",
            "all                              41      1",
            "",
            "41 parameters; all tensors take 168 B",
        ]
        self.assertEqual(str(summary), "\n".join(lines))
        self.assertEqual(repr(summary), str(summary))
        self.assertEqual([part.output for part in summary.parts], [(4, 5), (4, 2), (4, 5), (4, 2), None])
        self.assertEqual(summary.parts[0].shapes, [(5, 3), (5,)])
        self.assertEqual((summary.parameters, summary.fixed), (41, 1))

    def test_layers_and_decoders_have_one(self):
        rng = tg.Rng(1)
        self.assertEqual([part.name for part in nn.summary(nn.Linear(rng, 3, 2)).parts], ["weight", "bias"])
        model = tg.Decoder(rng, vocab_size=5, block_size=4, n_layer=1, n_head=1, n_embd=2)
        outputs = {part.name: part.output for part in nn.summary(model, tg.tensor([[1, 2, 3]])).parts}
        self.assertEqual((outputs["wte"], outputs["h.0.mlp.c_fc"]), ((1, 3, 2), (1, 3, 8)))
        self.assertRaises(AttributeError, nn.summary, 5)

    def test_the_call_computes_nothing(self):
        class Normed(nn.Module):
            def __init__(self):
                self.norm = nn.BatchNorm(tg.Rng(1), 2)

            def forward(self, x, wrong=False):
                if wrong:
                    raise KeyError("wrong")
                return self.norm(x, "training")

        net, x = Normed(), tg.tensor([[1.0, 2.0], [3.0, 4.0]])
        with tg.Tape() as tape:
            self.assertEqual(nn.summary(net, x).parts[0].output, (2, 2))
            self.assertEqual(tape.size(), 0)
        self.assertEqual(net.norm.running_mean.tolist(), [0.0, 0.0])
        self.assertRaises(KeyError, nn.summary, net, x, wrong=True)
        np.testing.assert_allclose(net(x).numpy(), [[-1, -1], [1, 1]], rtol=1e-4)  # ops compute again
        np.testing.assert_allclose(net.norm.running_mean.numpy(), [0.2, 0.3], rtol=1e-6)


class Optimizers(unittest.TestCase):
    def step(self, make):
        """An f64 parameter [1, -2] after two steps with the gradient [0.5, 2]."""
        w = tg.tensor([[1.0, -2.0]], dtype=tg.f64, requires_grad=True)
        optimizer = make({"w": w})
        for _ in range(2):
            w.grad = tg.tensor([[0.5, 2.0]], dtype=tg.f64)
            optimizer.step()
        self.assertEqual(optimizer.steps(), 2)
        return w.numpy()[0], optimizer

    def test_steps_are_those_of_the_formulas(self):
        g, w = np.array([0.5, 2.0]), np.array([1.0, -2.0])
        np.testing.assert_allclose(self.step(lambda p: tg.SGD(p, lr=0.1))[0], w - 0.2 * g)
        np.testing.assert_allclose(self.step(lambda p: tg.SGD(p, lr=0.1, momentum=0.5))[0], w - 0.1 * g - 0.15 * g)
        decayed = (w * (1 - 0.1 * 0.3) - 0.1) * (1 - 0.1 * 0.3) - 0.1
        signs = np.array([1.0, 1.0])  # an even gradient: m/√v is its sign
        np.testing.assert_allclose(self.step(lambda p: tg.AdamW(p, lr=0.1, weight_decay=0.3))[0], decayed * signs, rtol=1e-6)
        np.testing.assert_allclose(self.step(lambda p: tg.Lion(p, lr=0.1))[0], w - 0.2)
        moved, optimizer = self.step(lambda p: tg.Muon(p, lr=0.1, ns_coefficients=(3, -3, 1)))
        self.assertEqual(list(optimizer.state()), ["momentum_buffer.w"])
        self.assertTrue((moved < w).all())

    def test_lbfgs_calls_a_function_for_the_loss(self):
        w = tg.tensor([-1.2, 1.0], tg.f64, requires_grad=True)

        def rosenbrock():
            with tg.Tape() as tape:
                loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
                tape.backward(loss)
            return loss

        lbfgs = tg.LBFGS([w], max_iter=100, line_search="strong_wolfe")
        self.assertAlmostEqual(lbfgs.step(rosenbrock), 24.2)
        np.testing.assert_allclose(w.numpy(), [1, 1], atol=1e-3)
        self.assertGreaterEqual(lbfgs.evaluations(), lbfgs.iterations())
        self.assertLess(lbfgs.step(lambda: rosenbrock().item()), 1e-6)

        def fail():
            raise KeyError("of the loss")

        before = w.tolist()
        self.assertRaisesRegex(KeyError, "of the loss", lbfgs.step, fail)
        self.assertRaisesRegex(TypeError, "must return its loss", lbfgs.step, lambda: None)
        self.assertRaisesRegex(tg.Error, "must be one of 'none', 'strong_wolfe'", tg.LBFGS, [w], line_search="armijo")
        self.assertEqual(w.tolist(), before)

    def test_parameters_come_as_a_dict_a_list_or_a_module(self):
        w = tg.tensor([1.0], requires_grad=True)
        net = nn.Module()
        net.w = w
        for parameters in ({"w": w}, [w], net, iter([w])):
            w.grad = tg.tensor([1.0])
            before = w.item()
            optimizer = tg.SGD(parameters, lr=0.5)
            optimizer.lr = 0.25
            optimizer.step()
            self.assertEqual(w.item(), before - 0.25)
            optimizer.zero_grad()
            self.assertIsNone(w.grad)

    def test_what_optimisers_refuse(self):
        w = tg.tensor([1.0], requires_grad=True)
        self.assertRaisesRegex(tg.Error, "gradient", tg.SGD([w]).step)
        self.assertRaisesRegex(tg.Error, "beta1", tg.AdamW, [w], beta1=2)
        self.assertRaisesRegex(tg.Error, "adjust_lr", tg.Muon, [tg.ones((2, 2))], adjust_lr="best")
        self.assertRaisesRegex(tg.Error, "matri", tg.Muon, [w])
        for wrong in (w, [1.0], {"w": 1}, 5, "w", None):
            self.assertRaises(TypeError, tg.SGD, wrong)

    def test_clipping_is_that_of_the_norm(self):
        w = tg.tensor([1.0], requires_grad=True)
        w.grad = tg.tensor([4.0])
        self.assertEqual(tg.measure_clipping([w], 1.0).norm, 4)
        self.assertEqual(tg.clip_grad_norm([w], 2.0), 4)
        self.assertAlmostEqual(w.grad.item(), 2, places=5)

    def test_averages_of_weights(self):
        w = tg.tensor([1.0, 2.0], tg.f64, requires_grad=True)
        moving, mean = tg.EMA({"w": w}, decay=0.75), tg.EMA([w], mean=True)
        for value in (4.0, 8.0, 0.0):
            tg.assign(w, tg.tensor([value, -value], tg.f64))
            moving.update()
            mean.update()
        self.assertEqual(moving.averages()["w"].tolist(), [3.75, -3.75])
        self.assertEqual(mean.averages()["0"].tolist(), [4.0, -4.0])
        moving.swap()
        self.assertEqual((w.tolist(), moving.averages()["w"].tolist()), ([3.75, -3.75], [0.0, 0.0]))
        moving.swap()
        self.assertEqual(w.tolist(), [0.0, 0.0])
        moving.copy_to_parameters()
        self.assertEqual((w.tolist(), moving.updates(), w.requires_grad), ([3.75, -3.75], 3, True))
        self.assertRaisesRegex(tg.Error, "decay", tg.EMA, [w], decay=2)

    def resumed(self, make, step):
        """Weights after 9 steps, and those of a second object that takes the first one's state after 4."""

        def train(w, kept, begin, end):
            for i in range(begin, end):
                step(w, kept, i)

        whole, first = tg.tensor([-1.2, 1.0], requires_grad=True), tg.tensor([-1.2, 1.0], requires_grad=True)
        kept, cut = make(whole), make(first)
        train(whole, kept, 0, 9)
        train(first, cut, 0, 4)
        saved, second, other = cut.state_dict(), first.detach().clone().set_requires_grad(), make(tg.ones((2,)).set_requires_grad())
        copy, went_on = pickle.loads(pickle.dumps(saved)), make(second)
        went_on.load_state_dict(saved)
        train(second, went_on, 4, 9)
        train(first, cut, 4, 9)
        self.assertEqual(str(saved), str(copy))  # whatever comes later
        self.assertEqual((second.tolist(), first.tolist()), (whole.tolist(), whole.tolist()))
        values = [[v.tolist() if isinstance(v, tg.Tensor) else v for v in o.state_dict().values()] for o in (kept, cut, went_on)]
        self.assertEqual(values[1:], [values[0], values[0]])
        before = str(other.state_dict())
        counts = {name: value for name, value in saved.items() if isinstance(value, int)}
        for wrong in ({}, counts, {**saved, next(iter(saved)): tg.ones((3,))}, {**saved, **dict.fromkeys(counts, "many")}):
            self.assertRaisesRegex(tg.Error, "state_dict: ", other.load_state_dict, wrong)
        self.assertEqual(str(other.state_dict()), before)
        self.assertRaises(TypeError, other.load_state_dict, [1])
        return saved

    def test_what_is_kept_is_saved_and_loaded_to_the_bit(self):
        def rosenbrock(w):
            with tg.Tape() as tape:
                loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
                tape.backward(loss)
            return loss

        def update(w, optimizer, i):
            optimizer.zero_grad()
            rosenbrock(w)
            optimizer.step()

        def average(w, ema, i):
            tg.assign(w, tg.tensor([i**0.5, 1 / (i + 1)]))
            ema.update()

        for make in (lambda w: tg.AdamW({"w": w}, amsgrad=True), lambda w: tg.SGD({"w": w}, lr=1e-4, momentum=0.9)):
            self.resumed(make, update)
        lbfgs = self.resumed(lambda w: tg.LBFGS({"w": w}, lr=1e-2, max_iter=4, history_size=3), lambda w, o, i: o.step(lambda: rosenbrock(w)))
        self.assertGreater(lbfgs["lbfgs.iterations"], 4)
        self.assertEqual(lbfgs["lbfgs.direction"].shape, (2,))
        for options in ({"decay": 0.75}, {"mean": True}, {"mean": True, "start": 3}, {"mean": True, "start": 6}):
            saved = self.resumed(lambda w: tg.EMA({"w": w}, **options), average)
            self.assertEqual((sorted(saved), saved["ema.updates"]), (["ema.updates", "ema.w"], 4))

    def test_schedules(self):
        self.assertEqual(tg.StepLR(learning_rate=1.0, step_size=2, gamma=0.5)(5), 0.25)
        self.assertEqual(tg.MultiStepLR(learning_rate=1.0, milestones=[1, 3], gamma=0.5)(3), 0.25)
        schedule = tg.Schedule(kind="cosine", learning_rate=1.0, min_lr=0.0, lr_decay_iters=10)
        self.assertAlmostEqual(schedule(5), (1 + math.cos(math.pi / 2)) / 2)
        cut = tg.Schedule(kind="multistep", learning_rate=1.0, milestones=[1, 3], gamma=0.5)
        self.assertEqual([cut(i) for i in range(4)], [1, 0.5, 0.5, 0.25])
        cut.milestones = [2]
        self.assertEqual((cut.milestones, [cut(i) for i in range(3)]), ([2], [1, 1, 0.5]))
        schedule.learning_rate = 2
        self.assertAlmostEqual(schedule(5), 1)
        plateau = tg.ReduceLROnPlateau(lr=1.0, patience=0)
        self.assertEqual([plateau.step(1.0), round(plateau.step(1.0), 9)], [1.0, 0.1])
        self.assertRaisesRegex(tg.Error, "must be one of", tg.Schedule, kind="steep")
        self.assertRaises(TypeError, tg.StepLR, 1.0)
        self.assertRaisesRegex(tg.Error, "min_lr 2 is above", tg.Schedule, learning_rate=1, min_lr=2)
        self.assertRaisesRegex(tg.Error, "lr_decay_iters 1 comes before", tg.Schedule, warmup_iters=2, lr_decay_iters=1)
        schedule.min_lr = 3
        self.assertRaisesRegex(tg.Error, "min_lr 3 is above", schedule, 0)


if __name__ == "__main__":
    unittest.main()
