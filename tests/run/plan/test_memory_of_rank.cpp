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
                            .activations = kBucket,
                            .total = 4 * kWeights + kBucket,
                            .passes = 11 * kBucket,
                            .passes_by_blocks = 65 * kBucket,
                            .updating = kBucket,
                            .blocks = 80 * kBucket,
                            .largest_block = 8 * kBucket};

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
  const optim::Sharing steps{.local = optim::LocalSteps()};
  const MemoryEstimate local = memory_of_rank(kAlone, 4, steps);
  CHECK(local.optimizer == 3.25 * kWeights);
  CHECK(local.total == kAlone.total + 1.25 * kWeights + 3 * kBucket);
  CHECK(memory_of_rank(kAlone, 1, steps).optimizer == 4 * kWeights);
  // Groups of two share moments and gradients inside.
  optim::Sharing groups{.local = optim::LocalSteps()};
  groups.local->groups = 2;
  CHECK(memory_of_rank(kAlone, 4, groups).optimizer == kWeights + 1.25 * kWeights);
  CHECK(memory_of_rank(kAlone, 4, groups).gradients == kWeights / 2);
}

TEST_CASE(
    "a group that meets others through files keeps an anchor, and has a file in place of a pass",
    "[memory]") {
  optim::Sharing files{.local = optim::LocalSteps()};
  files.local->place = optim::MeetingPlace{"meetings", "a", {"a", "b"}};
  CHECK(memory_of_rank(kAlone, 1, files).optimizer == 3 * kWeights);
  CHECK(memory_of_rank(kAlone, 1, files).total == 6 * kWeights);
  files.sent = optim::CommDType::bf16;
  CHECK(memory_of_rank(kAlone, 1, files).total == 5.5 * kWeights);
  CHECK(memory_of_rank(kAlone, 4, files).optimizer == 1.5 * kWeights);
}

TEST_CASE("ranks have gradients of their share, and of parameters what they are asked to share",
          "[memory]") {
  const MemoryEstimate gradients = memory_of_rank(kAlone, 4);
  CHECK(gradients.weights == kWeights);
  CHECK(gradients.gradients == kWeights / 4);
  // Weights, moments, gradients, and a pass with one bucket that is filled and three that are sent
  // and received.
  CHECK(gradients.total == 175 * kBucket + 11 * kBucket + 7 * kBucket);
  const optim::Sharing all{.shard = optim::Shard::parameters};
  const MemoryEstimate parameters = memory_of_rank(kAlone, 4, all);
  // A fourth, what is of no block, and three blocks.
  CHECK(parameters.weights == 25 * kBucket + 20 * kBucket + 24 * kBucket);
  CHECK(parameters.weights + parameters.elsewhere == kWeights);
  CHECK(parameters.total ==
        parameters.weights + 75 * kBucket + 65 * kBucket + 24 * kBucket + 6 * kBucket);
  // All weights, and a fourth of them, of gradients and of two moments.
  MemoryEstimate small = kAlone;
  small.passes_by_blocks = kBucket;
  CHECK(memory_of_rank(small, 4, all).total == 100 * kBucket + 100 * kBucket);
  CHECK(memory_of_rank(kAlone, 1, all).total == kAlone.total);
  MemoryEstimate updating = kAlone;
  updating.updating = 1000 * kBucket;
  CHECK(memory_of_rank(updating, 4).total == 175 * kBucket + 1000 * kBucket);
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
