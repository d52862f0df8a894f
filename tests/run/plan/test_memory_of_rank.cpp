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

TEST_CASE("ranks share the optimiser's tensors, unless they make local steps", "[memory]") {
  CHECK(memory_of_rank(kAlone, 1).total == kAlone.total);
  CHECK(memory_of_rank(kAlone, 4).optimizer == kWeights / 2);
  // All moments, the weights of the last meeting, and a fourth of the outer momentum.
  const MemoryEstimate local = memory_of_rank(kAlone, 4, true);
  CHECK(local.optimizer == 3.25 * kWeights);
  CHECK(local.total == kAlone.total + 1.25 * kWeights + 3 * kBucket);
  CHECK(memory_of_rank(kAlone, 1, true).optimizer == 4 * kWeights);
}
