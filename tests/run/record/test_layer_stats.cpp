// The means of layers, beside sums that are made one by one.

#include <cmath>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/run/record/layer_stats.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

constexpr std::int64_t kMany = 200'000;  // of which every fourth element is looked at

// a.weight and a.bias of one module, a large one, and one that the loss does not depend on.
struct Parameters {
  Rng rng{3};
  NamedTensors all;
  explicit Parameters(DType dtype) {
    const auto add = [&](const std::string& name, const Shape& shape) {
      all.emplace_back(name, Tensor::randn(shape, rng, dtype).set_requires_grad());
    };
    add("a.weight", {30, 20});
    add("large.weight", {kMany / 100, 100});
    add("a.bias", {7});
    add("unused", {5});
  }
  Tensor loss() const {
    Tensor total = sum(all[0].second * all[0].second) + sum(exp(all[2].second));
    return total + sum(all[1].second * all[1].second * all[1].second);
  }
};

// The mean |x| of every `step`-th element.
double mean_magnitude(const std::vector<double>& x, std::size_t step) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); i += step, ++count) sum += std::abs(x[i]);
  return sum / static_cast<double>(count);
}

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    result.push_back(t.dtype() == DType::f64 ? t.data<double>()[i]
                                             : static_cast<double>(t.data<float>()[i]));
  }
  return result;
}

std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

}  // namespace

TEST_CASE("means of layers are those of their gradients, weights and sync", "[layer_stats]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const Parameters p(dtype);
  const auto sync = optim::make_gradient_sync(p.all, optim::GroupRules{});
  run::LayerStats stats(p.all, nullptr);
  for (int step = 0; step < 2; ++step) {
    sync->round(1, [&](const auto& take) {
      Tape tape;
      tape.backward(p.loss(), {.seeds = {Tensor::scalar(0.5, dtype)}, .take = take});
    });
    std::vector<std::vector<double>> gradients, before;
    for (const auto& [name, t] : p.all) {
      const Tensor gradient = t.grad();
      gradients.push_back(gradient.defined() ? doubles(gradient) : std::vector<double>(5, 0.0));
      before.push_back(doubles(t));
    }
    const auto [norm, factor] = sync->measure_clipping(1e-3);
    REQUIRE(factor < 0.1);
    stats.before(*sync);
    const bool skipped = step == 1;
    if (!skipped) sync->step(0.01, factor);
    const std::vector<run::LayerMeans> layers = stats.after();
    sync->zero_grad();

    REQUIRE(layers.size() == 3);
    CHECK(layers[0].name == "a");
    CHECK(layers[1].name == "large");
    CHECK(layers[2].name == "unused");
    const auto of_a = [&](const auto& values) {  // by the sizes of a.weight and a.bias
      return (600 * mean_magnitude(values(0), 1) + 7 * mean_magnitude(values(2), 1)) / 607;
    };
    const auto gradient = [&](std::size_t i) { return gradients[i]; };
    const auto weight = [&](std::size_t i) { return before[i]; };
    const auto update = [&](std::size_t i) {
      return difference(doubles(p.all[i].second), before[i]);
    };
    const auto close = [](double value) { return Approx(value).epsilon(1e-6); };
    CHECK(layers[0].gradient == close(of_a(gradient)));
    CHECK(layers[0].weight == close(of_a(weight)));
    CHECK(layers[1].gradient == close(mean_magnitude(gradients[1], 4)));
    CHECK(layers[1].weight == close(mean_magnitude(before[1], 4)));
    CHECK(layers[2].gradient == 0);
    CHECK(layers[2].weight == close(mean_magnitude(before[3], 1)));
    CHECK(layers[2].update == 0);
    if (skipped) {
      CHECK(layers[0].update == 0);
      CHECK(layers[1].update == 0);
    } else {
      CHECK(layers[0].update > 0);
      CHECK(layers[0].update == close(of_a(update)));
      CHECK(layers[1].update == close(mean_magnitude(update(1), 4)));
    }
  }
}
