#include "tapegrad/autograd/ops/fused.h"

namespace tapegrad {

Tensor checkpoint(const CheckpointFunction& f, const std::vector<Tensor>& inputs, Rng* rng) {
  const std::optional<Rng> start = rng == nullptr ? std::nullopt : std::optional<Rng>(*rng);
  std::vector<Tensor> used = inputs;
  Tensor output;
  {
    const TapePause pause;
    const Tape outline({.outline = true});
    output = renamed(f(inputs, rng));
    // What f uses beside its inputs (parameters, mostly) becomes an input of the step as well.
    for (const Tensor& leaf : outline.leaves()) {
      const auto known = [&](const Tensor& t) { return t.defined() && t.id() == leaf.id(); };
      if (std::none_of(used.begin(), used.end(), known)) used.push_back(leaf);
    }
  }

  const auto run = [f, start, n = inputs.size()](Inputs in) {
    std::optional<Rng> again = start;
    return renamed(f(in.subspan(0, n), again ? &*again : nullptr));
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
    const std::vector<Tensor> in = distinct(saved, needs.size());
    std::vector<Tensor> wrt;
    Tape tape;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (needs[i]) wrt.push_back(in[i]);
    }
    for (const Tensor& t : wrt) tape.watch(t);
    Grads grads(needs.size());
    const Tensor y = run(in);
    if (!tape.tracks(y)) return grads;  // it depends on none of them
    const Grads found = tape.gradient(y, wrt, {.seeds = {dys[0]}});
    for (std::size_t i = 0, k = 0; i < in.size(); ++i) {
      if (needs[i]) grads[i] = found[k++];
    }
    return grads;
  };
  return apply_many("checkpoint", used, forward, vjp, used.size() - inputs.size())[0];
}

}  // namespace tapegrad
