// Ops that are written in Python, the check of gradients, and functions as graphs of ONNX.

#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"
#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/autograd/derivatives.h"
#include "tapegrad/autograd/onnx/export_onnx.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/error.h"

namespace tapegrad::python {
namespace {

// The names of ops live as long as the process: tapes and reports refer to them.
std::string_view lasting(const std::string& name) {
  check(!name.empty(), "[apply] an op needs a name");
  static auto* const names = new std::set<std::string>;  // the GIL guards it
  return *names->insert(name).first;
}

// What a forward keeps, while a function of Python's runs. Python may hold on to it for longer.
struct OpenSaved {
  Saved* writable = nullptr;
  const Saved* readable = nullptr;
  const Needs* asked = nullptr;

  const Saved& get() const {
    check(readable != nullptr, "`saved` lives while forward or vjp runs: it has ended");
    return *readable;
  }
  py::object at(std::size_t i) const {
    if (i >= get().size()) throw py::index_error("fewer tensors were kept");
    return or_none(get()[i]);
  }
  py::object keep(py::object tensor) const {
    check(readable == nullptr || writable != nullptr, "a vjp keeps nothing");
    (void)get();
    writable->keep(tensor.is_none() ? Tensor() : tensor.cast<Tensor>());
    return tensor;
  }
  bool needs(std::size_t i) const {
    return asked != nullptr ? i < asked->size() && (*asked)[i] : get().needs(i);
  }
};

// f(saved, *tensors), for which the caller has the GIL.
py::object call_with(const OpenSaved& open, const Callable& f, Inputs tensors) {
  struct Handle {
    py::object saved;
    ~Handle() { saved.cast<OpenSaved&>() = {}; }
  } const handle{py::cast(open)};
  return f.handle()(handle.saved, *tuple_of(tensors));
}

bool is_sequence(py::handle value) {
  return py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value);
}

// One tensor, or several of which some may be None.
std::vector<Tensor> returned_tensors(py::handle value) {
  if (!is_sequence(value)) return {value.is_none() ? Tensor() : returned_tensor(value)};
  std::vector<Tensor> all;
  for (const py::handle part : value) {
    all.push_back(part.is_none() ? Tensor() : returned_tensor(part));
  }
  return all;
}

py::object apply_own(const std::string& name, const std::vector<const Tensor*>& inputs,
                     const Callable& forward, const Callable& vjp, const std::string& onnx) {
  std::vector<Tensor> tensors;
  for (const Tensor* input : inputs) tensors.push_back(or_undefined(input));
  const auto several = std::make_shared<bool>(false);
  const std::vector<Tensor> outputs = apply_many(
      lasting(name), tensors,
      [forward, several](Inputs in, Saved& saved) {
        const py::gil_scoped_acquire locked;
        const py::object made = call_with({&saved, &saved, nullptr}, forward, in);
        *several = is_sequence(made);
        if (!*several) return std::vector{returned_tensor(made)};
        return returned_tensors(made);
      },
      [vjp](Inputs dys, const Saved& saved, const Needs& needs) {
        const py::gil_scoped_acquire locked;
        return returned_tensors(call_with({nullptr, &saved, &needs}, vjp, dys));
      },
      {.onnx = onnx.empty() ? OnnxRow() : OnnxRow(lasting(onnx).data())});
  return *several ? or_none(outputs) : or_none(outputs.at(0));
}

// The gradients of f, times random numbers, as one number: a function whose gradients are the
// second derivatives of f.
TensorsFunction gradient_of(const TensorsFunction& f, const std::vector<Tensor>& inputs, Rng& rng) {
  const auto random = [&rng](const Tensor& t) { return Tensor::randn(t.shape(), rng, t.dtype()); };
  const Tensor v = random(f(inputs));
  std::vector<Tensor> directions;
  for (const Tensor& x : inputs) directions.push_back(random(x));
  return [=](Inputs xs) {
    const Grads gradients = vjp(f, {xs.begin(), xs.end()}, v).products;
    Tensor all = Tensor::zeros({}, v.dtype());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      all = all + sum(gradients[i] * directions[i]);
    return all;
  };
}

std::vector<GradientCheck> checks_of(const TensorsFunction& f, const std::vector<Tensor>& inputs,
                                     int order, const GradientCheckOptions& options) {
  Tape tape({.checkable = true});
  for (const Tensor& x : inputs) tape.watch(x);
  (void)f(inputs);
  std::vector<GradientCheck> checks = check_gradients(tape, options);
  const auto add = [&](const std::string& name, const TensorsFunction& whole) {
    const TapePause pause;
    for (GradientCheck& c : check_function(name, whole, inputs, options)) {
      checks.push_back(std::move(c));
    }
  };
  add("f", f);
  Rng rng(options.seed);
  if (order == 2) add("gradient of f", gradient_of(f, inputs, rng));
  return checks;
}

// Error with the lines of those that have not passed.
std::vector<std::string> check_own(const Callable& f, const std::vector<Tensor>& inputs, int order,
                                   std::uint64_t seed, Number tolerance) {
  check(order == 1 || order == 2, "[check_gradients] the order is {}, but must be 1 or 2", order);
  const py::gil_scoped_release unlocked;
  std::vector<std::string> lines;
  std::string wrong;
  for (const GradientCheck& c :
       checks_of(function_of_several(f), inputs, order, {.seed = seed, .tolerance = tolerance})) {
    lines.push_back(c.str());
    if (!c.passed) wrong += "\n" + c.str();
  }
  check(wrong.empty(), "[check_gradients] gradients differ from central differences:{}", wrong);
  return lines;
}

// A function that has parameters(), as a module, names its own.
void export_function(const std::filesystem::path& file, const Callable& f, const py::args& inputs,
                     const std::vector<std::string>& input_names,
                     const std::vector<std::string>& output_names, Parameters parameters) {
  std::vector<Tensor> example;
  for (const py::handle x : inputs) {
    if (!py::isinstance<Tensor>(x)) throw py::type_error("[export_onnx] inputs must be tensors");
    example.push_back(x.cast<Tensor>());
  }
  if (parameters.empty() && py::hasattr(f.handle(), "parameters")) {
    read_parameters(f.handle(), parameters);
  }
  bool ran = false;
  const auto function = [f, &ran](Inputs xs) {
    const py::gil_scoped_acquire locked;
    const bool again = std::exchange(ran, true);
    try {
      return returned_tensors(f.handle()(*tuple_of(xs)));
    } catch (const py::error_already_set& raised) {
      // f may refuse other values. KeyboardInterrupt and SystemExit are no Exceptions of Python's.
      if (!again || !raised.matches(PyExc_Exception)) throw;
      fail("{}", raised.what());
    }
  };
  const py::gil_scoped_release unlocked;
  export_onnx(file, std::function<std::vector<Tensor>(Inputs)>(function), example,
              {.inputs = input_names, .outputs = output_names, .parameters = parameters});
}

}  // namespace

void bind_own_ops(py::module_& m) {
  py::class_<OpenSaved>(m, "Saved", "The tensors that a forward keeps for its vjp.")
      .def("keep", &OpenSaved::keep, py::arg("x"), "Keeps x, if a tape wants it, and returns it.")
      .def("needs", &OpenSaved::needs, py::arg("i"),
           "True if the gradient of input i is asked for.")
      .def("__getitem__", &OpenSaved::at)
      .def("__len__", [](const OpenSaved& saved) { return saved.get().size(); });
  m.def("apply", &apply_own, py::arg("name"), py::arg("inputs"), py::arg("forward"), py::arg("vjp"),
        py::arg("onnx") = "",
        "An op of one's own. forward(saved, *inputs) returns a tensor or a list of them, and keeps "
        "with saved.keep(x) what vjp needs; nothing is recorded meanwhile. vjp(saved, *dys) gets "
        "the gradients of the outputs (None for one without influence) and returns those of the "
        "inputs, None where there is none. A vjp that is written with ops has derivatives in turn. "
        "Inputs may be None. onnx is the name of an op of ONNX that computes the same, for "
        "export_onnx, which writes ops of one output.");
  m.def("check_gradients", &check_own, py::arg("f"), py::arg("inputs"), py::arg("order") = 1,
        py::arg("seed") = 0, py::arg("tolerance") = 1e-6,
        "Compares the gradients of f(*inputs) with central differences, of each op that it runs "
        "and of f as a whole; with order=2, those of its gradients, too. A line for each. Error "
        "with the lines of those that differ. Inputs should be f64: in f32, errors below 1e-3 "
        "hide.");
  m.def("export_onnx", &export_function, py::arg("file"), py::arg("f"),
        py::arg("input_names") = std::vector<std::string>(),
        py::arg("output_names") = std::vector<std::string>(), py::arg("parameters") = Parameters(),
        "Writes f(*inputs), which returns a tensor or a list of them, as a graph of ONNX (opset "
        "17) of the shapes and dtypes of these inputs. Parameters, and tensors that f has from "
        "elsewhere, are stored in it, by the names in parameters or those of f.parameters(). It "
        "calls f three times, to find what depends on the inputs by way of comparisons, integers "
        "or random draws. Error naming the op for that, and for an op that ONNX cannot say here.");
}

}  // namespace tapegrad::python
