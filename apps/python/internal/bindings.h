#pragma once

#include "tapegrad/apps/python/internal/casters.h"
#include "tapegrad/base/random.h"

namespace tapegrad::python {

using TensorClass = py::class_<Tensor>;

// Each adds its part to the module, in this order: signatures name types that are known.
void bind_random(py::module_& m);
TensorClass bind_tensor(py::module_& m);
void bind_operators(TensorClass& tensor);
void bind_subscripts(TensorClass& tensor);
void bind_numpy(py::module_& m, TensorClass& tensor);
void bind_creation(py::module_& m);
void bind_tape(py::module_& m);

// The elements as an array of NumPy's that shares the memory and cannot be written to.
py::object array_view(const Tensor& t);

// Written by generate_ops.py.
void bind_op_types(py::module_& m);
void bind_ops(py::module_& m);

}  // namespace tapegrad::python
