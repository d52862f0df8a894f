#include <string>
#include <vector>

#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/run/plan/assumed_step.h"
#include "tapegrad/run/plan/sharing_ways.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::run;

namespace {

constexpr Network kFastLine{.bytes_per_second = 1e15, .latency = 0};
constexpr Network kSlow{.bytes_per_second = 1e6, .latency = 0.01};
constexpr Group kFour{.ranks = 4, .batches = 4};

StepParts small() {
  return {.forward = 1,
          .backward = 2,
          .norm = 0.01,
          .update = 0.1,
          .sizes = {optim::kBucketSize},
          .completed = {2},
          .blocks = {{0}, {}}};
}

}  // namespace

TEST_CASE("there are as many ways to share as types may travel", "[sharing]") {
  std::vector<std::string> names;
  for (const SharingWay& way : sharing_ways(small(), kFour, kFastLine, {.local_steps = 50})) {
    CHECK(way.group.ranks == 4);
    CHECK(way.forecast.step > 0);
    names.push_back(way.name());
  }
  CHECK(names == std::vector<std::string>{
                     "each step in f32", "--shard parameters in f32", "each step in bf16",
                     "--shard parameters in bf16", "--local-steps 50 --comm-dtype f32",
                     "--local-steps 50 --comm-dtype bf16", "--local-steps 50 --comm-dtype int8"});
  CHECK(sharing_ways(small(), kFour, kFastLine, {}).size() == 4);
  CHECK(sharing_ways(small(), kFour, kFastLine, {.parameters = false}).size() == 2);
}

TEST_CASE("on a slow line the fewest bytes are fastest, and on a fast one nothing is given up",
          "[sharing]") {
  const auto fastest_on = [](const Network& network) {
    return fastest(sharing_ways(small(), kFour, network, {.local_steps = 50})).name();
  };
  CHECK(fastest_on(kSlow) == "--local-steps 50 --comm-dtype int8");
  CHECK(fastest_on(kFastLine) == "each step in f32");
  CHECK_THROWS_WITH(fastest({}), ContainsSubstring("no ways"));
}

TEST_CASE("where the line is slow, one machine makes a step faster than four", "[sharing]") {
  CHECK(numbers_of_ranks(1) == std::vector<int>{1});
  CHECK(numbers_of_ranks(4) == std::vector<int>{1, 2, 4});
  CHECK(numbers_of_ranks(1000).size() == 11);
  CHECK(best_split(small(), kFour, kSlow).group.ranks == 1);
  const SharingWay all = best_split(small(), kFour, kFastLine);
  CHECK(all.group.ranks == 4);
  CHECK(all.group.batches == 4);
  // What a third machine has left to do is no less than what two have.
  CHECK(best_split(small(), {.ranks = 3, .batches = 2}, kFastLine).group.ranks == 2);
}

TEST_CASE("a step is assumed by operations, and by what memory brings", "[sharing]") {
  const StepParts parts = assumed_step(
      {.forward = 1e9, .backward = 2e9, .kept = 800, .sizes = {75, 25}, .units = {1, 1}}, 1e9, 8);
  CHECK(parts.forward == 1);
  CHECK(parts.backward == 2);
  CHECK(parts.threads == 8);
  CHECK(parts.completed == std::vector<double>{2, 0.5});  // the last parameters first
  const double byte = 16 / 1e9;
  CHECK_THAT(parts.norm, Catch::Matchers::WithinRel(400 * byte, 1e-12));
  CHECK_THAT(parts.update, Catch::Matchers::WithinRel((1200 + 1600) * byte, 1e-12));
}
