"""tapegrad: tensors, ops and gradients on a CPU. See docs/python.md."""

from tapegrad import _core
from tapegrad._core import *  # noqa: F403
from tapegrad._core import __version__

__all__ = [name for name in dir(_core) if not name.startswith("_") and name != "ops_left_out"]


def _unpickled(array, requires_grad):
    return _core.tensor(array, requires_grad=requires_grad)
