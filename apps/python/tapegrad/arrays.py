"""Tensors from arrays of NumPy's and back, without copies, and by DLPack, which NumPy speaks."""

import numpy as np

from tapegrad import _core
from tapegrad._core import Error, Tensor

_NAMES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8", "bool": "bool"}
NUMPY = {getattr(_core, name): np.dtype(other) for name, other in _NAMES.items()}
_TENSORS = {other: dtype for dtype, other in NUMPY.items()}


class _Memory:
    """What NumPy makes an array of, which keeps the tensor alive."""

    def __init__(self, tensor, read_only):
        self.tensor = tensor
        data = (tensor._address(), read_only)
        self.__array_interface__ = {"version": 3, "shape": tensor.shape, "typestr": NUMPY[tensor.dtype].str, "data": data}


def view(x, read_only=True):
    """The elements as an array that shares the memory."""
    if x.numel() == 0:  # NumPy refuses the address of no memory
        return np.zeros(x.shape, NUMPY[x.dtype])
    return np.asarray(_Memory(x, read_only))


def _shared(function, a, read_only=False):
    """A tensor on the memory of a contiguous array, which it keeps."""
    if read_only:
        raise Error(f"[{function}] the array is read-only, and the tensor that shared its memory would not be: tensor() copies it")
    if not a.flags.c_contiguous:
        raise Error(f"[{function}] the array of shape {a.shape} is not contiguous in C's order, as tensors are: tensor() copies it")
    if a.dtype not in _TENSORS:
        raise Error(
            f"[{function}] an array of {a.dtype} becomes no tensor: float32, float64, int32, int64, uint8 and bool do, in "
            "this machine's byte order; convert with astype()"
        )
    if a.dtype == bool and a.size and a.view(np.uint8).max() > 1:
        raise Error(f"[{function}] an element of bool has another byte than 0 and 1: convert with astype(), not with view()")
    return _core._from_address(a.__array_interface__["data"][0], a.shape, _TENSORS[a.dtype], a)


def from_numpy(array):
    """A tensor that shares the array's memory and keeps it alive. Writing to the array changes the tensor; a tape does not notice.
    Error for an array that is read-only, not contiguous, or of another dtype: tensor() copies."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy() takes an array of NumPy's, not {type(array).__name__}: tensor() takes others")
    return _shared("from_numpy", array, not array.flags.writeable)


def _says_what_is_read_only(x):
    """True from DLPack 1.0 on, which NumPy 2.1 reads. Older ones lock whatever comes."""
    try:
        return np.lib.NumpyVersion(np.__version__) >= "2.1.0" and "versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    except TypeError:
        return False


def from_dlpack(x):
    """A tensor that shares the memory of another library's, as NumPy's from_dlpack()."""
    array = np.from_dlpack(x)
    return _shared("from_dlpack", array, not array.flags.writeable and _says_what_is_read_only(x))


def tensor(data, dtype=None, requires_grad=False):
    """A tensor of a number, nested lists, or an array of NumPy's, copied. Floats of Python's become f32, whole numbers i64; arrays
    keep their dtype."""
    if isinstance(data, Tensor):
        _core._check_untracked("tensor", data)
        t = data.detach().clone()
    else:
        a = np.asarray(data)
        if a.dtype.hasobject:
            raise Error("[tensor] lists of different lengths, or of what are no numbers, make no tensor")
        t = _shared("tensor", np.require(a, requirements="CA").reshape(a.shape)).clone()
        if dtype is None and t.dtype == _core.f64 and not isinstance(data, (np.ndarray, np.generic)):
            dtype = _core.f32
    if dtype is not None and dtype != t.dtype:
        t = t.to(dtype)
    return t.set_requires_grad() if requires_grad else t


def numpy(x):
    """The elements as an array that shares the memory, keeps the tensor alive, and is read-only, since a tape would not notice a
    change. Error for a tensor that a live tape tracks: detach() it."""
    _core._check_untracked("numpy", x)
    return view(x)


def _array(x, dtype=None, copy=None):
    array = numpy(x)
    if dtype is None or np.dtype(dtype) == array.dtype:
        return array.copy() if copy else array
    if copy is False:
        raise ValueError("an array of another dtype is a copy")
    return array.astype(dtype)


def _dlpack(x, **asked):
    _core._check_untracked("__dlpack__", x)
    return view(x, read_only=False).__dlpack__(**asked)


def _unpickled(array, requires_grad):
    return tensor(array, requires_grad=requires_grad)


Tensor.numpy = numpy
Tensor.tolist = lambda x: view(x).tolist()
Tensor.__array__ = _array
Tensor.__dlpack__ = _dlpack
Tensor.__dlpack_device__ = lambda x: (1, 0)  # the memory of the processor
Tensor.__reduce__ = lambda x: (_unpickled, (numpy(x), x.requires_grad))
