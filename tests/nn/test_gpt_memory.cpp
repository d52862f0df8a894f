// The memory of a GPT: it grows with the length of a context, not with its square, and comes from
// the system once.

#include "tapegrad/base/memory/memory.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr std::int64_t kLengths[] = {2048, 4096, 8192};

struct Long {
  explicit Long(std::int64_t T) : params(rng), gpt(params, config(T)) {
    inputs = random_ids(rng, {1, T}, 11);
    targets = random_ids(rng, {1, T}, 11);
  }
  // Two heads, so that a (T, T) matrix each would be a hundred times what is measured here.
  static nn::DecoderConfig config(std::int64_t T) {
    nn::DecoderConfig c = tiny_config();
    c.block_size = T;
    c.n_layer = 1;
    c.n_embd = 16;
    return c;
  }

  Rng rng{5};
  nn::Params params;
  nn::GPT gpt;
  Tensor inputs, targets;
};

// How much more memory than before f needs at once.
template <class F>
double peak_of(const F& f) {
  const std::size_t before = memory_stats().live;
  reset_peak_memory();
  f();
  return static_cast<double>(memory_stats().peak - before);
}

// What `peak` measures of a model of each length at most doubles with the length; that it nearly
// doubles shows that it is not lost in what does not grow.
template <class F>
void check_growth(const F& peak) {
  const Threads one(1);  // each thread has scratch memory of its own
  double shorter = 0;
  for (const std::int64_t T : kLengths) {
    const Long model(T);
    const double bytes = peak(model);
    INFO("T " << T << ": " << bytes << " bytes, at half the length " << shorter);
    if (shorter > 0) CHECK((bytes > 1.5 * shorter && bytes < 2.1 * shorter));
    shorter = bytes;
  }
}

}  // namespace

TEST_CASE("a forward pass needs memory in proportion to the length", "[gpt]") {
  check_growth([](const Long& m) { return peak_of([&] { m.gpt(m.inputs); }); });
}

TEST_CASE("a training step needs memory in proportion to the length", "[gpt]") {
  check_growth([](const Long& m) {
    return peak_of([&] {
      Tape tape;
      tape.backward(m.gpt.loss(m.inputs, m.targets));
    });
  });
}

TEST_CASE("steps of training after the second one ask the system for nothing", "[gpt]") {
  const Threads one(1);  // how many scratch blocks several need depends on how they happen to meet
  Rng rng(4);
  const nn::Params params(rng);
  const nn::GPT gpt(params, {.vocab_size = 600,
                             .block_size = 64,
                             .n_layer = 2,
                             .n_head = 2,
                             .n_embd = 64,
                             .dropout = 0.1});
  optim::AdamW adamw(params.parameters());
  const auto step = [&] {
    const Tensor inputs = random_ids(rng, {8, 64}, 600), targets = random_ids(rng, {8, 64}, 600);
    Tape tape;
    tape.backward(gpt.loss(inputs, targets, &rng));
    adamw.step(1e-3, optim::measure_clipping(params.parameters(), 1.0).factor);
    adamw.zero_grad();
  };
  step();
  step();
  const MemoryStats before = memory_stats();
  CHECK(before.peak > std::size_t{1} << 22);  // large blocks and small ones
  for (int i = 0; i < 4; ++i) step();
  CHECK(memory_stats().system_calls == before.system_calls);
  CHECK(memory_stats().reserved == before.reserved);
}
