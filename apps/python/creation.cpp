// Functions that make tensors: Tensor's static ones.

#include <optional>
#include <string>

#include "tapegrad/apps/python/internal/bindings.h"

namespace tapegrad::python {
namespace {

py::arg_v as_f32() { return py::arg_v("dtype", DType::f32, "f32"); }

void bind_random_tensors(py::module_& m) {
  m.def(
      "randn",
      [](const Shape& shape, Rng& rng, DType dtype) { return Tensor::randn(shape, rng, dtype); },
      py::arg("shape"), py::arg("rng"), as_f32(), "Standard normal numbers: those of torch.randn.");
  m.def(
      "uniform",
      [](const Shape& shape, Rng& rng, Number low, Number high, DType dtype) {
        return Tensor::uniform(shape, rng, low, high, dtype);
      },
      py::arg("shape"), py::arg("rng"), py::arg("low") = 0.0, py::arg("high") = 1.0, as_f32(),
      "Numbers in [low, high): those of torch.rand for 0 and 1.");
}

}  // namespace

void bind_creation(py::module_& m) {
  m.def("empty", &Tensor::empty, py::arg("shape"), as_f32(), "Contents unspecified.");
  m.def("zeros", &Tensor::zeros, py::arg("shape"), as_f32());
  m.def("ones", &Tensor::ones, py::arg("shape"), as_f32());
  m.def(
      "full",
      [](const Shape& shape, Number value, DType dtype) {
        return Tensor::full(shape, value, dtype);
      },
      py::arg("shape"), py::arg("value"), as_f32());
  m.def(
      "arange",
      [](Number begin, Number end, Number step, DType dtype) {
        return Tensor::arange(begin, end, step, dtype);
      },
      py::arg("begin"), py::arg("end"), py::arg("step") = 1.0, as_f32(),
      "begin, begin + step, … up to but not including end.");
  m.def(
      "arange", [](Number end, DType dtype) { return Tensor::arange(0, end, 1, dtype); },
      py::arg("end"), as_f32());
  m.def(
      "linspace",
      [](Number first, Number last, std::int64_t count, DType dtype) {
        return Tensor::linspace(first, last, count, dtype);
      },
      py::arg("first"), py::arg("last"), py::arg("count"), as_f32(),
      "`count` numbers from first to last, both included.");
  m.def(
      "eye",
      [](std::int64_t n, std::optional<std::int64_t> columns, DType dtype) {
        return Tensor::eye(n, columns.value_or(n), dtype);
      },
      py::arg("n"), py::arg("columns") = py::none(), as_f32());
  bind_random_tensors(m);
}

void bind_random(py::module_& m) {
  py::class_<Rng>(
      m, "Rng",
      "A random number generator, for one thread at a time. With kind 'torch' the numbers "
      "are PyTorch's of the same seed.")
      .def(py::init([](std::uint64_t seed, const std::string& kind) {
             check(kind == "torch" || kind == "philox",
                   "kind is '{}', but must be 'torch' or 'philox'", kind);
             return Rng(seed, kind == "torch" ? Rng::Kind::torch : Rng::Kind::philox);
           }),
           py::arg("seed"), py::arg("kind") = "torch")
      .def_property_readonly("seed", &Rng::seed)
      .def(
          "uniform", [](Rng& rng) { return rng.uniform(); }, "A number in [0, 1).")
      .def(
          "randint",
          [](Rng& rng, std::int64_t n) {
            check(n > 0, "[randint] there is no whole number in [0, {})", n);
            return rng.randint(n);
          },
          py::arg("n"), "A whole number in [0, n).")
      .def(
          "randperm",
          [](Rng& rng, std::int64_t n) {
            check(n >= 0 && n <= std::int64_t{1} << 28, "[randperm] {} numbers", n);
            return rng.randperm(n);
          },
          py::arg("n"), "0, 1, … n − 1, shuffled.")
      .def("state", &Rng::state, "All that determines later draws, as a line of text.")
      .def("set_state", &Rng::set_state, py::arg("saved"));
}

}  // namespace tapegrad::python
