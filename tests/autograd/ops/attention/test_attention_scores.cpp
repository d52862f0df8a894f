// Windows, caps and scales of attention's scores, and caps of logits.

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/kernels/internal/small_product.h"
#include "tapegrad/tests/autograd/ops/compare_fused.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// Multiplications of attention's small products while f runs, which counts in pairs of operations.
template <class F>
double work_of(const F& f) {
  const double before = small_product_flops();
  f();
  return small_product_flops() - before;
}

// Values and gradients of a case of scores.safetensors.
void check_golden(const std::string& name, std::size_t inputs,
                  const std::function<Tensor(Inputs)>& f) {
  static const SafeTensors file = load_safetensors(golden_file("scores.safetensors").string());
  const auto at = [&](const std::string& what) { return file.at("op/" + name + "/" + what); };
  INFO(name);
  std::vector<Tensor> in;
  Tape tape;
  for (std::size_t i = 0; i < inputs; ++i) {
    in.push_back(at("in" + std::to_string(i)).clone());
    tape.watch(in.back());
  }
  const Tensor y = f(in);
  CHECK(difference(y, at("out"), 1e-12, 1e-13) == "");
  const Grads grads = tape.gradient(y, in, {.seeds = {at("dout")}});
  for (std::size_t i = 0; i < inputs; ++i) {
    INFO("gradient " << i);
    CHECK(difference(grads[i], at("grad" + std::to_string(i)), 1e-11, 1e-12) == "");
  }
}

}  // namespace

TEST_CASE("attention with windows, caps and scales has PyTorch's values and gradients",
          "[attention_scores][golden]") {
  const auto attend = [](const ScoreOptions& scores) {
    return [=](Inputs x) { return attention(x[0], x[1], x[2], 2, {.scores = scores}); };
  };
  check_golden("window", 3, attend({.scale = 0.9, .window = 7}));
  check_golden("cap", 3, attend({.scale = 0.9, .softcap = 1.5}));
  check_golden("window_cap", 3, attend({.scale = 0.9, .softcap = 1.5, .window = 11}));
}

TEST_CASE("attention of documents side by side has PyTorch's values and gradients",
          "[attention_scores][golden]") {
  std::vector<std::int32_t> starts(80, 0);  // documents of 3, 1, 21 and 15 tokens, and one of 40
  for (std::int32_t t = 3; t < 40; ++t)
    starts[static_cast<std::size_t>(t)] = t < 4 ? 3 : t < 25 ? 4 : 25;
  const auto attend = [&](std::int64_t window) {
    const ScoreOptions scores{
        .scale = 0.9, .window = window, .document_starts = ids(starts).view({2, 40})};
    return [=](Inputs x) { return attention(x[0], x[1], x[2], 2, {.scores = scores}); };
  };
  check_golden("documents", 3, attend(0));
  check_golden("documents_window", 3, attend(9));
}

TEST_CASE("the loss of capped logits has PyTorch's value and gradients",
          "[attention_scores][golden]") {
  check_golden("loss", 2, [](Inputs x) {
    return linear_cross_entropy(x[0], x[1], ids({4, 0, 2, 2, 1, 3}), -100, 2);
  });
}

TEST_CASE("attention in a window agrees with its composed reference", "[attention_scores]") {
  Rng rng(31);
  for (const std::int64_t T : {1, 17, 64, 65, 200}) {
    for (const std::int64_t window : {1, 2, 15, 16, 17, 48, 64, 65, 100, 199, 200, 1000}) {
      INFO("T " << T << ", window " << window);
      const ScoreOptions scores{.window = window};
      compare([&](Inputs in) { return attention(in[0], 2, {.scores = scores}); },
              [&](Inputs in) {
                const auto qkv = split(in[0], {6, 6, 6}, 2);
                return attention_reference(qkv[0], qkv[1], qkv[2], 2, true, {}, {}, scores);
              },
              {normal(rng, {2, T, 18})});
    }
  }
}

TEST_CASE("windows, caps and scales go together, with groups, padding and dropout",
          "[attention_scores]") {
  Rng rng(32);
  for (const std::int64_t window : {0, 1, 30, 71}) {
    INFO("window " << window);
    compare_attention(rng, {.window = window});
  }
}

TEST_CASE("caps work without a causal mask, and for one query", "[attention_scores]") {
  Rng rng(33);
  const ScoreOptions scores{.scale = 0.8, .softcap = 1.2};
  for (const std::int64_t Tq : {1, 70}) {
    compare(
        [&](Inputs in) {
          return attention(in[0], in[1], in[2], 2, {.causal = false, .scores = scores});
        },
        [&](Inputs in) {
          return attention_reference(in[0], in[1], in[2], 2, false, {}, {}, scores);
        },
        {normal(rng, {2, Tq, 8}), normal(rng, {2, 33, 8}), normal(rng, {2, 33, 8})});
  }
}

TEST_CASE("sinks go together with everything else", "[attention_scores]") {
  Rng rng(36);
  const std::int64_t T = GENERATE(1, 17, 65, 150), window = GENERATE(0, 1, 30);
  Tensor padding = Tensor::zeros({2, T}, DType::u8);
  for (std::int64_t j = 0; j < 2 * T; j += 3) padding.mutable_data<std::uint8_t>()[j] = 1;
  ScoreOptions scores{.scale = 1.7, .softcap = 2.5, .window = window};
  Rng draw(5);
  const KeepMask keep(draw, 2 * 6 * T * T, 0.3);
  INFO("T " << T << ", window " << window);
  compare(
      [&](Inputs in) {
        Rng r(5);
        scores.sinks = in[3];
        return attention(
            in[0], in[1], in[2], 6,
            {.dropout = 0.3, .rng = &r, .key_padding_mask = padding, .scores = scores});
      },
      [&](Inputs in) {
        scores.sinks = in[3];
        return attention_reference(in[0], in[1], in[2], 6, true, keep, padding, scores);
      },
      {normal(rng, {2, T, 18}), normal(rng, {2, T, 6}), normal(rng, {2, T, 6}),
       normal(rng, {6}, DType::f64, 3)});
}

TEST_CASE("a sink is a key whose value is 0, and takes its share of the weights",
          "[attention_scores]") {
  const Tensor zeros = Tensor::zeros({1, 3, 4}, DType::f64),
               ones = Tensor::ones({1, 3, 4}, DType::f64);
  const double inf = std::numeric_limits<double>::infinity();
  const auto result = [&](double first, double second) {
    const Tensor sinks = Tensor::from(std::vector{first, second}, {2});
    return list(
        attention(zeros, zeros, ones, 2, {.causal = false, .scores = {.sinks = sinks}}).rows(0, 1));
  };
  // Scores of 0, three keys: beside them, a sink of log 3 has half of the weight.
  const double half = std::log(3.0);
  CHECK(difference(Tensor::from(result(half, -inf), {12}),
                   Tensor::from(std::vector{.5, .5, 1., 1., .5, .5, 1., 1., .5, .5, 1., 1.}, {12}),
                   1e-12, 0) == "");
  const Tensor weights = attention_weights(zeros, zeros, 2, false, {},
                                           {.sinks = Tensor::from(std::vector{half, -inf}, {2})});
  CHECK(difference(sum(weights, {-1}), Tensor::from(std::vector{.5, .5, .5, 1., 1., 1.}, {1, 2, 3}),
                   1e-12, 0) == "");
  // So large that exponentials alone would overflow.
  for (const double value : result(5000, 800)) CHECK(value == 0);
}

TEST_CASE("sinks of −∞ change no bit", "[attention_scores]") {
  Rng rng(37);
  const std::int64_t T = GENERATE(1, 90);
  const Tensor x = normal(rng, {2, T, 24}, DType::f32);
  const auto result = [&](const Tensor& sinks) {
    Tape tape;
    tape.watch(x);
    const Tensor y = attention(x, 2, {.scores = {.sinks = sinks}});
    return std::pair(y, tape.gradient(y, {x}, {.seeds = {Tensor::ones(y.shape())}})[0]);
  };
  const auto none = result({}),
             hidden = result(Tensor::full({2}, -std::numeric_limits<double>::infinity()));
  CHECK(same_bits(none.first, hidden.first));
  CHECK(same_bits(none.second, hidden.second));
}

TEST_CASE("a window as long as the text changes no bit", "[attention_scores]") {
  Rng rng(34);
  const Tensor x = normal(rng, {2, 130, 24}, DType::f32);
  const auto result = [&](std::int64_t window) {
    Tape tape;
    tape.watch(x);
    const Tensor y = attention(x, 2, {.scores = {.window = window}});
    return std::pair(y, tape.gradient(y, {x}, {.seeds = {Tensor::ones(y.shape())}})[0]);
  };
  CHECK(same_bits(result(130).first, result(0).first));
  CHECK(same_bits(result(130).second, result(0).second));
  CHECK_FALSE(same_bits(result(129).first, result(0).first));
}

TEST_CASE("keys before the window change nothing, and those at its edge do", "[attention_scores]") {
  Rng rng(35);
  const std::int64_t T = 100, window = 20, changed = 40;
  Tensor k = normal(rng, {1, T, 4}), v = normal(rng, {1, T, 4});
  const Tensor q = normal(rng, {1, T, 4});
  const auto attend = [&] { return attention(q, k, v, 1, {.scores = {.window = window}}); };
  const Tensor before = attend();
  k.mutable_data<double>()[changed * 4] += 1;
  v.mutable_data<double>()[changed * 4] += 1;
  const Tensor after = attend();
  for (std::int64_t t = 0; t < T; ++t) {
    INFO(t);
    const bool sees = changed <= t && t < changed + window;
    CHECK(same_bits(slice(before, 1, t, t + 1), slice(after, 1, t, t + 1)) != sees);
  }
}

TEST_CASE("what a window hides costs no products, in neither direction", "[attention_scores]") {
  Rng rng(36);
  const Tensor x = normal(rng, {1, 2048, 3 * 16}, DType::f32);
  const auto steps = [&](std::int64_t window) {
    return [&, window] {
      Tape tape;
      tape.watch(x);
      const Tensor y = attention(x, 1, {.scores = {.window = window}});
      tape.gradient(y, {x}, {.seeds = {y}});
    };
  };
  // 2048 queries see 1024.5 keys in the mean, or 256 and up to 15 around them.
  CHECK(work_of(steps(256)) < 0.28 * work_of(steps(0)));
}

TEST_CASE("scores that nothing can be made of are errors that name them", "[attention_scores]") {
  const Tensor x = Tensor::zeros({1, 3, 6});
  const auto attend = [&](const ScoreOptions& scores, bool causal = true) {
    return attention(x, 1, {.causal = causal, .scores = scores});
  };
  CHECK_THROWS_WITH(attend({.window = -1}), ContainsSubstring("[ScoreOptions] window"));
  CHECK_THROWS_WITH(attend({.window = 2}, false), ContainsSubstring("needs causal"));
  CHECK_THROWS_WITH(attend({.softcap = -1}), ContainsSubstring("[ScoreOptions] softcap"));
  CHECK_THROWS_WITH(attend({.sinks = Tensor::ones({3})}),
                    ContainsSubstring("[attention] sinks must be f"));
  CHECK_THROWS_WITH(attend({.scale = -1}), ContainsSubstring("[ScoreOptions] scale"));
  CHECK_THROWS_WITH(attend({.scale = std::nan("")}), ContainsSubstring("[ScoreOptions] scale"));
  CHECK_THROWS_WITH(softcap(x, -2), ContainsSubstring("[softcap]"));
  CHECK_THROWS_WITH(
      linear_cross_entropy(Tensor::ones({1, 2}), Tensor::ones({3, 2}), ids({0}), -100, -1),
      ContainsSubstring("[linear_cross_entropy] the cap"));
}

TEST_CASE("a capped loss agrees with its composed reference, over several chunks",
          "[attention_scores]") {
  Rng rng(37);
  for (const std::int64_t rows : {1, 385, 1000}) {
    std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
    for (auto& t : targets) t = static_cast<std::int32_t>(rng.randint(8)) - 1;
    targets.back() = 0;
    INFO(rows << " rows");
    compare([&](Inputs in) { return linear_cross_entropy(in[0], in[1], ids(targets), -1, 1.5); },
            [&](Inputs in) {
              return cross_entropy(tanh(linear(in[0], in[1]) / 1.5) * 1.5, ids(targets), -1);
            },
            {normal(rng, {rows, 5}), normal(rng, {7, 5})});
  }
}
