#include "tapegrad/autograd/ops/internal/fused.h"

#include <algorithm>
#include <iterator>

#include "tapegrad/autograd/onnx/onnx_call.h"

namespace tapegrad {
namespace {

using Op = std::shared_ptr<const FusedOp>;
using Ids = std::vector<std::uint64_t>;

Ids ids_of(Inputs tensors) {
  Ids ids;
  for (const Tensor& t : tensors) ids.push_back(t.defined() ? t.id() : 0);
  return ids;
}

// t under an id of its own, as the result of an op.
Tensor renamed(const Tensor& t) {
  return reshape(reshape(t, t.rank() == 1 ? Shape{1, t.numel()} : Shape{t.numel()}), t.shape());
}

// The first `count` tensors that were saved, each under an id of its own: one tensor may be passed
// to an op twice, yet each place has a gradient of its own.
std::vector<Tensor> distinct(const Saved& saved, std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& t = saved[i];
    const bool repeated = std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& other) {
      return t.defined() && other.defined() && other.id() == t.id();
    });
    tensors.push_back(repeated ? renamed(t) : t);
  }
  return tensors;
}

// The vjp of a fused backward: of (dy, x…), which it has kept in this order, into the gradients of
// x…. It runs the reference under two tapes. The first takes the gradients of x…, the second
// differentiates them.
Grads second_derivatives(const FusedOp& op, Inputs cotangents, const Saved& saved,
                         const Needs& needs) {
  std::vector<Tensor> xs = distinct(saved, needs.size());
  const Tensor dy = xs.front();
  xs.erase(xs.begin());
  std::vector<Tensor> defined, gradients, seeds;
  std::copy_if(xs.begin(), xs.end(), std::back_inserter(defined),
               [](const Tensor& x) { return x.defined(); });
  Tape second;
  second.watch(dy);
  for (const Tensor& x : defined) second.watch(x);
  {
    Tape first;
    for (const Tensor& x : defined) first.watch(x);
    const Grads all = first.gradient(op.reference(xs), defined, {.seeds = {dy}});
    std::size_t k = 0;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      if (!xs[i].defined()) continue;
      const Tensor& gradient = all[k++];
      if (!gradient.defined() || !cotangents[i].defined() || !second.tracks(gradient)) continue;
      gradients.push_back(gradient);
      seeds.push_back(cotangents[i]);
    }
  }
  Grads result(needs.size());
  if (gradients.empty()) return result;
  std::vector<Tensor> wrt{dy};
  wrt.insert(wrt.end(), defined.begin(), defined.end());
  const Grads found = second.gradient(gradients, wrt, {.seeds = seeds});
  result[0] = found[0];
  std::size_t k = 1;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].defined()) result[i + 1] = found[k++];
  }
  return result;
}

Grads run_backward(const Op& op, const Tensor& dy, const Saved& saved, const Needs& needs) {
  std::vector<Tensor> inputs{dy}, notes;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    (i < needs.size() ? inputs : notes).push_back(saved[i]);
  }
  const Ids noted = ids_of(Inputs(inputs).subspan(1));
  const auto forward = [=](Inputs in, Saved& kept) {
    for (const Tensor& t : in) kept.keep(t);
    const Inputs x = in.subspan(1);
    // The gradient checker runs this again on other inputs, which need notes of their own.
    const bool changed = ids_of(x) != noted;
    return op->backward(in[0], x, changed ? op->forward(x, needs).notes : notes, needs);
  };
  return apply_many(op->backward_name, inputs, forward,
                    [op](Inputs cotangents, const Saved& kept, const Needs& wanted) {
                      return second_derivatives(*op, cotangents, kept, wanted);
                    });
}

}  // namespace

Tensor apply_fused(const std::vector<Tensor>& x, FusedOp fused) {
  const Op op = std::make_shared<FusedOp>(std::move(fused));
  const auto forward = [op](Inputs in, Saved& saved) {
    Needs needs(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) needs[i] = saved.needs(i);
    const FusedOp::Output output = op->forward(in, needs);
    for (const Tensor& t : in) saved.keep(t);
    for (const Tensor& t : output.notes) saved.keep(t);
    return std::vector{output.y};
  };
  const auto vjp = [op](Inputs dys, const Saved& saved, const Needs& needs) {
    return run_backward(op, dys[0], saved, needs);
  };
  OnnxRow row = [op](OnnxCall& c) { return c.composed(op->reference); };
  if (op->onnx.exists()) row = op->onnx;
  return apply_many(op->name, x, forward, vjp, {.cheap = op->cheap, .onnx = std::move(row)})[0];
}

}  // namespace tapegrad
