#pragma once

#include <algorithm>

#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// t under an id of its own, as the result of an op (t itself may be an input of one, or a
// parameter).
inline Tensor renamed(const Tensor& t) {
  return reshape(reshape(t, t.rank() == 1 ? Shape{1, t.numel()} : Shape{t.numel()}), t.shape());
}

// What a step has saved, in order, each under an id of its own: one tensor may be passed to an op
// twice, yet each place has a gradient of its own.
inline std::vector<Tensor> distinct(const Saved& saved, std::size_t count) {
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

// A fused op's backward is an op, too: from (dy, x…) it computes the gradients of the inputs x….
// Its own derivative is rarely asked for, so it is not written by hand but taken through
// `reference`, the same function of x… written with primitive ops. The backward must keep dy, x… in
// this order.
//
// This is what gives every fused op derivatives of any order.
inline VjpMany through_reference(const std::function<Tensor(Inputs)>& reference) {
  return [reference](Inputs cotangents, const Saved& saved, const Needs& needs) -> Grads {
    std::vector<Tensor> xs = distinct(saved, needs.size());
    const Tensor dy = xs.front();
    xs.erase(xs.begin());
    Tape second;
    second.watch(dy);
    for (const Tensor& x : xs) {
      if (x.defined()) second.watch(x);
    }
    std::vector<Tensor> defined, gradients, seeds;
    std::copy_if(xs.begin(), xs.end(), std::back_inserter(defined),
                 [](const Tensor& x) { return x.defined(); });
    {
      Tape first;
      for (const Tensor& x : defined) first.watch(x);
      const Grads all = first.gradient(reference(xs), defined, {.seeds = {dy}});
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
  };
}

}  // namespace tapegrad
