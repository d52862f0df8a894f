#pragma once

#include <functional>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

namespace tapegrad::testing {

using Function = std::function<Tensor(Inputs)>;

// Compares values and gradients; f32's are compared with those of `composed` in f64.
inline void compare(const Function& fused, const Function& composed,
                    const std::vector<Tensor>& inputs) {
  const auto run = [&](const Function& f, DType dtype) {
    std::vector<Tensor> in;
    for (const Tensor& x : inputs) in.push_back(x.to(dtype));
    Tape tape;
    for (const Tensor& x : in) tape.watch(x);
    const Tensor y = f(in);
    Rng rng(7);
    Grads result = tape.gradient(y, in, {.seeds = {normal(rng, y.shape()).to(dtype)}});
    result.push_back(y);
    return result;
  };
  const Grads expected = run(composed, DType::f64), f64 = run(fused, DType::f64),
              f32 = run(fused, DType::f32);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO((i + 1 == expected.size() ? "value" : "gradient " + std::to_string(i)));
    CHECK(difference(f64[i], expected[i], 1e-11, 1e-12) == "");
    CHECK(difference(f32[i].to(DType::f64), expected[i], 1e-4, 2e-5) == "");
  }
}

// Compares attention with all that may go together, at 150 positions: a scale, a cap and what
// `more` has, groups of queries' heads, padding and dropout.
inline void compare_attention(Rng& rng, ScoreOptions more) {
  const std::int64_t T = 150, D = 3;
  Tensor padding = Tensor::zeros({2, T}, DType::u8);
  for (std::int64_t j = 0; j < 2 * T; j += 3) padding.mutable_data<std::uint8_t>()[j] = 1;
  more.scale = 1.7;
  more.softcap = 2.5;
  for (const auto kind : {Rng::Kind::torch, Rng::Kind::philox}) {
    Rng draw(5, kind);
    const KeepMask keep(draw, 2 * 6 * T * T, 0.3);
    compare(
        [&](Inputs in) {
          Rng r(5, kind);
          return attention(
              in[0], in[1], in[2], 6,
              {.dropout = 0.3, .rng = &r, .key_padding_mask = padding, .scores = more});
        },
        [&](Inputs in) {
          return attention_reference(in[0], in[1], in[2], 6, true, keep, padding, more);
        },
        {normal(rng, {2, T, 6 * D}), normal(rng, {2, T, 2 * D}), normal(rng, {2, T, 2 * D})});
  }
}

}  // namespace tapegrad::testing
