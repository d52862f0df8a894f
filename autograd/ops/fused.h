#pragma once

#include <algorithm>

#include "autograd/ops.h"

namespace tapegrad {

// A fused op's backward is an op, too: from (dy, x…) it computes the gradients of the inputs x….
// Its own derivative is rarely asked for, so it is not written by hand but taken through
// `reference`, the same function of x… written with primitive ops. The backward must keep dy, x… in
// this order.
//
// This is what gives every fused op derivatives of any order.
inline VjpMany through_reference(const std::function<Tensor(Inputs)>& reference) {
  return [reference](Inputs cotangents, const Saved& saved, const Needs& needs) -> Grads {
    const Tensor dy = saved[0];
    std::vector<Tensor> xs;
    Tape second;
    second.watch(dy);
    for (std::size_t i = 1; i < needs.size(); ++i) {
      Tensor x = saved[i];
      if (!x.defined()) {
        xs.push_back(x);
        continue;
      }
      // One tensor may be passed twice, yet each place has a gradient of its own.
      for (const Tensor& other : xs) {
        if (other.defined() && other.id() == x.id()) x = x * 1.0;
      }
      second.watch(x);
      xs.push_back(x);
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
