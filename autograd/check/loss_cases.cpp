#include "tapegrad/autograd/check/internal/op_cases.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/head_ops.h"

namespace tapegrad {
namespace {

using enum Draw;
using Cases = std::vector<OpCase>;
using In = Inputs;

// A teacher of x's type whose logits are sin 1, sin 2, … row after row.
Teacher teacher(const Tensor& x, std::int64_t classes) {
  return {.logits =
              [=, dtype = x.dtype()](std::int64_t first, std::int64_t n) {
                const auto begin = static_cast<double>(first * classes + 1);
                const auto count = static_cast<double>(n * classes);
                return reshape(sin(Tensor::arange(begin, begin + count, 1, dtype)), {n, classes});
              },
          .weight = 0.7,
          .temperature = 1.5};
}

// One line per case, which clang-format would tear apart.
// clang-format off

void add_probability_losses(Cases& cases) {
  const Tensor weight = Tensor::from({0.5, 2.0, 1.0}, {3});
  const auto like = [](const Tensor& t, In x) { return t.to(x[0].dtype()); };
  const auto bce = [](In x) { return binary_cross_entropy(sigmoid(x[0]), sigmoid(x[1])); };
  const auto with_logits = [](In x) { return binary_cross_entropy_with_logits(x[0], x[1]); };
  const auto kl = [](In x) { return kl_div(x[0], x[1]); };
  const Cases lines = {
      {"binary_cross_entropy of sigmoids", {{2, 3}, {2, 3}}, normal, bce},
      {"binary_cross_entropy of sigmoids", {{}, {}}, normal, bce},
      {"binary_cross_entropy of sigmoids(weight, none)", {{2, 3}, {2, 3}}, normal,
       [=](In x) {
         return binary_cross_entropy(sigmoid(x[0]), sigmoid(x[1]), {.weight = like(weight, x),
                                                           .reduction = Reduction::none});
       }},
      {"binary_cross_entropy_with_logits", {{2, 3}, {2, 3}}, normal, with_logits},
      {"binary_cross_entropy_with_logits", {{}, {}}, normal, with_logits},
      {"binary_cross_entropy_with_logits(pos_weight, sum)", {{2, 3}, {2, 3}}, normal,
       [=](In x) {
         return binary_cross_entropy_with_logits(
             x[0], x[1], {.pos_weight = like(weight, x), .reduction = Reduction::sum});
       }},
      {"kl_div", {{2, 3}, {2, 3}}, positive, kl},
      {"kl_div", {{2, 3}, {3}}, positive, kl},
      {"kl_div", {{}, {}}, positive, kl},
      {"kl_div(batchmean, log_target)", {{2, 3}, {2, 3}}, normal,
       [](In x) {
         return kl_div(x[0], x[1], {.reduction = Reduction::batchmean, .log_target = true});
       }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_losses(Cases& cases) {
  const Cases lines = {
      {"cross_entropy", {{4, 5}}, normal,
       [](In x) { return cross_entropy(x[0], ids({0, 4, 2, 2})); }},
      {"cross_entropy", {{2, 2, 3}}, normal,
       [](In x) { return cross_entropy(x[0], ids({0, 1, 1, 2}, {2, 2})); }},
      {"cross_entropy(ignore)", {{4, 5}}, normal,
       [](In x) { return cross_entropy(x[0], ids({0, -1, 2, -1}), -1); }},
      {"cross_entropy", {{5}}, normal, [](In x) { return cross_entropy(x[0], ids({3}, {})); }},
      {"cross_entropy(weight, ignore, smoothing)", {{2, 2, 3}}, normal,
       [](In x) {
         return cross_entropy(x[0], ids({0, -1, 2, 1}, {2, 2}), {.weight = Tensor::from({0.5, 2.0, 1.0}, {3}),
                                                         .ignore_index = -1, .label_smoothing = 0.2});
       }},
      {"cross_entropy(smoothing, none)", {{5}}, normal,
       [](In x) { return cross_entropy(x[0], ids({3}, {}), {.label_smoothing = 0.1, .reduction = Reduction::none}); }},
      {"cross_entropy of probabilities", {{4, 5}, {4, 5}}, normal,
       [](In x) { return cross_entropy(x[0], softmax(x[1])); }},
      {"cross_entropy of probabilities(weight, smoothing, sum)", {{2, 2, 3}, {2, 2, 3}}, normal,
       [](In x) {
         return cross_entropy(x[0], x[1], {.weight = Tensor::from({0.5, 2.0, 1.0}, {3}), .label_smoothing = 0.2,
                                           .reduction = Reduction::sum});
       }},
      {"linear_cross_entropy", {{4, 3}, {5, 3}}, normal,
       [](In x) { return linear_cross_entropy(x[0], x[1], ids({0, 4, 2, 2})); }},
      {"linear_cross_entropy(ignore)", {{2, 2, 3}, {5, 3}}, normal,
       [](In x) { return linear_cross_entropy(x[0], x[1], ids({0, -1, 2, -1}, {2, 2}), -1); }},
      {"linear_cross_entropy(ignore, cap 1.5)", {{2, 2, 3}, {5, 3}}, normal,
       [](In x) {
         return linear_cross_entropy(x[0], x[1], ids({0, -1, 2, 1}, {2, 2}), -1,
                                     1.5);
       }},
      {"linear_cross_entropy", {{2, 0}, {5, 0}}, normal,
       [](In x) { return linear_cross_entropy(x[0], x[1], ids({0, 4})); }},
      {"linear_log_probs", {{4, 3}, {5, 3}}, normal,
       [](In x) { return linear_log_probs(x[0], x[1], ids({0, 4, 2, 2})); }},
      {"linear_log_probs(ignore, cap 1.5)", {{2, 2, 3}, {5, 3}}, normal,
       [](In x) {
         return linear_log_probs(x[0], x[1], ids({0, -1, 2, 1}, {2, 2}), -1, 1.5);
       }},
      {"linear_log_probs, weight as it is", {{4, 3}}, normal,
       [](In x) {
         return linear_log_probs(x[0], Tensor::eye(5, 3, x[0].dtype()), ids({0, -1, 2, 2}), -1);
       }},
      {"linear_log_probs", {{2, 0}, {5, 0}}, normal,
       [](In x) { return linear_log_probs(x[0], x[1], ids({0, 4})); }},
      {"linear_distillation", {{4, 3}, {5, 3}}, normal,
       [](In x) { return linear_distillation(x[0], x[1], ids({0, 4, 2, 2}), teacher(x[0], 5)); }},
      {"linear_distillation(ignore, cap 1.5)", {{2, 2, 3}, {5, 3}}, normal,
       [](In x) {
         return linear_distillation(x[0], x[1], ids({0, -1, 2, 1}, {2, 2}), teacher(x[0], 5), -1,
                                    1.5);
       }},
      {"linear_distillation", {{2, 0}, {5, 0}}, normal,
       [](In x) { return linear_distillation(x[0], x[1], ids({0, 4}), teacher(x[0], 5)); }},
      {"mse_loss", {{3, 4}, {3, 4}}, normal, [](In x) { return mse_loss(x[0], x[1]); }},
      {"mse_loss", {{}, {}}, normal, [](In x) { return mse_loss(x[0], x[1]); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

// clang-format on

}  // namespace

void add_loss_cases(Cases& cases) {
  add_probability_losses(cases);
  add_losses(cases);
}

}  // namespace tapegrad
