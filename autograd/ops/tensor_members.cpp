// The members of Tensor that tapes record.

#include "tapegrad/autograd/internal/step.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tensor/tracked.h"

namespace tapegrad {
namespace {

// False: an op on t would leave no trace, and its forward alone does. A checkpoint that runs again
// calls the ops that it called when a tape recorded them.
bool leaves_trace(const Tensor& t) {
  return is_float(t.dtype()) && (live_tapes().running_checkpoint != nullptr || is_tracked(t));
}

}  // namespace

bool is_tracked(const Tensor& t) {
  bool tracked = false;
  live_tapes().for_each_recording(
      [&](const TapeRecord& tape) { tracked = tracked || tape.tracks(t); });
  return tracked;
}

void check_untracked(std::string_view function, std::string_view argument, const Tensor& t) {
  if (!is_tracked(t)) return;
  fail("[{}] {} of shape {} gets no gradient here, but a live tape tracks it: pass its detach()",
       function, argument, t.shape());
}

Tensor Tensor::view(const Shape& wanted) const {
  const Shape shape = infer_shape(wanted, numel());
  check(shape.numel() == numel(), "[reshape] {} has {} elements, {} has {}", this->shape(), numel(),
        shape, shape.numel());
  if (!leaves_trace(*this)) return unrecorded_view(shape, 0);
  return apply(
      "reshape", {*this}, [shape](Inputs in, Saved&) { return in[0].unrecorded_view(shape, 0); },
      [from = this->shape()](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {reshape(dy, from)};
      },
      {.onnx = [](OnnxCall& c) {
        return c("Reshape", {c.in(0), c.sizes(c.y_shape)});
      }});
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  check(rank() > 0, "a scalar has no rows");
  check(begin >= 0 && begin <= end && end <= dim(0), "rows {} to {} do not exist in {}", begin, end,
        shape());
  const Shape some = shape().with(0, end - begin);
  const std::int64_t first = begin * shape().without(0).numel();
  if (!leaves_trace(*this)) return unrecorded_view(some, first);
  return apply(
      "rows", {*this}, [=](Inputs in, Saved&) { return in[0].unrecorded_view(some, first); },
      [begin, all = dim(0)](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {pad(dy, 0, begin, all)};
      },
      {.onnx = [=](OnnxCall& c) {
        return c("Slice", {c.in(0), c.wholes({begin}), c.wholes({end}), c.wholes({0})});
      }});
}

Tensor Tensor::clone() const {
  if (!leaves_trace(*this)) return unrecorded_clone();
  return apply(
      "clone", {*this}, [](Inputs in, Saved&) { return in[0].unrecorded_clone(); },
      [](const Tensor& dy, const Saved&, const Needs&) -> Grads { return {dy}; },
      {.onnx = "Identity"});
}

Tensor Tensor::to(DType wanted) const {
  if (!is_float(wanted) || !leaves_trace(*this)) return unrecorded_to(wanted);
  return apply(
      "to", {*this}, [wanted](Inputs in, Saved&) { return in[0].unrecorded_to(wanted); },
      [from = dtype()](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        return {dy.dtype() == from ? dy : dy.to(from)};
      },
      {.onnx = [wanted](OnnxCall& c) { return c.cast(c.in(0), wanted); }});
}

}  // namespace tapegrad
