#include <cmath>
#include <string>
#include <vector>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("cross_entropy of class probabilities is PyTorch's", "[golden][losses]") {
  const nlohmann::json golden = golden_json("class_probabilities.json");
  const auto tensor = [](const nlohmann::json& numbers, const Shape& shape) {
    return Tensor::from(numbers.get<std::vector<double>>(), shape);
  };
  const Tensor logits = tensor(golden["logits"], {4, 3});
  const Tensor targets = tensor(golden["targets"], {4, 3});
  for (const auto& golden_case : golden["cases"]) {
    INFO(golden_case.dump());
    CrossEntropyOptions options{.label_smoothing = golden_case["label_smoothing"]};
    if (golden_case["weighted"]) options.weight = tensor(golden["weight"], {3});
    if (golden_case["reduction"] == "sum") options.reduction = Reduction::sum;
    if (golden_case["reduction"] == "none") options.reduction = Reduction::none;
    Tape tape;
    tape.watch(logits);
    tape.watch(targets);
    const Tensor loss = cross_entropy(logits, targets, options);
    CHECK(difference(loss, tensor(golden_case["loss"], loss.shape()), 1e-14, 1e-14) == "");
    CHECK(loss.rank() == (options.reduction == Reduction::none ? 1 : 0));
    const Tensor count = reshape(
        Tensor::arange(1, static_cast<double>(loss.numel()) + 1, 1, DType::f64), loss.shape());
    const Grads grads = tape.gradient(loss, {logits, targets}, {.seeds = {count}});
    CHECK(difference(grads[0], tensor(golden_case["grad_logits"], {4, 3}), 1e-14, 1e-14) == "");
    CHECK(difference(grads[1], tensor(golden_case["grad_targets"], {4, 3}), 1e-14, 1e-14) == "");
  }
}

TEST_CASE("cross_entropy of certain classes is that of their ids", "[losses]") {
  Rng rng(1);
  const Tensor logits = normal(rng, {2, 5, 7}, DType::f32);
  const Tensor classes = Tensor::from<std::int32_t>({0, 6, 3, 3, 1, 2, 5, 4, 6, 0}, {2, 5});
  const Tensor certain = one_hot(classes, 7).to(DType::f32);
  CHECK(difference(cross_entropy(logits, certain), cross_entropy(logits, classes), 1e-6, 0) == "");
  CHECK(std::isnan(cross_entropy(Tensor::zeros({0, 3}), Tensor::zeros({0, 3})).item()));
  CHECK(cross_entropy(Tensor::zeros({3}), Tensor::ones({3})).item() == Approx(3 * std::log(3)));
}

TEST_CASE("cross_entropy of class probabilities names what does not fit", "[losses]") {
  const Tensor logits = Tensor::zeros({4, 3});
  const auto fails = [&](const Tensor& targets, const CrossEntropyOptions& options,
                         const std::string& message) {
    CHECK_THROWS_WITH(cross_entropy(logits, targets, options), ContainsSubstring(message));
  };
  fails(Tensor::zeros({4}), {}, "are probabilities like the logits: (4, 3) f32, not (4) f32");
  fails(Tensor::zeros({4, 3}, DType::f64), {}, "(4, 3) f32, not (4, 3) f64");
  fails(logits, {.ignore_index = 1}, "probabilities have no class 1 to ignore");
  fails(logits, {.weight = Tensor::ones({4})}, "weight (4) does not fit 3 classes");
  fails(logits, {.reduction = Reduction::batchmean}, "there is no batchmean");
  CHECK_THROWS_WITH(cross_entropy(Tensor::zeros({2, 0}), Tensor::zeros({2, 0})),
                    ContainsSubstring("there are no classes"));
}
