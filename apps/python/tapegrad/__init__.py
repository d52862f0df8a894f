"""tapegrad: tensors, ops and gradients on a CPU. See docs/python.md."""

from tapegrad import _core
from tapegrad._core import *  # noqa: F403
from tapegrad._core import Decoder, Tensor, __version__

Tensor.ndim = property(Tensor.rank, doc="The number of dimensions.")
Tensor.nbytes = property(Tensor.bytes)
Tensor.dim = Tensor.rank  # as in PyTorch
Tensor.__rpow__ = lambda a, b: _core.pow(_core.scalar_like(a, b), a)
Decoder.logits = Decoder.__call__

from tapegrad import nn, subscripts  # noqa: E402
from tapegrad.arrays import from_dlpack, from_numpy, tensor  # noqa: E402
from tapegrad.training import Run, train  # noqa: E402


def arange(begin, end=None, step=1, dtype=_core.f32):
    """begin, begin + step, … up to but not including end; of one number, 0, 1, … up to that."""
    return _core.arange(*((0, begin) if end is None else (begin, end)), step, dtype)


_own = ["Run", "arange", "from_dlpack", "from_numpy", "nn", "tensor", "train"]
__all__ = [*_own, *(name for name in dir(_core) if not name.startswith("_") and name != "ops_left_out")]
