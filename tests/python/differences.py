"""Gradients by central differences: ⟨v, J·u⟩ against ⟨Jᵀ·v, u⟩ for random directions u and v."""

import numpy as np
import tapegrad as tg

STEP = 1e-6


def assert_gradients(test, f, *arrays, seed=0, tolerance=1e-5):
    """f takes f64 tensors and returns one."""
    random = np.random.default_rng(seed)
    inputs = [tg.tensor(a) for a in arrays]
    directions = [random.standard_normal(a.shape) for a in arrays]
    with tg.Tape() as tape:
        for x in inputs:
            tape.watch(x)
        y = f(*inputs)
        v = random.standard_normal(y.shape)
        gradients = tape.gradient(y, inputs, seeds=tg.tensor(v))
    analytic = sum(np.sum(g.numpy() * u) for g, u in zip(gradients, directions) if g is not None)

    def moved(sign):
        return f(*[tg.tensor(a + sign * STEP * u) for a, u in zip(arrays, directions)]).numpy()

    numeric = np.sum(v * (moved(1) - moved(-1)) / (2 * STEP))
    test.assertLess(abs(analytic - numeric), tolerance * (1 + abs(numeric)), f"{analytic} by backward, {numeric} by differences")
