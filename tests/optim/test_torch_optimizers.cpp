#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tapegrad/optim/optimizers/adam.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/optim/optimizers/nadam.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// The numbers of golden_optimizers.py: step 0 is for the parameter.
Tensor numbers(const nlohmann::json& shape, std::int64_t t, DType dtype) {
  const std::int64_t rows = shape[0], columns = shape[1];
  std::vector<double> values;
  for (std::int64_t k = 0; k < rows * columns; ++k) {
    const std::int64_t number = (37 * k * k + 101 * k * t + 13 * t + 5 * k) % 1021 - 510;
    values.push_back(std::ldexp(static_cast<double>(number), static_cast<int>(-10 - t / 6)));
  }
  return Tensor::from<double>(values, {rows, columns}).to(dtype);
}

// Options by PyTorch's names.
template <class Options>
Options options_of(const nlohmann::json& json, Options o) {
  o.weight_decay = json.value("weight_decay", o.weight_decay);
  o.eps = json.value("eps", o.eps);
  if (json.contains("betas")) o.beta1 = json["betas"][0], o.beta2 = json["betas"][1];
  if constexpr (requires { o.amsgrad; }) o.amsgrad = json.value("amsgrad", o.amsgrad);
  if constexpr (requires { o.momentum_decay; }) {
    o.momentum_decay = json.value("momentum_decay", o.momentum_decay);
    o.decoupled_weight_decay = json.value("decoupled_weight_decay", o.decoupled_weight_decay);
  }
  return o;
}

optim::OptimizerState optimizer_of(const std::string& kind, const nlohmann::json& options,
                                   const NamedTensors& named) {
  if (kind == "Adam") return optim::Adam(named, options_of(options, optim::AdamOptions{}));
  if (kind == "NAdam") return optim::NAdam(named, options_of(options, optim::NAdamOptions{}));
  REQUIRE(kind == "AdamW");
  return optim::AdamW(named, options_of(options, optim::AdamWOptions{.decay_all = true}));
}

// The largest difference of a value from what it should be, in multiples of the largest value.
double worst(const Tensor& t, const std::vector<double>& expected) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = t.at(static_cast<std::int64_t>(i));
    difference = std::max(difference, std::abs(value - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

}  // namespace

TEST_CASE("Adam, AdamW and NAdam make PyTorch's steps, in f32 and f64", "[torch-optimizers]") {
  const nlohmann::json golden = golden_json("optimizers.json");
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double tolerance = dtype == DType::f32 ? 5e-7 : 2e-15;
  for (const auto& golden_case : golden["cases"]) {
    Tensor p = numbers(golden["shape"], 0, dtype).set_requires_grad();
    optim::OptimizerState optimizer =
        optimizer_of(golden_case["kind"], golden_case["options"], {{"p", p}});
    for (std::int64_t t = 1; t <= golden["steps"]; ++t) {
      p.set_grad(numbers(golden["shape"], t, dtype));
      optimizer.step(golden["lr"]);
    }
    INFO(golden_case["kind"] << " " << golden_case["options"].dump());
    CHECK(worst(p, golden_case[dtype == DType::f32 ? "f32" : "f64"]) <= tolerance);
  }
}

TEST_CASE("amsgrad's largest squares are in checkpoints, and the option cannot change on resume",
          "[torch-optimizers]") {
  const char* const name = GENERATE("adam", "adamw");
  const TempFolder folder;
  const std::string path = (folder / "state.safetensors").string();
  optim::GroupRules rules{.optimizer = optim::optimizer_named(name), .weight_decay = 0.1};
  optim::GroupRules plain = rules;
  rules.settings.set("amsgrad", 1).set("adam_amsgrad", 1);
  rules.settings.set("beta2", 0.9).set("adam_beta2", 0.9);
  const auto start = [] { return numbers({4, 3}, 0, DType::f32).set_requires_grad(); };
  const auto make = [](const Tensor& p, const optim::GroupRules& r) {
    const NamedTensors named{{"p", p}};
    return optim::OptimizerState(named, optim::make_groups(named, r));
  };
  const auto train = [](optim::OptimizerState& optimizer, Tensor p, int from, int to) {
    for (int t = from; t <= to; ++t) {
      p.set_grad(numbers({4, 3}, t, DType::f32));
      optimizer.step(0.01);
    }
  };
  const Tensor whole = start(), parts = start();
  optim::OptimizerState unbroken = make(whole, rules), first = make(parts, rules);
  train(unbroken, whole, 1, 12);
  train(first, parts, 1, 6);
  save_safetensors(path, first.state(), first.metadata());
  optim::OptimizerState second = make(parts, rules);
  second.load_state(*open_safetensors(path));
  train(second, parts, 7, 12);
  CHECK(same_bits(parts, whole));
  CHECK(second.state()[2].first == "max_exp_avg_sq.p");

  CHECK_THROWS_WITH(make(parts, plain).load_state(*open_safetensors(path)),
                    ContainsSubstring("it has max_exp_avg_sq, which the optimiser does not keep"));
  optim::OptimizerState other = make(parts, plain);
  save_safetensors(path, other.state(), other.metadata());
  CHECK_THROWS_WITH(make(parts, rules).load_state(*open_safetensors(path)),
                    ContainsSubstring("it has no max_exp_avg_sq, which the optimiser keeps"));
}
