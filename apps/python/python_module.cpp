// The extension `tapegrad._core`; tapegrad/__init__.py makes the package of it.

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/version.h"

namespace tapegrad::python {
namespace {

void bind_dtypes(py::module_& m) {
  py::enum_<DType> dtypes(m, "DType",
                          "The type of a tensor's elements: f32, f64, i32, i64, u8, bool.");
  for (const DType d :
       {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    const std::string name(name_of(d));
    dtypes.value(name.c_str(), d);
    m.attr(name.c_str()) = d;
  }
  const auto repr = [](DType d) { return "tapegrad." + std::string(name_of(d)); };
  dtypes.attr("__repr__") = py::cpp_function(repr, py::is_method(dtypes));
  dtypes.attr("__str__") = dtypes.attr("__repr__");
}

}  // namespace
}  // namespace tapegrad::python

PYBIND11_MODULE(_core, m) {
  using namespace tapegrad::python;
  const py::object name = m.attr("__name__");
  m.attr("__name__") = "tapegrad";  // where users find the classes
  m.attr("__version__") = TAPEGRAD_VERSION;
  bind_error<tapegrad::Error>(m, "Error", PyExc_RuntimeError);
  bind_dtypes(m);
  py::module_ nn = m.def_submodule("_nn");
  nn.attr("__name__") = "tapegrad.nn";
  nn.def_submodule("init", "Functions that fill a tensor, as torch.nn.init.");
  TensorClass tensor = bind_tensor(m);
  bind_op_types(m);
  bind_training(m, nn);
  bind_classes(m, nn);
  add_members(tensor, m);
  bind_ops(m);
  bind_tape(m);
  bind_own_ops(m);
  bind_train(m);
  DecoderClass decoder = bind_decoder(m);
  add_members(decoder);
  m.attr("__name__") = name;
}
