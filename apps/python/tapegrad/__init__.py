"""tapegrad: tensors, ops and gradients on a CPU. See docs/python.md."""

from tapegrad import _core
from tapegrad._core import *  # noqa: F403
from tapegrad._core import ArrayLoader, Decoder, Tensor, Tokenizer, __version__

Tensor.ndim = property(Tensor.rank, doc="The number of dimensions.")
Tensor.nbytes = property(Tensor.bytes)
Tensor.dim = Tensor.rank  # as in PyTorch
Tensor.__rpow__ = lambda a, b: _core.pow(_core.scalar_like(a, b), a)
Decoder.logits = Decoder.__call__
ArrayLoader.__iter__ = lambda loader: loader
ArrayLoader.__next__ = ArrayLoader.next
Tokenizer.__len__ = Tokenizer.vocab_size
Tokenizer.__repr__ = lambda t: f"tapegrad.Tokenizer(kind='{t.kind}', {len(t)} tokens)"

def _stream(model, prompt="", **options):
    """The text behind a prompt, in pieces, as they are made. Options are those of `tapegrad sample`, with its defaults: max_new_tokens,
    temperature, top_k, top_p, seed and so on."""
    return _core._text("stream", model, prompt, **options)


def _generate(model, prompt="", **options):
    """The text behind a prompt, with the options of stream()."""
    return "".join(_core._text("generate", model, prompt, **options))


def _encode(model, text, allow_special=False, prompt=False):
    """The tokens of a text; with `prompt`, those that generate() begins with: what the tokenizer sets before a text comes first, and an
    empty text has a token, too."""
    return _core._prompt_tokens(model.tokenizer, text) if prompt else model.tokenizer.encode(text, allow_special)


def _decode(model, tokens):
    """The text of tokens."""
    return model.tokenizer.decode(tokens)


for _method in (_stream, _generate, _encode, _decode):
    _method.__name__ = _method.__name__[1:]  # for help()
    _method.__qualname__ = f"Decoder.{_method.__name__}"
    setattr(Decoder, _method.__name__, _method)

from tapegrad import nn, subscripts  # noqa: E402
from tapegrad.arrays import from_dlpack, from_numpy, tensor  # noqa: E402
from tapegrad.training import Run, train  # noqa: E402


def arange(begin, end=None, step=1, dtype=_core.f32):
    """begin, begin + step, … up to but not including end; of one number, 0, 1, … up to that."""
    return _core.arange(*((0, begin) if end is None else (begin, end)), step, dtype)


_own = ["Run", "arange", "from_dlpack", "from_numpy", "nn", "tensor", "train"]
__all__ = [*_own, *(name for name in dir(_core) if not name.startswith("_") and name != "ops_left_out")]
