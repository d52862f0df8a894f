#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tapegrad/optim/lbfgs/lbfgs.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::LBFGS;
using optim::LBFGSOptions;

namespace {

// The problems of golden_lbfgs.py.
struct Problem {
  Problem(const nlohmann::json& golden, std::string problem, DType dtype = DType::f64)
      : kind(std::move(problem)) {
    const auto row = [&](const nlohmann::json& values) {
      return testing::vector(values.get<std::vector<double>>()).to(dtype);
    };
    x = reshape(row(golden["x"]), {12, 2});
    y = row(golden["y"]);
    for (const auto& values : golden["start"][kind]) {
      parameters.emplace_back("p" + std::to_string(parameters.size()),
                              row(values).set_requires_grad());
    }
  }

  Tensor loss() const {
    const auto p = [&](std::size_t i) { return parameters[i].second; };
    if (kind == "rosenbrock") {
      const Tensor a = select(p(0), 0, 0), b = select(p(0), 0, 1);
      return pow(1.0 - a, 2) + 100.0 * pow(b - a * a, 2);
    }
    const Tensor hidden = tanh(matmul(x, transpose(reshape(p(0), {5, 2}), 0, 1)) + p(1));
    return mean(pow(reshape(matmul(hidden, reshape(p(2), {5, 1})), {12}) + p(3) - y, 2));
  }
  double evaluate() const {
    Tape tape;
    const Tensor value = loss();
    tape.backward(value);
    return value.item();
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for (const auto& [name, p] : parameters) {
      for (const double value : list(p)) all.push_back(value);
    }
    return all;
  }

  std::string kind;
  Tensor x, y;
  NamedTensors parameters;
};

LBFGSOptions lbfgs_options(const nlohmann::json& json) {
  LBFGSOptions o;
  o.lr = json.value("lr", o.lr);
  o.max_iter = json.value("max_iter", o.max_iter);
  o.max_eval = json.value("max_eval", o.max_eval);
  o.history_size = json.value("history_size", o.history_size);
  if (json.contains("line_search_fn")) o.line_search = LBFGSOptions::LineSearch::strong_wolfe;
  return o;
}

constexpr LBFGSOptions kSearching{.line_search = LBFGSOptions::LineSearch::strong_wolfe};

}  // namespace

TEST_CASE("LBFGS has PyTorch's iterates", "[lbfgs]") {
  const nlohmann::json golden = golden_json("lbfgs.json");
  for (const auto& golden_case : golden["cases"]) {
    Problem problem(golden, golden_case["kind"]);
    LBFGS lbfgs(problem.parameters, lbfgs_options(golden_case["options"]));
    INFO(golden_case["kind"] << " " << golden_case["options"].dump());
    for (const auto& step : golden_case["steps"]) {
      const double loss = lbfgs.step([&] { return problem.evaluate(); });
      INFO("iteration " << step["iterations"]);
      CHECK(std::abs(loss - step["loss"].get<double>()) <= 1e-10);
      CHECK(lbfgs.iterations() == step["iterations"]);
      CHECK(lbfgs.evaluations() == step["evaluations"]);
      const std::vector<double> found = problem.values(), expected = step["parameters"];
      for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(std::abs(found[i] - expected[i]) <= 1e-10);
    }
  }
}

TEST_CASE("LBFGS goes on from a checkpoint to the bit", "[lbfgs]") {
  const nlohmann::json golden = golden_json("lbfgs.json");
  const TempFolder folder;
  const std::string path = (folder / "state.safetensors").string();
  const DType dtype = GENERATE(DType::f32, DType::f64);
  LBFGSOptions options = kSearching;
  options.max_iter = 5;
  options.history_size = 3;
  Problem whole(golden, "perceptron", dtype), parts(golden, "perceptron", dtype);
  LBFGS unbroken(whole.parameters, options), first(parts.parameters, options);
  LBFGS second(parts.parameters, options);
  save_safetensors(path, first.state(), first.metadata());
  second.load_state(*open_safetensors(path));  // of one that has made no step
  const double before = first.step([&] { return parts.evaluate(); });
  save_safetensors(path, first.state(), first.metadata());
  second.load_state(*open_safetensors(path));
  double last = 0;
  for (int i = 0; i < 3; ++i) unbroken.step([&] { return whole.evaluate(); });
  for (int i = 0; i < 2; ++i) last = second.step([&] { return parts.evaluate(); });
  CHECK(parts.values() == whole.values());
  CHECK(second.evaluations() == unbroken.evaluations());
  CHECK(last < before);

  options.history_size = 2;
  LBFGS shorter(parts.parameters, options);
  CHECK_THROWS_WITH(shorter.load_state(*open_safetensors(path)),
                    ContainsSubstring("lbfgs.changes is '3', not a number from 0 to 2"));
  Problem other(golden, "rosenbrock", dtype);
  CHECK_THROWS_WITH(LBFGS(other.parameters, kSearching).load_state(*open_safetensors(path)),
                    ContainsSubstring("'lbfgs.direction' is (21)"));
  save_safetensors(path, first.state());
  CHECK_THROWS_WITH(second.load_state(*open_safetensors(path)),
                    ContainsSubstring("the metadata has no lbfgs.iterations"));
}

TEST_CASE("LBFGS leaves the parameters where the loss was finite", "[lbfgs]") {
  const nlohmann::json golden = golden_json("lbfgs.json");
  Problem problem(golden, "rosenbrock");
  const std::vector<double> start = problem.values();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  LBFGS lbfgs(problem.parameters, {.lr = 0.1, .max_iter = 3});
  CHECK_THROWS_WITH(lbfgs.step([&] { return nan; }), "[LBFGS] the loss is nan");
  CHECK(problem.values() == start);
  int calls = 0;
  const auto broken = [&] { return ++calls > 1 ? nan : problem.evaluate(); };
  CHECK_THROWS_WITH(lbfgs.step(broken), "[LBFGS] the loss is nan");
  CHECK(problem.values() == start);
  const auto throwing = [&]() -> double {
    check(++calls < 5, "stop");
    return problem.evaluate();
  };
  LBFGS searching(problem.parameters, kSearching);
  CHECK_THROWS_WITH(searching.step(throwing), "stop");
  CHECK(problem.values() == start);
  const auto infinite = [&] {
    problem.parameters[0].second.set_grad(Tensor::full({2}, INFINITY, DType::f64));
    return 1.0;
  };
  CHECK_THROWS_WITH(searching.step(infinite), "[LBFGS] a gradient is not finite");
}

TEST_CASE("the line search of LBFGS goes back from where the loss is NaN", "[lbfgs]") {
  // x − log x, whose first step would lead below 0.
  const Tensor x = Tensor::scalar(3, DType::f64).set_requires_grad();
  LBFGSOptions options = kSearching;
  options.lr = 8;
  LBFGS lbfgs({{"x", x}}, options);
  lbfgs.step([&] {
    Tape tape;
    const Tensor loss = x - log(x);
    tape.backward(loss);
    return loss.item();
  });
  CHECK(x.item() == Approx(1).margin(1e-6));
}

TEST_CASE("a parameter without a gradient stays, and nothing happens at a minimum", "[lbfgs]") {
  const nlohmann::json golden = golden_json("lbfgs.json");
  Problem problem(golden, "rosenbrock");
  const Tensor unused = Tensor::ones({3}, DType::f64).set_requires_grad();
  NamedTensors all = problem.parameters;
  all.emplace_back("unused", unused);
  LBFGSOptions options = kSearching;
  options.max_iter = 100;
  LBFGS lbfgs(all, options);
  lbfgs.step([&] { return problem.evaluate(); });
  CHECK(problem.values()[0] == Approx(1).margin(1e-4));
  CHECK(same_bits(unused.detach(), Tensor::ones({3}, DType::f64)));

  Tensor minimum = problem.parameters[0].second;
  fill(minimum, 1);
  const std::int64_t iterations = lbfgs.iterations();
  CHECK(lbfgs.step([&] { return problem.evaluate(); }) == 0);
  CHECK(problem.values() == std::vector<double>{1, 1});
  CHECK(lbfgs.iterations() == iterations);
}

TEST_CASE("LBFGS names what does not fit", "[lbfgs]") {
  const Tensor a = Tensor::ones({2}).set_requires_grad();
  const Tensor b = Tensor::ones({2}, DType::f64).set_requires_grad();
  CHECK_THROWS_WITH(LBFGS({}), "[LBFGS] there are no parameters");
  CHECK_THROWS_WITH(LBFGS({{"a", a}, {"b", b}}),
                    "[LBFGS] parameters need one dtype: a is f32, b is f64");
  CHECK_THROWS_WITH(LBFGS({{"a", a}}, {.lr = -1}), ContainsSubstring("[LBFGSOptions] lr"));
  CHECK_THROWS_WITH(LBFGS({{"a", a}}, {.max_iter = 0}), ContainsSubstring("max_iter"));
  CHECK_THROWS_WITH(LBFGS({{"a", a}}, {.history_size = 0}), ContainsSubstring("history_size"));
}
