"""Layers, which C++ has, and modules of one's own."""

from tapegrad import _core
from tapegrad._core import Tensor

_layers = {name: layer for name, layer in vars(_core._nn).items() if not name.startswith("_")}
globals().update(_layers)


def _tensors(part, name):
    """(name, tensor) of all that is in a part, by the attributes that lead there."""
    if isinstance(part, Tensor):
        yield name, part
    elif hasattr(part, "tensors"):
        yield from ((f"{name}.{inner}", t) for inner, t in part.tensors().items())
    elif isinstance(part, (dict, list, tuple)):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from _tensors(inner, f"{name}.{key}")


class Module:
    """A model of one's own: its tensors are those of its attributes, which are tensors, layers, modules, and lists and dicts of them.
    One that stands at several places has the name of the first. A call is forward()."""

    def tensors(self):
        """All tensors by their names, no copies."""
        named, known = {}, set()
        for name, part in vars(self).items():
            for full, t in _tensors(part, name):
                if t.id() not in known:
                    named[full] = t
                    known.add(t.id())
        return named

    def parameters(self):
        """The tensors that are trained."""
        return {name: t for name, t in self.tensors().items() if t.requires_grad}

    def __call__(self, *arguments, **options):
        return self.forward(*arguments, **options)


class Sequential(Module):
    """Functions of one tensor, one after the other: layers, modules and ops."""

    def __init__(self, *steps):
        self.steps = steps

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x


__all__ = ["Module", "Sequential", *_layers]
