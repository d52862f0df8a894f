// The memory of one process of several, by that of a process alone.

#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/run/plan/memory_estimate.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using run::memory_of_rank;
using run::MemoryEstimate;

namespace {

constexpr double kBucket = 4.0 * static_cast<double>(optim::kBucketSize);
constexpr double kWeights = 100 * kBucket;
// Of AdamW, whose moments are two.
const MemoryEstimate kAlone{.weights = kWeights,
                            .gradients = kWeights,
                            .optimizer = 2 * kWeights,
                            .activations = 1,
                            .total = 4 * kWeights};

}  // namespace

TEST_CASE("each rank has all averages", "[memory]") {
  MemoryEstimate averaged = kAlone;
  averaged.averages = kWeights;
  averaged.total += kWeights;
  CHECK(memory_of_rank(averaged, 4).averages == kWeights);
  CHECK(memory_of_rank(averaged, 4).total == memory_of_rank(kAlone, 4).total + kWeights);
}

TEST_CASE("ranks share the optimiser's tensors, unless they make local steps", "[memory]") {
  CHECK(memory_of_rank(kAlone, 1).total == kAlone.total);
  CHECK(memory_of_rank(kAlone, 4).optimizer == kWeights / 2);
  // All moments, the weights of the last meeting, and a fourth of the outer momentum.
  const MemoryEstimate local = memory_of_rank(kAlone, 4, true);
  CHECK(local.optimizer == 3.25 * kWeights);
  CHECK(local.total == kAlone.total + 1.25 * kWeights + 3 * kBucket);
  CHECK(memory_of_rank(kAlone, 1, true).optimizer == 4 * kWeights);
}

TEST_CASE("a rank keeps all that is kept for one parameter that cannot be cut", "[memory]") {
  const nn::DecoderConfig config{
      .vocab_size = 11, .block_size = 8, .n_layer = 1, .n_head = 2, .n_embd = 128};
  const auto estimate = [&](const char* optimizer) {
    run::MemoryOptions options;
    options.step.optimizer.optimizer = optim::optimizer_named(optimizer);
    return run::estimate_memory(config, 1, options);
  };
  // SOAP keeps two tensors of a matrix's shape, and two for each side (optim/optimizers/soap.h).
  const MemoryEstimate soap = estimate("soap");
  constexpr double mlp = 4.0 * 2 * (512 * 128 + 512 * 512 + 128 * 128);
  CHECK(soap.most_uncut == mlp);
  const MemoryEstimate half = memory_of_rank(soap, 2), rank = memory_of_rank(soap, 64);
  CHECK(half.optimizer == soap.optimizer / 2);
  CHECK(rank.optimizer == mlp);
  CHECK(half.total - rank.total == half.optimizer - mlp + soap.gradients / 2 - soap.gradients / 64);
  // AdamW's moments may be cut, but for parameters that are small.
  const MemoryEstimate adamw = estimate("adamw");
  CHECK(memory_of_rank(adamw, 4).optimizer == adamw.optimizer / 4);
}

TEST_CASE("for another machine, memory is found whatever this one has", "[memory]") {
  const nn::DecoderConfig huge{
      .vocab_size = 11, .block_size = 8, .n_layer = 3, .n_head = 64, .n_embd = 65536};
  const MemoryEstimate found = run::estimate_memory(huge, 1, {.other_machine = true});
  constexpr double matrices = 12.0 * 3 * 65536 * 65536;
  CHECK(found.weights > 4 * matrices);
  // More than what goes into the first layer, which is all that a bound knows.
  CHECK(found.activations > 3 * 8 * 4.0 * 65536);
}
