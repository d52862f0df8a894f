#include <cmath>
#include <initializer_list>
#include <limits>

#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/autograd/state_pieces.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/tests/autograd/ops/compare_fused.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

struct Sizes {
  std::int64_t B = 1, T = 1, key_heads = 1, A = 1, heads = 1, C = 1;
};

// q, k, v, g and beta as a layer makes them: keys of length 1, states that forget, rates below 1.
std::vector<Tensor> inputs_of(Rng& rng, const Sizes& s, DType dtype = DType::f64) {
  const Tensor k = normal(rng, {s.B, s.T, s.key_heads, s.A});
  return {normal(rng, k.shape()).to(dtype), (k / sqrt(sum(k * k, {3}, true) + 1e-6)).to(dtype),
          normal(rng, {s.B, s.T, s.heads, s.C}).to(dtype),
          (-softplus(normal(rng, {s.B, s.T, s.heads}) - 1.0)).to(dtype),
          sigmoid(normal(rng, {s.B, s.T, s.heads})).to(dtype)};
}

Tensor rule(Inputs in, const Tensor& starts = {}) {
  return gated_delta_rule(in[0], in[1], in[2], in[3], in[4], starts);
}
Tensor steps(Inputs in, const Tensor& starts = {}) {
  return gated_delta_rule_steps(in[0], in[1], in[2], in[3], in[4], starts);
}

std::vector<Tensor> positions(Inputs in, std::int64_t begin, std::int64_t end) {
  std::vector<Tensor> parts;
  for (const Tensor& x : in) parts.push_back(slice(x, 1, begin, end));
  return parts;
}

// The first sequence as rows.
std::vector<Tensor> as_rows(Inputs in) {
  std::vector<Tensor> rows;
  for (const Tensor& x : in) rows.push_back(select(x, 0, 0));
  return rows;
}
Tensor pieces_of(Inputs rows, std::span<StatePiece> pieces) {
  return gated_delta_rule_pieces(rows[0], rows[1], rows[2], rows[3], rows[4], pieces);
}

Grads values_and_gradients(Inputs in, const Tensor& starts = {}) {
  Tape tape;
  for (const Tensor& x : in) tape.watch(x);
  const Tensor y = rule(in, starts);
  Grads all = tape.gradient(sum(y * y), std::vector<Tensor>(in.begin(), in.end()));
  all.push_back(y);
  return all;
}

}  // namespace

TEST_CASE("the gated delta rule in chunks is that of steps, with its gradients",
          "[gated_delta_rule]") {
  Rng rng(1);
  // Chunks of 64: less than one, one, one and a position, several.
  for (const std::int64_t T : {1, 2, 63, 64, 65, 200}) {
    INFO(T);
    compare([](Inputs in) { return rule(in); }, [](Inputs in) { return steps(in); },
            inputs_of(rng, {.B = 2, .T = T, .key_heads = 2, .A = 5, .heads = 4, .C = 3}));
  }
  compare([](Inputs in) { return rule(in); }, [](Inputs in) { return steps(in); },
          inputs_of(rng, {.T = 70, .A = 40, .C = 24}));
}

TEST_CASE("the gated delta rule begins anew in each document, to the bit", "[gated_delta_rule]") {
  Rng rng(2);
  const std::int64_t T = 190;
  const std::vector<Tensor> in = inputs_of(rng, {.T = T, .A = 4, .heads = 2, .C = 6}, DType::f32);
  const std::vector<std::int64_t> begins = {0, 1, 40, 110, T};
  std::vector<std::int32_t> starts;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    starts.insert(starts.end(), static_cast<std::size_t>(begins[i + 1] - begins[i]),
                  static_cast<std::int32_t>(begins[i]));
  }
  const Tensor documents = Tensor::from(starts, {1, T});
  const Grads together = values_and_gradients(in, documents);
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    const Grads alone = values_and_gradients(positions(in, begins[i], begins[i + 1]));
    for (std::size_t k = 0; k < alone.size(); ++k) {
      CHECK(same_bits(slice(together[k], 1, begins[i], begins[i + 1]), alone[k]));
    }
  }
  compare([&](Inputs x) { return rule(x, documents); },
          [&](Inputs x) { return steps(x, documents); },
          inputs_of(rng, {.T = T, .A = 4, .heads = 2, .C = 6}));
}

TEST_CASE("documents may change between forward and backward", "[gated_delta_rule]") {
  Rng rng(4);
  std::vector<Tensor> in = inputs_of(rng, {.T = 130, .A = 4, .heads = 2, .C = 6});
  in.push_back(normal(rng, {1, 130, 6}).to(DType::f64));  // what is convolved
  const Tensor kernel = normal(rng, {6, 1, 3}).to(DType::f64);
  for (Tensor& x : in) x.set_requires_grad();
  const auto gradients = [&](bool changes) {
    std::vector<std::int32_t> starts(130, 0);
    std::fill(starts.begin() + 70, starts.end(), 70);
    Tensor documents = Tensor::from(starts, {1, 130});
    Tape tape;
    const Tensor y =
        sum(rule(in, documents)) + sum(causal_conv1d(in.back(), kernel, {}, documents));
    if (changes) std::fill_n(documents.mutable_data<std::int32_t>(), 130, -1);
    return tape.gradient(y, in);
  };
  const std::vector<Tensor> before = gradients(false), after = gradients(true);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bits(before[i], after[i]));
}

TEST_CASE("the gated delta rule does not depend on threads and on who else is in the batch",
          "[gated_delta_rule]") {
  Rng rng(3);
  const std::vector<Tensor> in =
      inputs_of(rng, {.B = 3, .T = 150, .key_heads = 2, .A = 32, .heads = 4, .C = 64}, DType::f32);
  const auto run = [](Inputs x, int threads) {
    const Threads limit(threads);
    return values_and_gradients(x);
  };
  const Grads one = run(in, 1), three = run(in, 3);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
  std::vector<Tensor> second;
  for (const Tensor& x : in) second.push_back(slice(x, 0, 1, 2));
  const Grads alone = run(second, 2);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(same_bits(slice(one[i], 0, 1, 2), alone[i]));
  }
}

TEST_CASE("states that forget all, and strong decays, give no NaN", "[gated_delta_rule]") {
  Rng rng(4);
  std::vector<Tensor> in = inputs_of(rng, {.T = 130, .A = 3, .C = 2}, DType::f32);
  in[3] = in[3] * 500.0;
  for (const Tensor& t : values_and_gradients(in)) {
    for (const double x : list(t)) CHECK(std::isfinite(x));
  }
  CHECK(difference(rule(in), steps(in), 1e-4, 1e-5) == "");
}

TEST_CASE("gates of any size, which may forget all, are those of steps", "[gated_delta_rule]") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto gate = GENERATE(-infinity, -1e30, -1e4, -90.0);
  INFO(gate);
  Rng rng(6);
  const std::int64_t T = 150;
  const std::vector<Tensor> in = inputs_of(rng, {.T = T, .A = 4, .heads = 2, .C = 3});
  const auto with_gates = [&](std::initializer_list<std::int64_t> places) {
    std::vector<Tensor> some = in;
    some[3] = in[3].clone();
    for (const std::int64_t t : places) some[3].mutable_data<double>()[t * 2] = gate;
    return some;
  };
  // First and last of a chunk, in its midst, next to each other; the other head has none.
  for (const auto& places : {with_gates({0}), with_gates({63}), with_gates({64}), with_gates({20}),
                             with_gates({30, 31, 45, 127, 128, 149})}) {
    compare([](Inputs x) { return rule(x); }, [](Inputs x) { return steps(x); }, places);
  }
  std::vector<Tensor> all = in;
  all[3] = Tensor::full(in[3].shape(), gate, DType::f64);
  compare([](Inputs x) { return rule(x); }, [](Inputs x) { return steps(x); }, all);
  // Nothing passes a gate that is shut, so that its gradient is 0 and not the rest of a difference.
  const Tensor gradient = values_and_gradients(with_gates({30, 100}))[3];
  if (gate < -1000) {
    CHECK(gradient.data<double>()[30 * 2] == 0);
    CHECK(gradient.data<double>()[100 * 2] == 0);
  }
}

TEST_CASE("a score with a later position is no part of a sum, although it overflows",
          "[gated_delta_rule]") {
  Rng rng(7);
  std::vector<Tensor> in = inputs_of(rng, {.T = 31, .A = 4, .C = 3}, DType::f32);
  in[0].mutable_data<float>()[20 * 4] = 1e20F;
  const Tensor before = rule(in);
  in[1].mutable_data<float>()[30 * 4] = 1e20F;
  const Tensor after = rule(in);
  CHECK(same_bits(slice(after, 1, 0, 30), slice(before, 1, 0, 30)));
  for (const double x : list(after)) CHECK(std::isfinite(x));
}

TEST_CASE("the gated delta rule goes on from a state, however its rows are cut",
          "[gated_delta_rule]") {
  Rng rng(5);
  const std::int64_t T = 30;
  const std::vector<Tensor> in =
      inputs_of(rng, {.T = T, .key_heads = 2, .A = 8, .heads = 4, .C = 20}, DType::f32);
  const std::vector<Tensor> rows = as_rows(in);
  std::vector<StatePiece> whole = {{.begin = 0, .end = T, .keep = {6, 7, T - 1}}};
  const Tensor expected = pieces_of(rows, whole);
  CHECK(difference(expected, select(steps(in), 0, 0), 1e-4, 1e-5) == "");
  // Three pieces of one sequence at once, in the midst of rows that are of no piece.
  std::vector<StatePiece> cut = {{.begin = 20, .end = T, .keep = {T - 1}},
                                 {.begin = 0, .end = 7, .keep = {6}},
                                 {.begin = 7, .end = 8, .keep = {7}}};
  std::vector<StatePiece> between = {{.begin = 8, .end = 20, .keep = {19}}};
  between[0].state = whole[0].kept[1];
  pieces_of(rows, between);
  cut[0].state = between[0].kept[0];
  cut[2].state = whole[0].kept[0];
  const Tensor y = pieces_of(rows, cut);
  for (const auto& [begin, end] : {std::pair(0, 8), std::pair(20, 30)}) {
    CHECK(same_bits(slice(y, 0, begin, end), slice(expected, 0, begin, end)));
  }
  CHECK(list(slice(y, 0, 8, 20)) == std::vector<double>(12 * 4 * 20));
  CHECK(same_bits(cut[0].kept[0], whole[0].kept[2]));
  CHECK(same_bits(cut[2].kept[0], whole[0].kept[1]));
  CHECK(whole[0].kept[0].shape() == Shape{4, 8, 20});
}

TEST_CASE("the gated delta rule's arguments must fit", "[gated_delta_rule]") {
  const Tensor k = Tensor::ones({2, 3, 2, 5}), v = Tensor::ones({2, 3, 4, 6}),
               g = Tensor::zeros({2, 3, 4});
  CHECK_THROWS_WITH(gated_delta_rule(k, k, Tensor::ones({2, 3, 4}), g, g),
                    ContainsSubstring("v must be (B, T, H, C), not (2, 3, 4)"));
  CHECK_THROWS_WITH(gated_delta_rule(k, k, Tensor::ones({2, 3, 3, 6}), g, g),
                    ContainsSubstring("K divides the number of heads"));
  CHECK_THROWS_WITH(gated_delta_rule(Tensor::ones({2, 3, 2, 4}), k, v, g, g),
                    ContainsSubstring("q (2, 3, 2, 4) is not of k's shape (2, 3, 2, 5)"));
  CHECK_THROWS_WITH(gated_delta_rule(k, k, v, Tensor::zeros({2, 3, 2}), g),
                    ContainsSubstring("g (2, 3, 2) and beta (2, 3, 4) must be (2, 3, 4)"));
  CHECK_THROWS_WITH(gated_delta_rule(k, k, v.to(DType::f64), g, g),
                    ContainsSubstring("dtypes differ"));
  CHECK_THROWS_WITH(gated_delta_rule(k, k, v, g, g, Tensor::zeros({1, 3}, DType::i32)),
                    ContainsSubstring("document_starts must be i32"));
  const std::vector<Tensor> rows = as_rows(std::vector<Tensor>{k, k, v, g, g});
  std::vector<StatePiece> pieces = {{.begin = 2, .end = 4, .keep = {}}};
  CHECK_THROWS_WITH(pieces_of(rows, pieces), ContainsSubstring("there are no rows 2 to 4 of 3"));
  pieces[0] = {.begin = 0, .end = 1, .state = Tensor::ones({4, 6, 5}), .keep = {}};
  CHECK_THROWS_WITH(pieces_of(rows, pieces), ContainsSubstring("must be (4, 5, 6)"));
  for (const std::vector<std::int64_t>& keep :
       std::vector<std::vector<std::int64_t>>{{0}, {3}, {1, 1}, {2, 1}}) {
    pieces[0] = {.begin = 1, .end = 3, .keep = keep};
    CHECK_THROWS_WITH(pieces_of(rows, pieces), ContainsSubstring("must ascend from 1 to 2, and"));
  }
  CHECK_THROWS_WITH(pieces_of(std::vector<Tensor>{k, k, v, g, g}, pieces),
                    ContainsSubstring("do not fit"));
}
