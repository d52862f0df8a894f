#include "tapegrad/autograd/check/gradcheck.h"
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
  std::int64_t batch = 1, T = 1, heads = 1, P = 1, groups = 1, N = 1;
};

// x, dt, A, B and C as a layer makes them.
std::vector<Tensor> inputs_of(Rng& rng, const Sizes& s, DType dtype = DType::f64) {
  return {normal(rng, {s.batch, s.T, s.heads, s.P}).to(dtype),
          softplus(normal(rng, {s.batch, s.T, s.heads}) - 1.0).to(dtype),
          (-exp(normal(rng, {s.heads}))).to(dtype),
          normal(rng, {s.batch, s.T, s.groups, s.N}).to(dtype),
          normal(rng, {s.batch, s.T, s.groups, s.N}).to(dtype)};
}

Tensor scan(Inputs in, const Tensor& starts = {}) {
  return state_space_scan(in[0], in[1], in[2], in[3], in[4], starts);
}
Tensor steps(Inputs in, const Tensor& starts = {}) {
  return state_space_scan_steps(in[0], in[1], in[2], in[3], in[4], starts);
}
Tensor pieces_of(Inputs rows, std::span<StatePiece> pieces) {
  return state_space_scan_pieces(rows[0], rows[1], rows[2], rows[3], rows[4], pieces);
}

constexpr std::size_t kA = 2;  // which has neither a batch nor positions

std::vector<Tensor> part(Inputs in, int dim, std::int64_t begin, std::int64_t end) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < in.size(); ++i) {
    parts.push_back(i == kA ? in[i] : slice(in[i], dim, begin, end));
  }
  return parts;
}

// The first sequence as rows.
std::vector<Tensor> as_rows(Inputs in) {
  std::vector<Tensor> rows;
  for (std::size_t i = 0; i < in.size(); ++i) {
    rows.push_back(i == kA ? in[i] : select(in[i], 0, 0));
  }
  return rows;
}

// The gradients of all but A, of which all sequences have a part, and the values.
Grads values_and_gradients(Inputs in, const Tensor& starts = {}) {
  Tape tape;
  for (const Tensor& x : in) tape.watch(x);
  const Tensor y = scan(in, starts);
  Grads all = tape.gradient(sum(y * y), std::vector<Tensor>(in.begin(), in.end()));
  all[kA] = y;
  return all;
}

bool all_finite(const Grads& tensors) {
  for (const Tensor& t : tensors) {
    for (const double x : list(t)) {
      if (!std::isfinite(x)) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("the scan of a state space in chunks is that of steps, with its gradients",
          "[state_space_scan]") {
  Rng rng(1);
  // Chunks of 64: less than one, one, one and a position, several.
  for (const std::int64_t T : {1, 2, 63, 64, 65, 200}) {
    INFO(T);
    compare([](Inputs in) { return scan(in); }, [](Inputs in) { return steps(in); },
            inputs_of(rng, {.batch = 2, .T = T, .heads = 4, .P = 3, .groups = 2, .N = 5}));
  }
  // More heads than shares of a group.
  compare([](Inputs in) { return scan(in); }, [](Inputs in) { return steps(in); },
          inputs_of(rng, {.T = 70, .heads = 11, .P = 6, .N = 9}));
}

// What the scan is equal to: y_i = Σ_{j ≤ i} (C_iᵀ·B_j)·exp(A·(dt_{j+1} + … + dt_i))·dt_j·x_j.
TEST_CASE("the scan of a state space is attention with a mask of decays", "[state_space_scan]") {
  Rng rng(2);
  const std::int64_t T = 20, P = 3;
  const std::vector<Tensor> in = inputs_of(rng, {.T = T, .P = P, .N = 4});
  const auto at = [](const Tensor& t, std::int64_t i) { return t.data<double>()[i]; };
  const Tensor scores =
      matmul(select(select(in[4], 0, 0), 1, 0), permute(select(select(in[3], 0, 0), 1, 0), {1, 0}));
  std::vector<double> expected(static_cast<std::size_t>(T * P));
  for (std::int64_t i = 0; i < T; ++i) {
    double time = 0;
    for (std::int64_t j = i; j >= 0; --j) {
      const double weight = at(scores, i * T + j) * std::exp(at(in[2], 0) * time) * at(in[1], j);
      for (std::int64_t p = 0; p < P; ++p) {
        expected[static_cast<std::size_t>(i * P + p)] += weight * at(in[0], j * P + p);
      }
      time += at(in[1], j);
    }
  }
  CHECK(difference(scan(in), Tensor::from(expected, {1, T, 1, P}), 1e-11, 1e-12) == "");
}

TEST_CASE("derivatives of the scan of a state space over several chunks are those of differences",
          "[state_space_scan]") {
  Rng rng(3);
  const std::vector<Tensor> in = inputs_of(rng, {.T = 67, .heads = 2, .P = 1, .N = 2});
  for (const GradientCheck& check : check_function(
           "state_space_scan", [](Inputs x) { return scan(x); }, in)) {
    INFO(check.str());
    CHECK(check.passed);
  }
}

TEST_CASE("the scan of a state space begins anew in each document, to the bit",
          "[state_space_scan]") {
  Rng rng(4);
  const std::int64_t T = 190;
  const std::vector<Tensor> in = inputs_of(rng, {.T = T, .heads = 2, .P = 6, .N = 4}, DType::f32);
  const std::vector<std::int64_t> begins = {0, 1, 40, 110, T};
  std::vector<std::int32_t> starts;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    starts.insert(starts.end(), static_cast<std::size_t>(begins[i + 1] - begins[i]),
                  static_cast<std::int32_t>(begins[i]));
  }
  const Tensor documents = Tensor::from(starts, {1, T});
  const Grads together = values_and_gradients(in, documents);
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    const Grads alone = values_and_gradients(part(in, 1, begins[i], begins[i + 1]));
    for (std::size_t k = 0; k < alone.size(); ++k) {
      CHECK(same_bits(slice(together[k], 1, begins[i], begins[i + 1]), alone[k]));
    }
  }
  compare([&](Inputs x) { return scan(x, documents); },
          [&](Inputs x) { return steps(x, documents); },
          inputs_of(rng, {.T = T, .heads = 2, .P = 6, .N = 4}));
}

TEST_CASE("the scan of a state space does not depend on threads and on who else is in the batch",
          "[state_space_scan]") {
  Rng rng(5);
  const std::vector<Tensor> in = inputs_of(
      rng, {.batch = 3, .T = 150, .heads = 12, .P = 32, .groups = 1, .N = 64}, DType::f32);
  const auto run = [](Inputs x, int threads) {
    const Threads limit(threads);
    return values_and_gradients(x);
  };
  const Grads one = run(in, 1), three = run(in, 3);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
  const Grads alone = run(part(in, 0, 1, 2), 2);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(same_bits(slice(one[i], 0, 1, 2), alone[i]));
  }
}

TEST_CASE("steps of 0, and decays of any strength, give numbers", "[state_space_scan]") {
  Rng rng(6);
  const std::vector<Tensor> in = inputs_of(rng, {.T = 130, .heads = 2, .P = 2, .N = 3}, DType::f32);
  const auto with = [&](double dt, double A) {
    std::vector<Tensor> changed = in;
    changed[1] = changed[1] * dt, changed[2] = changed[2] * A;
    return changed;
  };
  // A state that nothing enters.
  CHECK(list(scan(with(0, 1))) == std::vector<double>(130 * 2 * 2));
  CHECK(all_finite(values_and_gradients(with(0, 1e30))));
  // A position sees itself alone, and dt·A may be −∞.
  for (const double A : {1e4, 1e30, 1e38}) {
    INFO(A);
    const Grads all = values_and_gradients(with(1, A));
    CHECK(all_finite(all));
    CHECK(difference(all[kA], steps(with(1, A)), 1e-4, 1e-5) == "");
  }
  // One that keeps all.
  CHECK(difference(scan(with(1, 0)), steps(with(1, 0)), 1e-4, 1e-4) == "");
}

// The difference of two sums of f32 near −2·10⁶ would be off by 0.1.
TEST_CASE("a strong decay takes no digits from the weak ones behind it", "[state_space_scan]") {
  std::vector<float> dt(40, 0.01F);
  dt[3] = 2e6F;
  const Tensor ones = Tensor::ones({1, 40, 1, 1});
  const std::vector<Tensor> in = {ones, Tensor::from(dt, {1, 40, 1}), Tensor::ones({1}) * -1.0,
                                  ones, ones};
  std::vector<Tensor> wide;
  for (const Tensor& x : in) wide.push_back(x.to(DType::f64));
  CHECK(difference(scan(in).to(DType::f64), steps(wide), 1e-5, 1e-6) == "");
}

TEST_CASE("the scan of a state space goes on from a state, however its rows are cut",
          "[state_space_scan]") {
  Rng rng(7);
  const std::int64_t T = 30;
  const std::vector<Tensor> in =
      inputs_of(rng, {.T = T, .heads = 4, .P = 20, .groups = 2, .N = 8}, DType::f32);
  const std::vector<Tensor> rows = as_rows(in);
  std::vector<StatePiece> whole = {{.begin = 0, .end = T, .keep = {6, 7, T - 1}}};
  const Tensor expected = pieces_of(rows, whole);
  CHECK(difference(expected, select(steps(in), 0, 0), 1e-4, 1e-5) == "");
  std::vector<StatePiece> cut = {{.begin = 0, .end = 7, .keep = {6}}};
  const Tensor first = pieces_of(rows, cut);
  CHECK(same_bits(slice(first, 0, 0, 7), slice(expected, 0, 0, 7)));
  CHECK(list(slice(first, 0, 7, T)) == std::vector<double>(23 * 4 * 20));
  CHECK(same_bits(cut[0].kept[0], whole[0].kept[0]));
  std::vector<StatePiece> rest = {{.begin = 7, .end = T, .state = cut[0].kept[0], .keep = {T - 1}}};
  CHECK(same_bits(slice(pieces_of(rows, rest), 0, 7, T), slice(expected, 0, 7, T)));
  CHECK(same_bits(rest[0].kept[0], whole[0].kept[2]));
  CHECK(rest[0].kept[0].shape() == Shape{4, 8, 20});
}

TEST_CASE("the arguments of the scan of a state space must fit", "[state_space_scan]") {
  const Tensor x = Tensor::ones({2, 3, 4, 6}), dt = Tensor::zeros({2, 3, 4}), A = Tensor::ones({4}),
               B = Tensor::ones({2, 3, 2, 5});
  CHECK_THROWS_WITH(state_space_scan(dt, dt, A, B, B),
                    ContainsSubstring("x must be (B, T, H, P), not (2, 3, 4)"));
  CHECK_THROWS_WITH(state_space_scan(Tensor::ones({2, 3, 3, 6}), dt, A, B, B),
                    ContainsSubstring("G divides the number of heads"));
  CHECK_THROWS_WITH(state_space_scan(x, dt, A, B, Tensor::ones({2, 3, 2, 4})),
                    ContainsSubstring("C (2, 3, 2, 4) is not of B's shape (2, 3, 2, 5)"));
  CHECK_THROWS_WITH(state_space_scan(x, Tensor::zeros({2, 3, 2}), A, B, B),
                    ContainsSubstring("dt (2, 3, 2) must be (2, 3, 4)"));
  CHECK_THROWS_WITH(state_space_scan(x, dt, Tensor::ones({3}), B, B),
                    ContainsSubstring("A (3) must be (4)"));
  CHECK_THROWS_WITH(state_space_scan(x.to(DType::f64), dt, A, B, B),
                    ContainsSubstring("dtypes differ"));
  CHECK_THROWS_WITH(state_space_scan(x, dt, A, B, B, Tensor::zeros({1, 3}, DType::i32)),
                    ContainsSubstring("document_starts must be i32"));
  const std::vector<Tensor> rows = as_rows(std::vector<Tensor>{x, dt, A, B, B});
  std::vector<StatePiece> pieces = {{.begin = 2, .end = 4, .keep = {}}};
  CHECK_THROWS_WITH(pieces_of(rows, pieces),
                    ContainsSubstring("[state_space_scan_pieces] there are no rows 2 to 4 of 3"));
  pieces[0] = {.begin = 0, .end = 1, .state = Tensor::ones({4, 6, 5}), .keep = {}};
  CHECK_THROWS_WITH(pieces_of(rows, pieces), ContainsSubstring("must be (4, 5, 6)"));
  CHECK_THROWS_WITH(pieces_of(std::vector<Tensor>{x, dt, A, B, B}, pieces),
                    ContainsSubstring("do not fit"));
}
