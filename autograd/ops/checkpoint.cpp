#include "autograd/ops.h"

namespace tapegrad {
namespace {

// The same tensor as the result of an op: a function may return what it was given.
Tensor as_result(const Tensor& t) {
  return reshape(reshape(t, t.rank() == 1 ? Shape{1, t.numel()} : Shape{t.numel()}), t.shape());
}

}  // namespace

Tensor checkpoint(const CheckpointFunction& f, const std::vector<Tensor>& inputs, Rng* rng) {
  const std::optional<Rng> start = rng == nullptr ? std::nullopt : std::optional<Rng>(*rng);
  std::vector<Tensor> used = inputs;
  Tensor output;
  {
    const TapePause pause;
    const Tape outline({.outline = true});
    output = as_result(f(inputs, rng));
    // What f uses beside its inputs (parameters, mostly) becomes an input of the step as well.
    for (const Tensor& leaf : outline.leaves()) {
      const auto known = [&](const Tensor& t) { return t.defined() && t.id() == leaf.id(); };
      if (std::none_of(used.begin(), used.end(), known)) used.push_back(leaf);
    }
  }

  const auto run = [f, start, n = inputs.size()](Inputs in) {
    std::optional<Rng> again = start;
    return as_result(f(in.subspan(0, n), again ? &*again : nullptr));
  };
  const auto forward = [=, first = output](Inputs in, Saved& saved) {
    for (const Tensor& t : in) saved.keep(t);
    const bool unchanged = std::equal(
        in.begin(), in.end(), used.begin(), used.end(), [](const Tensor& a, const Tensor& b) {
          return a.defined() == b.defined() && (!a.defined() || a.id() == b.id());
        });
    return std::vector{unchanged ? first : run(in)};
  };
  const auto vjp = [run](Inputs dys, const Saved& saved, const Needs& needs) -> Grads {
    std::vector<Tensor> in, wrt;
    Tape tape;
    std::vector<int> place(needs.size(), -1);  // in wrt; a tensor that comes twice counts once
    for (std::size_t i = 0; i < needs.size(); ++i) {
      in.push_back(saved[i]);
      const bool repeated = std::any_of(wrt.begin(), wrt.end(), [&](const Tensor& t) {
        return needs[i] && t.id() == saved[i].id();
      });
      if (!needs[i] || repeated) continue;
      tape.watch(saved[i]);
      place[i] = static_cast<int>(wrt.size());
      wrt.push_back(saved[i]);
    }
    Grads grads(needs.size());
    const Tensor y = run(in);
    if (!tape.tracks(y)) return grads;  // it depends on none of them
    const Grads found = tape.gradient(y, wrt, {.seeds = {dys[0]}});
    for (std::size_t i = 0; i < needs.size(); ++i) {
      if (place[i] >= 0) grads[i] = found[static_cast<std::size_t>(place[i])];
    }
    return grads;
  };
  return apply_many("checkpoint", used, forward, vjp, used.size() - inputs.size())[0];
}

}  // namespace tapegrad
