#include <atomic>
#include <cstdint>
#include <thread>

#include "tapegrad/base/memory/memory.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

std::size_t live_bytes() { return memory_stats().live; }

// A step of a small model with every fused op in it.
void step(const Tensor& x, const std::vector<Tensor>& w, Rng& rng) {
  Tape tape;
  const auto block = [&](Inputs in, Rng* r) {
    const Tensor h = linear(layer_norm(in[0], w[0], w[1]), w[2]);
    return in[0] + dropout(gelu(attention(h, 2, {.dropout = 0.1, .rng = r})), 0.1, *r);
  };
  const Tensor h = checkpoint(block, {block(std::vector{x}, &rng)}, &rng);
  tape.backward(cross_entropy(linear(h, w[3]), Tensor::zeros({2, 5}, DType::i32)));
}

std::vector<Tensor> weights() {
  Rng rng(1);
  return {parameter(rng, {8}), parameter(rng, {8}), parameter(rng, {24, 8}),
          parameter(rng, {9, 8})};
}

}  // namespace

TEST_CASE("live bytes return to the baseline after a step", "[memory]") {
  const auto w = weights();
  Rng rng(2);
  const Tensor x = normal(rng, {2, 5, 8});
  step(x, w, rng);  // makes the gradients, which stay
  const std::size_t baseline = live_bytes();
  for (int i = 0; i < 3; ++i) step(x, w, rng);
  CHECK(live_bytes() == baseline);
  {
    Tape tape;  // that never runs backward
    exp(linear(layer_norm(x, w[0], w[1]), w[2]));
    CHECK(live_bytes() > baseline);
  }
  CHECK(live_bytes() == baseline);
  {
    Tape outer;  // second derivatives
    Tape inner;
    const Grads g = inner.gradient(sum(attention(linear(layer_norm(x, w[0]), w[2]), 2)), {w[0]});
    outer.gradient(sum(g[0] * g[0]), {w[2]});
  }
  CHECK(live_bytes() == baseline);
  for (const Tensor& t : w) Tensor(t).zero_grad();
  CHECK(live_bytes() < baseline);
}

TEST_CASE("the second identical step asks the system for nothing", "[memory]") {
  // How many scratch blocks are in use at once depends on how threads happen to meet.
  const Threads one(1);
  const auto w = weights();
  Rng rng(2);
  const Tensor x = normal(rng, {2, 5, 8});
  step(x, w, rng);
  step(x, w, rng);
  const std::size_t before = memory_stats().system_calls;
  for (int i = 0; i < 5; ++i) step(x, w, rng);
  CHECK(memory_stats().system_calls == before);
}

TEST_CASE("an op keeps what its gradient needs and nothing else", "[memory]") {
  Rng rng(3);
  const Tensor x = normal(rng, {16, 16});
  const Tensor w = parameter(rng, {16, 16}), b = parameter(rng, {16});
  const std::size_t one = x.bytes();
  const auto kept_by = [](const auto& f) {
    Tape tape;
    f();
    return tape.saved_bytes();
  };
  CHECK(kept_by([&] { add(w, x); }) == 0);
  CHECK(kept_by([&] { mul(w, x); }) == one);  // w's gradient needs x; nobody wants that of x
  CHECK(kept_by([&] { mul(w, w); }) == one);
  CHECK(kept_by([&] { linear(x, w, b); }) == one);
  CHECK(kept_by([&] { linear(w, x, b); }) == one);
  CHECK(kept_by([&] { matmul(x, w); }) == one);
  CHECK(kept_by([&] { matmul(w, x); }) == one);
  CHECK(kept_by([&] { exp(w); }) == one);
  CHECK(kept_by([&] { sum(w); }) == 0);
  CHECK(kept_by([&] { transpose(reshape(w, {4, 64}), 0, 1); }) == 0);
  CHECK(kept_by([&] { embedding(w, ids({1, 2})); }) == 2 * 4);  // the ids
  CHECK(kept_by([&] { mul(x, x); }) == 0);
  // The two statistics of each row; for cross entropy three, and the targets.
  CHECK(kept_by([&] { layer_norm(w); }) == one + 16 * 2 * 8);
  CHECK(kept_by([&] { cross_entropy(w, Tensor::zeros({16}, DType::i32)); }) ==
        one + 16 * 3 * 8 + 16 * 4);
  // Attention keeps no (T, T) matrix.
  const Tensor qkv = parameter(rng, {1, 300, 6});
  CHECK(kept_by([&] { attention(qkv, 1); }) == qkv.bytes() + 300 * 2 * 8);
}

TEST_CASE("backward frees as it goes", "[memory]") {
  const Tensor x = Tensor::ones({1 << 20}).set_requires_grad();
  const std::size_t one = x.bytes();
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = exp(y * 0.0);  // keeps 20 results
  const Tensor root = sum(y);
  y = {};
  reset_peak_memory();
  const std::size_t before = live_bytes();
  CHECK(before >= 20 * one);
  tape.backward(root);
  CHECK(memory_stats().peak <= before + 4 * one);
  CHECK(live_bytes() <= 3 * one + (1 << 21));
}

TEST_CASE("gradients are added in place", "[memory]") {
  const Tensor x = Tensor::ones({1 << 20}).set_requires_grad();
  const float* place = nullptr;
  for (const int uses : {1, 2, 30}) {
    Tape tape;
    Tensor total = Tensor::scalar(0);
    for (int i = 0; i < uses; ++i) total = total + sum(x * 2.0);
    reset_peak_memory();
    const std::size_t before = live_bytes();
    tape.backward(total);
    // A sum, a term, and the gradient that it is made from, however often x is used.
    CHECK(memory_stats().peak <= before + 3 * x.bytes() + (1 << 16));
    if (place != nullptr) CHECK(x.grad().data<float>() == place);
    place = x.grad().data<float>();
  }
  CHECK(x.grad().at(7) == 2 * 33);
}

TEST_CASE("rows that were gathered add their gradient to what is there", "[memory]") {
  const Tensor x = Tensor::ones({1 << 14, 64}).set_requires_grad();
  const Tensor rows = Tensor::from<std::int32_t>({5, 70, 5}, {3});
  Tape tape;
  const Tensor gathered = sum(gather_rows(x, rows) * 3.0);
  const Tensor all = x * 2.0;  // whose gradient comes first
  const Tensor seed = Tensor::ones(x.shape());
  reset_peak_memory();
  const std::size_t before = live_bytes();
  tape.backward({gathered, all}, {.seeds = {Tensor(), seed}});
  CHECK(memory_stats().peak <= before + x.bytes() + (1 << 16));
  CHECK(x.grad().at(4 * 64) == 2);
  CHECK(x.grad().at(5 * 64 + 1) == 8);
  CHECK(x.grad().at(70 * 64 + 63) == 5);
}

TEST_CASE("gathered rows add up in one order, whether a tape is kept or not", "[memory]") {
  Rng rng(8);
  const Tensor x = normal(rng, {50, 8}, DType::f32).set_requires_grad();
  const Tensor rows = Tensor::from<std::int32_t>({5, 7, 5, 5}, {4});
  const Tensor seed = normal(rng, {4, 8}, DType::f32);
  Tape tape;
  const Tensor gathered = gather_rows(x, rows);
  const Tensor all = sum(x * 3.0);
  const Grads first = tape.gradient({gathered, all}, {x}, {.seeds = {seed, {}}, .keep = true});
  const Tensor shared = tape.gradient({gathered, all}, {x}, {.seeds = {seed, {}}})[0];
  CHECK(same_bits(first[0], shared));
}

TEST_CASE("blocks are aligned, keep apart, and are handed out again", "[memory]") {
  release_cached_memory();
  std::vector<std::pair<char*, std::size_t>> blocks;
  const MemoryStats before = memory_stats();
  for (const std::size_t size : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                 std::size_t{1000}, std::size_t{4097}, std::size_t{1} << 20,
                                 (std::size_t{1} << 20) + 1, std::size_t{5'000'000}}) {
    for (int copy = 0; copy < 3; ++copy) {
      auto* block = static_cast<char*>(allocate(size));
      CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
      for (const auto& [other, other_size] : blocks) {
        CHECK((block + size <= other || other + other_size <= block));
      }
      std::memset(block, copy, size);
      blocks.emplace_back(block, size);
    }
  }
  const MemoryStats during = memory_stats();
  CHECK(during.live > before.live);
  CHECK(during.peak >= during.live);
  CHECK(during.reserved >= during.live);
  CHECK(during.system_calls == before.system_calls + blocks.size());
  for (const auto& [block, size] : blocks) deallocate(block, size);
  CHECK(memory_stats().live == before.live);
  CHECK(memory_stats().reserved == during.reserved);
  for (auto& [block, size] : blocks) block = static_cast<char*>(allocate(size));
  for (const auto& [block, size] : blocks) deallocate(block, size);
  CHECK(memory_stats().system_calls == during.system_calls);
  release_cached_memory();
  CHECK(memory_stats().reserved == before.reserved);
}

TEST_CASE("no bytes need no block, and impossible ones are an error", "[memory]") {
  CHECK(allocate(0) == nullptr);
  deallocate(nullptr, 0);
  CHECK_THROWS_AS(allocate(std::size_t{1} << 60), Error);
  CHECK_THROWS_AS(Tensor::empty({std::int64_t{1} << 40, 1 << 20}), Error);
  CHECK_THROWS_WITH(Tensor::empty({std::int64_t{1} << 43}), ContainsSubstring("out of memory"));
  CHECK(Tensor::ones({4}).at(3) == 1);
}

TEST_CASE("the allocator serves several threads", "[memory]") {
  const std::size_t before = live_bytes();
  // Counted and checked afterwards: Catch's assertions belong to one thread.
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i, &wrong] {
      for (int k = 0; k < 500; ++k) {
        const Tensor t = Tensor::full({1 + (k * 37 + i) % 900}, i);
        const Tensor u = t.clone();
        if (u.at(0) != i || u.at(u.numel() - 1) != i) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(live_bytes() == before);
}
