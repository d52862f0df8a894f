#include "tapegrad/autograd/check/internal/op_cases.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/autograd/ops/internal/cumprod.h"

namespace tapegrad {
namespace {

using enum Draw;
using Cases = std::vector<OpCase>;
using In = Inputs;

// Targets of x's type: 1, −1, −1, 1, −1, −1, …
Tensor signs(const Tensor& x, const Shape& shape) {
  const Tensor numbers = Tensor::arange(0, static_cast<double>(shape.numel()), 1, x.dtype());
  const Tensor third = numbers / 3.0;
  return where(eq(third, floor(third)), Tensor::scalar(1, x.dtype()), Tensor::scalar(-1, x.dtype()))
      .view(shape);
}

// One line per case, which clang-format would tear apart.
// clang-format off

void add_activations(Cases& cases) {
  const auto each = [&](const std::string& op, Draw draw, std::function<Tensor(const Tensor&)> f) {
    for (const Shape& shape : {Shape{2, 5}, Shape{}, Shape{3, 0}}) {
      cases.push_back({op, {shape}, draw, [f](In x) { return f(x[0]); }});
    }
  };
  each("leaky_relu", spread, [](const Tensor& x) { return leaky_relu(x); });
  each("elu(0.5)", spread, [](const Tensor& x) { return elu(x, 0.5); });
  each("mish", normal, mish);
  each("hardtanh(-0.775, 0.725)", spread, [](const Tensor& x) { return hardtanh(x, -0.775, 0.725); });
  each("hardsigmoid(3 x)", spread, [](const Tensor& x) { return hardsigmoid(x * 3.0); });
  each("hardswish(3 x)", spread, [](const Tensor& x) { return hardswish(x * 3.0); });
}

void add_composed_reductions(Cases& cases) {
  const Cases lines = {
      {"stddev", {{3, 4}}, normal, [](In x) { return stddev(x[0]); }},
      {"stddev(1, biased, keep)", {{3, 4, 2}}, normal, [](In x) { return stddev(x[0], {1}, false, true); }},
      {"stddev(1)", {{0, 4}}, normal, [](In x) { return stddev(x[0], {1}); }},
      {"stddev of equal ones", {{3}}, normal, [](In x) { return stddev(broadcast_to(x[0], {4, 3}), {0}); }},
      {"norm", {{3, 4}}, normal, [](In x) { return norm(x[0]); }},
      {"norm(2, 0, keep)", {{3, 4}}, normal, [](In x) { return norm(x[0], 2, {0}, true); }},
      {"norm(1)", {{3, 4}}, spread, [](In x) { return norm(x[0], 1, {-1}); }},
      {"norm(3)", {{3, 4}}, spread, [](In x) { return norm(x[0], 3, {0, 1}); }},
      {"norm", {{}}, positive, [](In x) { return norm(x[0]); }},
      {"norm(2, 0)", {{3, 0}}, normal, [](In x) { return norm(x[0], 2, {0}); }},
      {"prod", {{3, 5}}, normal, [](In x) { return prod(x[0]); }},
      {"prod(0, 2)", {{2, 3, 4}}, normal, [](In x) { return prod(x[0], {0, 2}); }},
      {"prod(1, keep)", {{2, 3, 4}}, normal, [](In x) { return prod(x[0], {1}, true); }},
      {"prod with a 0", {{2, 3}}, normal, [](In x) { return prod(concat({x[0], x[0] * 0.0}, 1), {0}) + prod(pad(x[0], 1, 1, 4), {1}, true); }},
      {"prod", {{}}, normal, [](In x) { return prod(x[0]); }},
      {"prod(1)", {{3, 0}}, normal, [](In x) { return prod(x[0], {1}); }},
      {"cumprod(0)", {{5, 2}}, normal, [](In x) { return cumprod(x[0], 0); }},
      {"cumprod(-1)", {{2, 7}}, normal, [](In x) { return cumprod(x[0], -1); }},
      {"cumprod(0)", {{}}, normal, [](In x) { return cumprod(x[0], 0); }},
      {"cumprod(1)", {{2, 0}}, normal, [](In x) { return cumprod(x[0], 1); }},
      {"cumprod, one direction", {{3, 2}, {3, 2}}, normal, [](In x) { return products_along(x[0], {x[1]}, 0); }},
      {"cumprod_backward", {{2, 4}, {2, 4}}, normal, [](In x) { return products_backward(x[0], x[1], {}, 1); }},
      {"cumprod_backward, two directions", {{3, 1}, {3, 1}, {3, 1}, {3, 1}}, normal, [](In x) { return products_backward(x[0], x[1], {x[2], x[3]}, 0); }},
      {"cumprod_backward", {{2, 0}, {2, 0}}, normal, [](In x) { return products_backward(x[0], x[1], {}, 1); }},
      {"normalize", {{3, 4}}, normal, [](In x) { return normalize(x[0]); }},
      {"cosine_similarity", {{3, 4}, {3, 4}}, normal, [](In x) { return cosine_similarity(x[0], x[1]); }},
      {"cosine_similarity(0)", {{3, 4}, {3, 1}}, normal, [](In x) { return cosine_similarity(x[0], x[1], 0); }},
      {"pairwise_distance", {{3, 4}, {4}}, normal, [](In x) { return pairwise_distance(x[0], x[1]); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_places(Cases& cases) {
  const Cases lines = {
      {"scatter_add(1)", {{2, 4}, {2, 3}}, normal, [](In x) { return scatter_add(x[0], ids({3, 0, 3, 1, 1, 2}, {2, 3}), x[1], 1); }},
      {"scatter_add(0)", {{3, 2}, {2}}, normal, [](In x) { return scatter_add(x[0], ids({2, 1}), x[1], 0); }},
      {"scatter_add(1)", {{2, 4}, {2, 0}}, normal, [](In x) { return scatter_add(x[0], ids({}, {2, 0}), x[1], 1); }},
      {"index_add(0)", {{3, 2}, {4, 2}}, normal, [](In x) { return index_add(x[0], 0, ids({2, 0, 2, 2}), x[1]); }},
      {"index_add(-1)", {{2, 3, 4}, {2, 3, 2}}, normal, [](In x) { return index_add(x[0], -1, ids({3, 3}), x[1]); }},
      {"index_add(0)", {{3}, {0}}, normal, [](In x) { return index_add(x[0], 0, ids({}), x[1]); }},
      {"embedding_bag", {{4, 3}}, normal, [](In x) { return embedding_bag(x[0], ids({3, 0, 3, 1, 2, 2}, {2, 3})); }},
      {"embedding_bag, mean of 0 and 3", {{4, 3}}, normal, [](In x) { return embedding_bag(x[0], ids({3, 1, 0, 3}), {.offsets = ids({0, 0, 4}), .padding_idx = 1}); }},
      {"embedding_bag, weighted", {{4, 3}, {4}}, normal, [](In x) { return embedding_bag(x[0], ids({3, 1, 3, 3}), {.mode = BagMode::sum, .offsets = ids({0, 3}), .per_sample_weights = x[1]}); }},
      {"embedding_bag, max", {{4, 3}}, spread, [](In x) { return embedding_bag(x[0], ids({3, 1, 0, 2}), {.mode = BagMode::max, .offsets = ids({0, 0, 3})}); }},
      {"embedding_bag, none", {{4, 3}}, normal, [](In x) { return embedding_bag(x[0], ids({}, {2, 0}), {.mode = BagMode::max}); }},
      {"pad(reflect)", {{3, 4}}, normal, [](In x) { return pad(x[0], {3, 1, 0, 2}, PadMode::reflect); }},
      {"pad(replicate), of nothing", {{0, 2}}, normal, [](In x) { return pad(x[0], {1, 1}, PadMode::replicate); }},
      {"masked_select", {{3, 4}}, normal, [](In x) { return masked_select(x[0], Tensor::from<std::uint8_t>({1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1}, {3, 4})); }},
      {"masked_select", {{3, 1}}, normal, [](In x) { return masked_select(x[0], Tensor::from<std::uint8_t>({1, 0, 1}, {3})); }},
      {"masked_select, none", {{3}}, normal, [](In x) { return masked_select(x[0], Tensor::zeros({3}, DType::u8)); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_composed_losses(Cases& cases) {
  const Cases lines = {
      {"l1_loss", {{3, 4}, {3, 4}}, spread, [](In x) { return l1_loss(x[0], x[1]); }},
      {"smooth_l1_loss(0.6)", {{3, 4}, {3, 4}}, normal, [](In x) { return smooth_l1_loss(x[0], x[1], 0.6); }},
      {"huber_loss(0.6)", {{3, 4}, {3, 4}}, normal, [](In x) { return huber_loss(x[0], x[1], 0.6); }},
      {"nll_loss", {{4, 5}}, normal, [](In x) { return nll_loss(x[0], ids({0, 4, 2, 2})); }},
      {"nll_loss(weight, ignore)", {{2, 2, 3}}, normal,
       [](In x) { return nll_loss(x[0], ids({0, -1, 2, 1}, {2, 2}), {.weight = Tensor::from({0.5, 2.0, 1.0}, {3}), .ignore_index = -1}); }},
      {"nll_loss(none)", {{5}}, normal, [](In x) { return nll_loss(x[0], ids({3}, {}), {.reduction = Reduction::none}); }},
      {"hinge_embedding_loss", {{3, 4}}, spread, [](In x) { return hinge_embedding_loss(x[0], signs(x[0], x[0].shape())); }},
      {"margin_ranking_loss(0.3)", {{5}, {5}}, normal, [](In x) { return margin_ranking_loss(x[0], x[1], signs(x[0], x[0].shape()), 0.3); }},
      {"cosine_embedding_loss(0.1)", {{4, 3}, {4, 3}}, normal, [](In x) { return cosine_embedding_loss(x[0], x[1], signs(x[0], x[0].shape().without(-1)), 0.1); }},
      {"triplet_margin_loss", {{4, 3}, {4, 3}, {4, 3}}, normal, [](In x) { return triplet_margin_loss(x[0], x[1], x[2]); }},
      {"triplet_margin_loss(3, swap)", {{4, 3}, {4, 3}, {4, 3}}, normal,
       [](In x) { return triplet_margin_loss(x[0], x[1], x[2], {.margin = 2, .p = 3, .swap = true, .reduction = Reduction::sum}); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

// clang-format on

}  // namespace

void add_composed_cases(Cases& cases) {
  add_activations(cases);
  add_composed_reductions(cases);
  add_places(cases);
  add_composed_losses(cases);
}

}  // namespace tapegrad
