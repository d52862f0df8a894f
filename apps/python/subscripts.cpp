// x[…]: whole numbers, slices, Ellipsis, None and tensors of indices, by the ops that C++ has for
// each: slice, select, unsqueeze, index, index_select and masked_select. All are recorded.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad::python {
namespace {

bool is_tensor(py::handle part) { return py::isinstance<Tensor>(part); }

// Subscripts as a list. One Ellipsis becomes a slice(None) for each dimension that it stands for.
std::vector<py::object> whole(const py::object& key, int rank) {
  std::vector<py::object> given;
  if (py::isinstance<py::tuple>(key)) {
    for (const py::handle part : py::reinterpret_borrow<py::tuple>(key)) {
      given.push_back(py::reinterpret_borrow<py::object>(part));
    }
  } else {
    given.push_back(key);
  }
  int named = 0, ellipses = 0;
  for (const py::object& part : given) {
    const bool is_ellipsis = part.ptr() == Py_Ellipsis;
    ellipses += is_ellipsis;
    named += !is_ellipsis && !part.is_none();
  }
  if (ellipses > 1) throw py::index_error("an index can have one Ellipsis ('...') only");
  if (named > rank) {
    throw py::index_error(fmt::format("{} subscripts for a tensor of {} dimensions", named, rank));
  }
  const py::slice all{py::none(), py::none(), py::none()};
  std::vector<py::object> parts;
  for (const py::object& part : given) {
    if (part.ptr() != Py_Ellipsis) {
      parts.push_back(part);
      continue;
    }
    for (int i = named; i < rank; ++i) parts.push_back(all);
  }
  return parts;
}

Tensor sliced(const Tensor& x, int dim, const py::slice& part) {
  const std::int64_t size = x.shape()[dim];
  py::ssize_t begin = 0, end = 0, step = 0, count = 0;
  if (!part.compute(size, &begin, &end, &step, &count)) throw py::error_already_set();
  check(step == 1, "a slice with a step of {} does not exist: use index_select or flip", step);
  if (count == size) return x;
  return slice(x, dim, begin, begin + count);
}

Tensor selected(const Tensor& x, int dim, const py::object& part) {
  const std::int64_t index = PyNumber_AsSsize_t(part.ptr(), PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  const std::int64_t size = x.shape()[dim];
  if (index < -size || index >= size) {
    throw py::index_error(
        fmt::format("there is no index {} in dimension {} of {}", index, dim, x.shape()));
  }
  return select(x, dim, index);
}

// x[mask], x[ids], x[ids0, ids1]: all subscripts are tensors.
Tensor gathered(const Tensor& x, const std::vector<py::object>& parts) {
  std::vector<Tensor> ids;
  for (const py::object& part : parts) ids.push_back(py::cast<Tensor>(part));
  if (!is_mask(ids[0].dtype())) return index(x, ids);
  check(ids.size() == 1 && ids[0].shape() == x.shape(),
        "a mask as an index must have the tensor's shape {}, and be the only index", x.shape());
  return masked_select(x, ids[0]);
}

Tensor subscript(const Tensor& x, const py::object& key) {
  const std::vector<py::object> parts = whole(key, x.rank());
  if (!parts.empty() && std::all_of(parts.begin(), parts.end(), is_tensor)) {
    return gathered(x, parts);
  }
  check(
      std::count_if(parts.begin(), parts.end(), is_tensor) <= 1,
      "beside slices, None and whole numbers, an index has one tensor at most: x[ids0, ids1] pairs "
      "them if nothing else is there");
  Tensor part_of_x = x;
  int dim = 0;
  for (const py::object& part : parts) {
    if (part.is_none()) {
      part_of_x = unsqueeze(part_of_x, dim++);
    } else if (py::isinstance<py::slice>(part)) {
      part_of_x = sliced(part_of_x, dim++, part);
    } else if (is_tensor(part)) {  // beside others: rows of one dimension
      part_of_x = index_select(part_of_x, dim++, py::cast<Tensor>(part));
    } else if (PyIndex_Check(part.ptr()) != 0 && !py::isinstance<py::bool_>(part)) {
      part_of_x = selected(part_of_x, dim, part);
    } else {
      throw py::type_error(
          "an index is made of whole numbers, slices, None, Ellipsis and tensors of i32, i64 or "
          "bool; a list becomes one by tensor()");
    }
  }
  // A copy, whatever the parts are.
  return part_of_x.sole_owner() ? part_of_x : part_of_x.clone();
}

}  // namespace

void bind_subscripts(TensorClass& c) {
  c.def("__getitem__", &subscript, py::arg("key"),
        "A part: x[0], x[:, 1:3], x[..., None], x[mask], x[ids]. It copies, since tensors have no "
        "strides, and gradients flow through it.");
  c.def("__iter__", [](const Tensor& x) {
    if (x.rank() == 0) throw py::type_error("a tensor without dimensions has no parts");
    py::list parts;
    for (std::int64_t i = 0; i < x.shape()[0]; ++i) parts.append(select(x, 0, i));
    return py::iter(parts);
  });
}

}  // namespace tapegrad::python
