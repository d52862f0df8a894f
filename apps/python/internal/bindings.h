#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tapegrad/apps/python/internal/casters.h"
#include "tapegrad/base/option_schema.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::python {

// A layer with the parameters that it was made with.
struct AnyLayer {
  nn::Params params;
};
template <class T>
struct Layer : AnyLayer {
  T layer;
};
template <class T, class Make>
Layer<T> make_layer(Rng& rng, DType dtype, const Make& make) {
  const nn::Params params(rng, dtype);
  return {{params}, make(params)};
}
// One that was opened has a tokenizer.
struct DecoderLayer : Layer<nn::Decoder> {
  std::optional<data::Tokenizer> tokenizer;
};

// An optimiser, and the learning rate of its next step.
struct AnyOptimizer {
  std::shared_ptr<optim::OptimizerState> state;
  double lr;
};
template <class T>
struct OptimizerOf : AnyOptimizer {};

using TensorClass = py::class_<Tensor>;
using DecoderClass = py::class_<DecoderLayer, AnyLayer>;

// Each adds its part to the module, in this order: signatures name types that are known.
TensorClass bind_tensor(py::module_& m);
void bind_tape(py::module_& m);
void bind_own_ops(py::module_& m);
void bind_train(py::module_& m);
void bind_training(py::module_& m, py::module_& nn);  // what layers and optimisers have in common
DecoderClass bind_decoder(py::module_& m);

// Written by generate_ops.py.
void bind_op_types(py::module_& m);
void bind_classes(py::module_& m, py::module_& nn);
void add_members(TensorClass& c, py::module_& m);
void add_members(DecoderClass& c);
void bind_ops(py::module_& m);

// The tensors and counts of a checkpoint, copied, by their names in it; and what reads them.
py::dict state_dict(const NamedTensors& tensors, const Metadata& counts);
std::shared_ptr<const TensorSource> source_of(const py::dict& state);

// state_dict() and load_state_dict() of a class whose C++ object, at(self), has state(), metadata()
// and load_state().
template <class Class, class At = std::identity>
void add_state_dict(Class& c, const At& at = {}) {
  using Self = typename Class::type;
  c.def(
       "state_dict",
       [at](const Self& self) { return state_dict(at(self).state(), at(self).metadata()); },
       "What it keeps from step to step, for load_state_dict(): copies of tensors, and counts. "
       "Options and the learning rate are not among it.")
      .def(
          "load_state_dict",
          [at](Self& self, const py::dict& state) { at(self).load_state(*source_of(state)); },
          py::arg("state_dict"),
          "Goes on from there, with the same bits. Error, which changes nothing, if it is of other "
          "parameters or of something else.");
}

// Text of bytes that may begin or end in the middle of a character: U+FFFD stands for such bytes.
py::object text_of_bytes(const std::string& bytes);

// An exception of Python's for one of C++'s, whose sentence may name files of any bytes.
template <class E>
void bind_error(py::module_& m, const char* name, py::handle base) {
  static py::exception<E>* const type = new py::exception<E>(m, name, base);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const E& error) {
      PyErr_SetObject(type->ptr(), text_of_bytes(error.what()).ptr());
    }
  });
}

// Options by their table: what a described struct has, and what keyword arguments give it. Error,
// naming the option, for one that is not in the table or breaks its rule.
py::dict dict_of(OptionSchema options);
void take_options(const std::string& function, OptionSchema options, const py::dict& given);

}  // namespace tapegrad::python
