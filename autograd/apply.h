#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/inline_vector.h"

namespace tapegrad {

// Everything that a writer of ops needs; docs/add-an-op.md walks through an example.

// Element i is 1 if the gradient of input i is asked for, else 0.
using Needs = InlineVector<std::uint8_t, 8>;

class Recomputation;

// The tensors that a forward keeps for its vjp; nothing else is kept. Each is a tensor or a
// recomputation for one (recomputation.h), which the reader cannot tell apart. Reading a tensor
// that was written to in the meantime is an error that names the op.
class Saved {
 public:
  // Keeps nothing: no tape is recording.
  Saved() = default;
  Saved(std::string_view op, Needs needs) : op_(op), needs_(std::move(needs)) {}

  // Keeps t, if a tape will want it, and returns it. May be undefined.
  const Tensor& keep(const Tensor& t) {
    if (recording()) kept_.push_back({t, t.defined() ? t.version() : 0});
    return t;
  }
  // The i-th tensor that was kept.
  const Tensor& operator[](std::size_t i) const;
  std::size_t size() const { return kept_.size(); }
  bool recording() const { return !needs_.empty(); }
  // True if the gradient of input i will be wanted. A tensor that only that gradient needs is not
  // worth keeping otherwise.
  bool needs(std::size_t i) const { return recording() && needs_[i]; }

  // The rest is for the tape.
  struct Kept {
    Tensor tensor = {};
    std::uint32_t version = 0;
    std::shared_ptr<Recomputation> recomputation =
        nullptr;            // in place of the tensor, with the place of its
    std::size_t place = 0;  // result
  };
  using AllKept = InlineVector<Kept, 2>;
  AllKept& kept() { return kept_; }
  const AllKept& kept() const { return kept_; }
  // Frees what recomputations have made for this step.
  void forget_made() const;

 private:
  std::string_view op_;
  Needs needs_;
  AllKept kept_;
};

// forward: inputs → outputs. Runs unrecorded, so that it may use ops.
using ForwardMany = std::function<std::vector<Tensor>(Inputs, Saved&)>;
// vjp: the gradients dys of the outputs → the gradients of the inputs, in their order, each of its
// input's shape and dtype; undefined where `needs` is false or the gradient is zero. dys[i] is
// undefined if output i had no influence. It is written with ops: a live outer tape records them,
// and so differentiates the gradient.
using VjpMany = std::function<Grads(Inputs dys, const Saved&, const Needs&)>;

// The same for one output: any function Tensor(Inputs, Saved&), and any function
// Grads(const Tensor& dy, const Saved&, const Needs&).
struct Forward {
  template <class F>
  Forward(F forward)
      : many([f = std::move(forward)](Inputs in, Saved& saved) {
          return std::vector{f(in, saved)};
        }) {}
  ForwardMany many;
};
struct Vjp {
  Vjp() = default;
  template <class F>
  Vjp(F vjp)
      : many([f = std::move(vjp)](Inputs dys, const Saved& saved, const Needs& needs) {
          return f(dys[0], saved, needs);
        }) {}
  VjpMany many;
};
// Adds the gradient of input 0, the only one, to `sum`, in place: exactly what the vjp returns.
using AddVjp = std::function<void(const Tensor& dy, const Saved&, Tensor& sum)>;

class OnnxCall;
// True if a tape that records on this thread keeps what ops can be run again or be written by
// (TapeOptions::checkable).
bool is_checkable();
// How ONNX (opset 17) says an op of one output, for export_onnx (onnx/export_onnx.h): the name of
// its op that computes the same of the same inputs, or a function that writes nodes
// (onnx/onnx_call.h). A function is kept only where a tape wants it: make the row in the call of
// apply. So training allocates nothing for it.
struct OnnxRow {
  OnnxRow() = default;
  OnnxRow(const char* name) : op(name) {}
  template <class F>
  requires std::is_invocable_r_v<std::string, F&, OnnxCall&> OnnxRow(F f) {
    if (is_checkable()) write = std::move(f);
  }
  bool exists() const { return op != nullptr || write; }

  const char* op = nullptr;
  std::function<std::string(OnnxCall&)> write = {};
};

struct OpOptions {
  // The output costs little to compute again, and the op keeps its inputs anyway: first and in
  // order, which is checked. Other ops that keep such an output get a recomputation for it instead.
  bool cheap = false;
  // Used in place of the vjp where other uses of input 0 have left a gradient to add to, and no
  // tape records. It is there for the rows of a tied embedding, whose gradient as a tensor of its
  // own would be nearly all zeros: 154 MB in GPT-2.
  AddVjp add = {};
  OnnxRow onnx = {};
};

// The one door for differentiable ops: runs `forward` and lets every live tape of this thread that
// tracks one of the inputs record the step. Inputs may be undefined (an absent bias). `name` is
// the op's name in errors, the gradient checker and reports; a string literal.
Tensor apply(std::string_view name, std::initializer_list<Tensor> inputs, Forward forward, Vjp vjp,
             OpOptions options = {});

// The same for any number of inputs and outputs.
std::vector<Tensor> apply_many(std::string_view name, Inputs inputs, ForwardMany forward,
                               VjpMany vjp, OpOptions options = {});

}  // namespace tapegrad
