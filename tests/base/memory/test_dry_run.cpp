#include <thread>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/conv_geometry.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("a dry run counts its tensors, and memory_stats does not", "[dry_run]") {
  const std::size_t live = memory_stats().live;
  const DryRun dry;
  {
    const Tensor a = Tensor::empty({1 << 20}), b = Tensor::empty({1 << 20});
    CHECK(dry.live() == std::size_t{8} << 20);
  }
  const Tensor small = Tensor::empty({3});
  CHECK(dry.live() == 64);
  CHECK(dry.peak() == std::size_t{8} << 20);
  CHECK(memory_stats().live == live);
}

TEST_CASE("a dry run counts a block for what the allocator would give it", "[dry_run]") {
  for (const std::int64_t n : {1, 100, 1000, 30000, 70000, 100001, 3000000}) {
    const std::size_t before = memory_stats().live;
    const Tensor real = Tensor::empty({n});
    const DryRun dry;
    const Tensor unreal = Tensor::empty({n});
    CHECK(dry.live() == memory_stats().live - before);
  }
}

TEST_CASE("a dry run computes nothing, and reads as zeros", "[dry_run]") {
  const Tensor before = Tensor::ones({70, 300});
  Tensor after;
  {
    const DryRun dry;
    CHECK(in_dry_run());
    bool ran = false;
    parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ran = true; });
    CHECK_FALSE(ran);
    after = matmul(before, Tensor::ones({300, 400})) + 1.0;
    CHECK(sum(after).item() == 0);
  }
  CHECK_FALSE(in_dry_run());
  CHECK(list(before) == std::vector<double>(70 * 300, 1));
  // It outlives the run, and is a tensor like any other.
  CHECK(list(after + 2.0) == std::vector<double>(70 * 400, 2));
}

TEST_CASE("dry runs nest, and other threads know nothing of them", "[dry_run]") {
  const DryRun outer;
  const Tensor a = Tensor::empty({1 << 20});
  {
    const DryRun inner;
    const Tensor b = Tensor::empty({1 << 21});
    CHECK(inner.peak() == std::size_t{8} << 20);
  }
  CHECK(in_dry_run());
  CHECK(outer.peak() == std::size_t{4} << 20);
  bool other = true;
  std::thread([&] { other = in_dry_run(); }).join();
  CHECK_FALSE(other);
}

TEST_CASE("no tensor is too large for a dry run", "[dry_run]") {
  const DryRun dry;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 5; ++i) tensors.push_back(Tensor::zeros({1 << 20, 1 << 22}));
  CHECK(dry.live() == 5 * (std::size_t{1} << 44));
  tensors.clear();
  CHECK(dry.live() == 0);
}

TEST_CASE("a dry run runs ops on signals, and what it lacks is no op's fault", "[dry_run]") {
  const DryRun dry;
  const Tensor x = Tensor::empty({2, 3, 1 << 20});
  CHECK(max_pool1d(x, 2).shape() == Shape{2, 3, 1 << 19});
  CHECK(avg_pool1d(x, 2).shape() == Shape{2, 3, 1 << 19});
  CHECK(conv_transpose1d(x, Tensor::empty({3, 5, 4})).shape() == Shape{2, 5, (1 << 20) + 3});
  const auto lacks = [](const Tensor&) -> Tensor { throw NoAddresses("the limit is too small"); };
  CHECK_THROWS_AS(for_signal("max_pool1d", x, lacks), NoAddresses);
  CHECK_THROWS_WITH(for_signal("max_pool1d", x, lacks), "the limit is too small");
}

TEST_CASE("a dry run writes no copies, no conversions and no norms", "[dry_run]") {
  const DryRun dry;
  // There is no memory that could be written to.
  const Tensor x = Tensor::empty({1 << 20, 1 << 22});
  CHECK(x.clone().shape() == x.shape());
  CHECK(x.to(DType::f64).shape() == x.shape());
  CHECK(x.to(DType::i32).shape() == x.shape());
  CHECK(norm(x, 2, {0}).shape() == Shape{1 << 22});
  CHECK(norm(x, 3, {0}).shape() == Shape{1 << 22});
  CHECK(prod(x, {0}).shape() == Shape{1 << 22});
}
