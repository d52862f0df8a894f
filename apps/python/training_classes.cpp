// What layers and modules have in common, and optimisers: generate_ops.py reads the rest from their
// headers.

#include <map>
#include <string>
#include <utility>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"
#include "tapegrad/autograd/formats/tensor_source.h"
#include "tapegrad/nn/layers/module_summary.h"

namespace tapegrad::python {
namespace {

void step(AnyOptimizer& optimizer, const std::optional<Number>& lr, Number grad_factor,
          Number decay_factor) {
  const double rate = lr ? lr->value : optimizer.lr;
  const py::gil_scoped_release unlocked;
  optimizer.state->step(rate, grad_factor, decay_factor);
}

Parameters state(const AnyOptimizer& optimizer) { return {optimizer.state->state()}; }

nn::ModuleSummary summary(const Parameters& tensors, const std::optional<Callable>& forward) {
  if (!forward) return nn::module_summary(tensors);
  return nn::module_summary(tensors, [&] { forward->handle()(); });
}

std::string table(const nn::ModuleSummary& summary) {
  std::string text = summary.str();
  text.pop_back();  // print() ends the last line
  return text;
}

void bind_summary(py::module_& layers) {
  using nn::ModulePart, nn::ModuleSummary;
  py::class_<ModulePart>(layers, "ModulePart", "A part of a module: what summary() says of it.")
      .def_readonly("name", &ModulePart::name)
      .def_readonly("shapes", &ModulePart::shapes, "Those of its tensors.")
      .def_readonly("parameters", &ModulePart::parameters, "How many numbers are trained.")
      .def_readonly("fixed", &ModulePart::fixed, "How many are not, as running means.")
      .def_readonly("output", &ModulePart::output, "The shape of its output, or None.");
  py::class_<ModuleSummary>(layers, "ModuleSummary", "The parts of a module, as a table.")
      .def_readonly("parts", &ModuleSummary::parts)
      .def_property_readonly("parameters", &ModuleSummary::parameters)
      .def_property_readonly("fixed", &ModuleSummary::fixed)
      .def("__str__", &table)
      .def("__repr__", &table);
  layers.def("_summary", &summary, py::arg("tensors"), py::arg("forward") = py::none());
}

}  // namespace

py::dict state_dict(const NamedTensors& tensors, const Metadata& counts) {
  py::dict state;
  for (const auto& [name, t] : tensors) state[py::str(name)] = t.detach().clone();
  for (const auto& [name, count] : counts) state[py::str(name)] = py::int_(py::str(count));
  return state;
}

std::shared_ptr<const TensorSource> source_of(const py::dict& state) {
  std::map<std::string, Tensor> tensors;
  Metadata counts;
  for (const auto& [key, value] : state) {
    const auto name = py::cast<std::string>(py::str(key));
    if (py::isinstance<Tensor>(value)) {
      tensors.emplace(name, value.cast<Tensor>());
    } else {
      counts.emplace(name, py::cast<std::string>(py::str(value)));
    }
  }
  return memory_source(std::move(tensors), "state_dict", std::move(counts));
}

void bind_training(py::module_& m, py::module_& nn) {
  bind_summary(nn);
  py::class_<AnyLayer>(nn, "Layer", "What has parameters, and is called with tensors.")
      .def(
          "parameters", [](const AnyLayer& l) { return Parameters{l.params.parameters()}; },
          "The tensors that are trained, by their names: the layer's own, no copies.")
      .def(
          "tensors", [](const AnyLayer& l) { return Parameters{l.params.tensors()}; },
          "Parameters, and tensors that are kept with them, as running means.");
  py::class_<AnyOptimizer> optimizer(m, "Optimizer", "Updates parameters by their gradients.");
  add_state_dict(
      optimizer, [](auto& o) -> auto& { return *o.state; });
  optimizer.def_readwrite("lr", &AnyOptimizer::lr, "The learning rate of the next steps.")
      .def("step", &step, py::arg("lr") = py::none(), py::arg("grad_factor") = 1.0,
           py::arg("decay_factor") = 1.0,
           "Updates all parameters that have a gradient, which counts grad_factor times; the "
           "weight decay, decay_factor times. Error if none has one.")
      .def(
          "zero_grad", [](AnyOptimizer& o) { o.state->zero_grad(); }, "Forgets the gradients.")
      .def(
          "steps", [](const AnyOptimizer& o) { return o.state->steps(); }, "Steps made so far.")
      .def("state", &state, "The tensors that it keeps, by their names in a checkpoint.");
}

}  // namespace tapegrad::python
