// Selection biases that balance experts while a model is trained.

#include <cmath>
#include <map>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

constexpr float kRate = 1.0F / 1024;  // whose sums are exact
const Args kBalanced = {"--dropout",
                        "0",
                        "--arch",
                        "llama",
                        "--moe-experts",
                        "4",
                        "--moe-scores",
                        "sigmoid",
                        "--moe-selection-bias",
                        "--moe-balance-loss",
                        "0",
                        "--moe-bias-rate",
                        "0.0009765625"};

// The biases of all blocks of a run, as multiples of the rate.
std::map<std::string, std::vector<float>> biases(const std::filesystem::path& run,
                                                 const std::string& file = "model.safetensors") {
  std::map<std::string, std::vector<float>> all;
  for (const auto& [name, t] : load_safetensors((run / file).string()).tensors) {
    if (!name.ends_with("expert_bias")) continue;
    for (const float bias : t.values<float>()) all[name].push_back(bias / kRate);
  }
  return all;
}

float most_of(const std::map<std::string, std::vector<float>>& biases) {
  float most = 0;
  for (const auto& [name, values] : biases) {
    for (const float value : values) {
      CHECK(value == std::round(value));
      most = std::max(most, std::abs(value));
    }
  }
  return most;
}

}  // namespace

TEST_CASE("biases of experts move by their rate in each step, also where a run was resumed",
          "[experts]") {
  const TinyRun whole(8, kBalanced);
  const auto moved = biases(whole.run);
  REQUIRE(!moved.empty());
  CHECK((most_of(moved) >= 1 && most_of(moved) <= 8));
  CHECK(most_of(biases(TinyRun(1, kBalanced).run)) == 1);
  const TinyRun cut(5, kBalanced + Args{"--lr-decay-iters", "8"});
  check_ended_well(train(resume_run(cut.run, 8)));
  CHECK(same_model(TinyRun(8, kBalanced + Args{"--lr-decay-iters", "8"}).run, cut.run));
  const TinyRun again(8, kBalanced + Args{"--recompute"});
  CHECK(same_model(again.run, whole.run));
}

TEST_CASE("all batches of a step are counted for the biases of experts, or none", "[experts]") {
  // The same rows, in one batch and in four.
  const TinyRun one(1, kBalanced + Args{"--batch-size", "8"});
  const TinyRun four(1,
                     kBalanced + Args{"--batch-size", "2", "--gradient-accumulation-steps", "4"});
  const auto counted = biases(one.run);
  CHECK(most_of(counted) == 1);
  CHECK(biases(four.run) == counted);
  CHECK(most_of(biases(TinyRun(4, kBalanced + Args{"--moe-bias-rate", "0"}).run)) == 0);
  CHECK(most_of(biases(TinyRun(4, kBalanced + Args{"--freeze", "*gate*"}).run)) == 0);
}
