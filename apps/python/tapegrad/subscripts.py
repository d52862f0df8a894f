"""x[…]: whole numbers, slices, Ellipsis, None and tensors of indices, by the ops that C++ has for each, which are recorded."""

import operator

import numpy as np

from tapegrad import _core
from tapegrad._core import Error, Tensor
from tapegrad.arrays import numpy, tensor, view


def _whole(key, rank):
    """Subscripts as a list, in which slices stand for an Ellipsis."""
    parts = list(key) if isinstance(key, tuple) else [key]
    named = sum(part is not None and part is not Ellipsis for part in parts)
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can have one Ellipsis ('...') only")
    if named > rank:
        raise IndexError(f"{named} subscripts for a tensor of {rank} dimensions")
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    return parts if at is None else [*parts[:at], *[slice(None)] * (rank - named), *parts[at + 1 :]]


def _sliced(x, dim, part):
    places = range(*part.indices(x.shape[dim]))
    if places.step != 1:
        return _core.index_select(x, dim, tensor(np.arange(places.start, places.stop, places.step)))
    return x if len(places) == x.shape[dim] else _core.slice(x, dim, places.start, places.start + len(places))


def _whole_number(part):
    if not hasattr(part, "__index__") or isinstance(part, (bool, np.ndarray)):
        raise TypeError(
            "an index is made of whole numbers, slices, None, Ellipsis and tensors of i32, i64 or bool; a list becomes one by tensor()"
        )
    return operator.index(part)


def _selected(x, dim, part):
    index, size = _whole_number(part), x.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"there is no index {index} in dimension {dim} of {x.shape}")
    return _core.select(x, dim, index)


def _is_mask(part):
    return part.dtype in (_core.bool, _core.u8)


def _tensors(x, parts):
    """The tensors among subscripts: a mask, or ids of one dimension or of all."""
    ids = [part for part in parts if isinstance(part, Tensor)]
    if any(map(_is_mask, ids)) and (len(parts) > 1 or ids[0].shape != x.shape):
        raise Error(f"a mask as an index must have the tensor's shape {x.shape}, and be the only index")
    if 1 < len(ids) < len(parts):
        raise Error(
            "beside slices, None and whole numbers, an index has one tensor at most: x[ids0, ids1] pairs them if nothing else is there"
        )
    return ids


def _part(x, key):
    """A part: x[0], x[:, 1:3], x[..., None], x[mask], x[ids]. It copies, since tensors have no strides, and gradients flow through it."""
    parts = _whole(key, x.ndim)
    ids = _tensors(x, parts)
    if parts and len(ids) == len(parts):
        return _core.masked_select(x, ids[0]) if _is_mask(ids[0]) else _core.index(x, ids)
    y, dim = x, 0
    for part in parts:
        if part is None:
            y, dim = _core.unsqueeze(y, dim), dim + 1
        elif isinstance(part, slice):
            y, dim = _sliced(y, dim, part), dim + 1
        elif isinstance(part, Tensor):  # beside others: rows of one dimension
            y, dim = _core.index_select(y, dim, part), dim + 1
        else:
            y = _selected(y, dim, part)
    return y.clone() if y.base_id() == x.base_id() else y


def _change(x, key, value):
    """x[key] = value in place, of the elements that x[key] reads. As in-place ops, it is not recorded, and an Error where a live
    tape tracks x."""
    value = numpy(value) if isinstance(value, Tensor) else np.asarray(value)
    if value.dtype.kind not in ("f" if x.dtype in (_core.f32, _core.f64) else "") + "iub":
        raise Error(f"[setitem] values of {value.dtype} do not go into a tensor of {x.dtype}: convert them")
    array, parts = view(x, read_only=False), _whole(key, x.ndim)
    if array.dtype.kind in "iu" and value.size:
        limits = np.iinfo(array.dtype)
        if int(value.min()) < limits.min or int(value.max()) > limits.max:
            raise Error(f"[setitem] values must be from {limits.min} to {limits.max} in a tensor of {x.dtype}")
    # Whole numbers first: NumPy would move the dimension of ids to the front because of them.
    plain = [part if part is None or isinstance(part, (slice, Tensor)) else _whole_number(part) for part in parts]
    part_of_x = array[(*(slice(None) if isinstance(part, Tensor) else part for part in plain), ...)]
    places = [numpy(part) if isinstance(part, Tensor) else slice(None) for part in plain if not isinstance(part, int)]
    if any(map(_is_mask, _tensors(x, parts))):
        places = [places[0].astype(bool)]
    _core.fill(x.view((x.numel(),)).rows(0, 0), 0)  # tells tapes
    part_of_x[(*places, ...)] = value


def _length(x):
    if x.ndim == 0:
        raise TypeError("a tensor without dimensions has no length")
    return x.shape[0]


Tensor.__getitem__ = _part
Tensor.__setitem__ = _change
Tensor.__iter__ = lambda x: iter([_core.select(x, 0, i) for i in range(len(x))])
Tensor.__len__ = _length
