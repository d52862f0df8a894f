"""Layers, which C++ has, and modules of one's own."""

from tapegrad import _core
from tapegrad._core import Error, Tensor

_layers = {name: layer for name, layer in vars(_core._nn).items() if not name.startswith("_")}
globals().update(_layers)


def _tensors(part, name, around):
    """(name, tensor) of all that is in a part, by the attributes that lead there. `around` has the parts that it is in."""
    if isinstance(part, Tensor):
        yield name, part
    elif isinstance(part, (Module, _core._nn.Layer, dict, list, tuple)) and not any(part is other for other in around):
        inside = vars(part) if isinstance(part, Module) else part.tensors() if isinstance(part, _core._nn.Layer) else part
        for key, inner in inside.items() if isinstance(inside, dict) else enumerate(inside):
            yield from _tensors(inner, f"{name}.{key}" if name else str(key), (*around, part))


class Module:
    """A model of one's own: its tensors are those of its attributes, which are tensors, layers, modules, and lists and dicts of them.
    One that stands at several places has the name of the first. A call is forward()."""

    def tensors(self):
        """All tensors by their names, no copies."""
        named, known = {}, set()
        for name, t in _tensors(self, "", ()):
            if t.id() not in known and name in named:
                raise Error(f"two tensors have the name {name}, as those of the keys 1 and '1' of a dict")
            if t.id() not in known:
                named[name] = t
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


def summary(module, *inputs, **options):
    """A table of a module's or layer's parts: shapes of their tensors, how many numbers are trained and how many are fixed and, if there
    are inputs, the shapes of the parts' outputs in module(*inputs, **options). That call computes nothing and changes no tensor: a shape
    that follows from numbers, as masked_select's, is invalid, and so is what forward() stores elsewhere. An output is that of the last op
    which works on a trained tensor of the part for the first time: of an RNN or a GRU, (T, B, H)."""
    forward = (lambda: module(*inputs, **options)) if inputs or options else None
    return _core._nn._summary(module.tensors(), forward)


__all__ = ["Module", "Sequential", "summary", *_layers]
