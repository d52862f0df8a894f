// Results do not depend on the number of threads, to the last bit.

#include <atomic>
#include <stdexcept>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Function = std::function<Tensor(Inputs)>;

// The value of f and the gradients of its inputs, with n threads.
Grads run(int n, const Function& f, const std::vector<Tensor>& inputs) {
  const Threads threads(n);
  Tape tape;
  for (const Tensor& x : inputs) tape.watch(x);
  const Tensor y = f(inputs);
  Rng rng(3);
  Grads results = tape.gradient(y, inputs, {.seeds = {normal(rng, y.shape(), y.dtype())}});
  results.push_back(y);
  return results;
}

void check_independent(const std::string& what, const Function& f,
                       const std::vector<Shape>& shapes) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Rng rng(1);
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) inputs.push_back(normal(rng, shape, dtype));
    const Grads one = run(1, f, inputs);
    for (const int n : {2, 3, 4}) {
      const Grads several = run(n, f, inputs);
      for (std::size_t i = 0; i < one.size(); ++i) {
        INFO(what << " in " << name_of(dtype) << " with " << n << " threads, "
                  << (i + 1 == one.size() ? "value" : "gradient " + std::to_string(i)));
        CHECK(same_bits(one[i], several[i]));
      }
    }
  }
}

}  // namespace

TEST_CASE("elementwise ops and reductions do not depend on the number of threads", "[threads]") {
  check_independent("sum", [](Inputs x) { return sum(x[0]); }, {{100'003}});
  check_independent("sum(0)", [](Inputs x) { return sum(x[0], {0}); }, {{3001, 70}});
  check_independent("sum(1)", [](Inputs x) { return sum(x[0], {1}); }, {{70, 3001}});
  check_independent("add", [](Inputs x) { return x[0] * x[1] + x[2]; },
                    {{301, 200}, {200}, {301, 1}});
  check_independent("gelu", [](Inputs x) { return gelu(x[0]); }, {{70'001}});
  check_independent("permute", [](Inputs x) { return permute(x[0], {2, 0, 1}); }, {{40, 50, 30}});
  check_independent("softmax", [](Inputs x) { return softmax(x[0]); }, {{301, 200}});
}

TEST_CASE("fused ops do not depend on the number of threads", "[threads]") {
  check_independent("layer_norm", [](Inputs x) { return layer_norm(x[0], x[1], x[2]); },
                    {{3, 170, 96}, {96}, {96}});
  check_independent("rms_norm", [](Inputs x) { return rms_norm(x[0], x[1]); },
                    {{3, 170, 96}, {96}});
  check_independent("swiglu", [](Inputs x) { return swiglu(x[0], x[1]); },
                    {{301, 200}, {301, 200}});
  check_independent("attention", [](Inputs x) { return attention(x[0], 3); }, {{2, 150, 3 * 48}});
  check_independent("attention",
                    [](Inputs x) { return attention(x[0], x[1], x[2], 2, {.causal = false}); },
                    {{1, 70, 32}, {1, 90, 32}, {1, 90, 32}});
  check_independent("attention", [](Inputs x) { return attention(x[0], x[1], x[2], 6); },
                    {{1, 150, 48}, {1, 150, 16}, {1, 150, 16}});
  std::vector<std::int32_t> rows(3000);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i * i % 50);
  check_independent("gather_rows", [&](Inputs x) { return gather_rows(x[0], ids(rows)); },
                    {{50, 96}});
  check_independent("cross_entropy", [&](Inputs x) { return cross_entropy(x[0], ids(rows)); },
                    {{3000, 65}});
}

TEST_CASE("products do not depend on the number of threads", "[threads]") {
  const Function product = [](Inputs x) { return matmul(x[0], x[1]); };
  const Function affine = [](Inputs x) { return linear(x[0], x[1], x[2]); };
  const std::vector<std::array<std::int64_t, 3>> sizes = {
      {64, 96, 33},                                       // a little GPT's
      {256, 384, 384}, {256, 65, 384},  {128, 768, 768},  // GPT-2's
      {96, 3072, 768}, {1, 3072, 768},  {7, 1001, 515},  {515, 7, 1001},
      {1001, 515, 7},  {1, 1, 5000},    {200, 1, 200},   {49, 384, 384},
      {97, 768, 768},  {401, 130, 200},  // a row more than some threads' shares
  };
  for (const auto& [m, n, k] : sizes) {
    const std::string what = fmt::format("{}x{}x{}", m, n, k);
    check_independent("linear " + what, affine, {{m, k}, {n, k}, {n}});
    check_independent("matmul " + what, product, {{m, k}, {k, n}});
  }
  check_independent("batched matmul", product, {{12, 70, 40}, {12, 40, 50}});
  check_independent("broadcast matmul", product, {{3, 1, 70, 40}, {4, 40, 50}});
  check_independent("large batched matmul", product, {{2, 200, 150}, {2, 150, 250}});
}

TEST_CASE("parallel_for covers each index once, whatever the threads", "[threads]") {
  for (const int n : {1, 2, 3, 7}) {
    const Threads threads(n);
    CHECK(num_threads() == n);
    for (const std::int64_t size : {0, 1, 2, 6, 7, 1000}) {
      for (const std::int64_t grain : {0, 1, 3, 5000}) {
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(size));
        parallel_for(size, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        });
        CHECK(std::all_of(hits.begin(), hits.end(), [](const auto& h) { return h == 1; }));
      }
    }
  }
}

TEST_CASE("parallel_for nests, and hands on an exception", "[threads]") {
  const Threads threads(3);
  std::atomic<int> total = 0;
  parallel_for(6, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(10, 1,
                   [&](std::int64_t b, std::int64_t e) { total += static_cast<int>(e - b); });
    }
  });
  CHECK(total == 60);
  const auto throwing = [](std::int64_t, std::int64_t) { throw std::runtime_error("boom"); };
  CHECK_THROWS_WITH(parallel_for(100, 1, throwing), "boom");
  CHECK_THROWS_WITH(parallel_for(1, 1, throwing), "boom");
  std::atomic<int> after = 0;
  parallel_for(9, 1, [&](std::int64_t b, std::int64_t e) { after += static_cast<int>(e - b); });
  CHECK(after == 9);
}

TEST_CASE("the number of threads has limits, and the BLAS that was loaded is described",
          "[threads]") {
  CHECK_THROWS_WITH(set_num_threads(0), "the number of threads must be from 1 to 1024, not 0");
  CHECK_THROWS_AS(set_num_threads(1025), Error);
  CHECK_THAT(gemm_description(), ContainsSubstring("OpenBLAS"));
}
