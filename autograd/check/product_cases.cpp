#include <utility>

#include "tapegrad/autograd/check/internal/op_cases.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/expert_ops.h"
#include "tapegrad/autograd/ops/head_ops.h"
#include "tapegrad/autograd/quantized/internal/quantized_products.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"

namespace tapegrad {
namespace {

using enum Draw;
using Cases = std::vector<OpCase>;
using In = Inputs;

// One line per case, which clang-format would tear apart.
// clang-format off

void add_products(Cases& cases) {
  const auto product = [](In x) { return matmul(x[0], x[1]); };
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{3, 4}, {4, 5}},    {{2, 3, 4}, {2, 4, 5}}, {{2, 3, 4}, {4, 5}}, {{3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {5, 4, 2}}, {{4}, {4, 3}},    {{2, 3, 4}, {4}},    {{4}, {4}},
      {{2, 0}, {0, 3}},    {{0, 4}, {4, 2}},       {{0, 2, 3}, {3, 2}}, {{1, 7}, {7, 1}},
  };
  for (const auto& [a, b] : shapes) cases.push_back({"matmul", {a, b}, normal, product});
  const Cases lines = {
      {"matmul(aᵀ)", {{2, 4, 3}, {4, 5}}, normal,
       [](In x) { return matmul(x[0], x[1], {.transpose_a = true}); }},
      {"matmul(bᵀ)", {{3, 4}, {2, 5, 4}}, normal,
       [](In x) { return matmul(x[0], x[1], {.transpose_b = true}); }},
      {"matmul(aᵀ, bᵀ)", {{4, 3}, {5, 4}}, normal,
       [](In x) { return matmul(x[0], x[1], {.transpose_a = true, .transpose_b = true}); }},
      {"linear", {{3, 4}, {5, 4}, {5}}, normal, [](In x) { return linear(x[0], x[1], x[2]); }},
      {"linear", {{2, 3, 4}, {5, 4}}, normal, [](In x) { return linear(x[0], x[1]); }},
      {"linear", {{4}, {5, 4}, {5}}, normal, [](In x) { return linear(x[0], x[1], x[2]); }},
      {"linear", {{0, 4}, {5, 4}, {5}}, normal, [](In x) { return linear(x[0], x[1], x[2]); }},
      {"linear", {{3, 0}, {5, 0}, {5}}, normal, [](In x) { return linear(x[0], x[1], x[2]); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

// Experts with many rows, with one and with none.
void add_grouped(Cases& cases) {
  const auto each = [&](const std::vector<Shape>& shapes, const std::vector<std::int32_t>& ends) {
    cases.push_back({"grouped_linear", shapes, normal,
                     [=](In x) { return grouped_linear(x[0], x[1], ids(ends)); }});
  };
  each({{5, 3}, {4, 2, 3}}, {3, 3, 4, 5});
  each({{3, 2}, {2, 4, 2}}, {0, 3});
  each({{2, 1}, {1, 1, 1}}, {2});
  each({{0, 3}, {2, 2, 3}}, {0, 0});
  each({{2, 0}, {2, 3, 0}}, {1, 2});
}

// A product with a matrix of f32, packed: of x in f64, so that it is exact.
void add_packed(Cases& cases) {
  const auto weight = [](std::int64_t out, std::int64_t in) {
    Rng rng(1);
    const StoredTensor numbers(Tensor::randn({out, in}, rng), "W");
    return std::make_shared<const QuantizedMatrix>(numbers, stored_type(DType::f32));
  };
  const auto w = weight(5, 4), v = weight(2, 4);
  const Cases lines = {
      {"quantized_linear", {{2, 3, 4}, {5}}, normal, [=](In x) { return linear(x[0], w, x[1]); }},
      {"quantized_linear", {{0, 4}}, normal, [=](In x) { return linear(x[0], w); }},
      {"quantized_linear(two)", {{3, 4}, {5}}, normal,
       [=](In x) {
         const std::vector<WeightAndBias> two = {{w, x[1]}, {v}};
         return concat(quantized::products(x[0], two), 1);
       }},
      {"linear_log_probs, packed", {{0, 4}}, normal,
       [=](In x) { return linear_log_probs(x[0], w, Tensor::zeros({0}, DType::i32)); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
  const auto teacher_of = [](const Tensor& x) {
    return Teacher{.logits = [dtype = x.dtype()](std::int64_t first, std::int64_t n) {
      const auto begin = static_cast<double>(first), count = static_cast<double>(n * 5);
      return reshape(cos(Tensor::arange(begin, begin + count, 1, dtype)), {n, 5});
    }};
  };
  const Tensor targets = Tensor::from<std::int32_t>({1, 4, -100, 0, 3, 3}, {2, 3});
  for (const double cap : {0.0, 2.0}) {
    const std::string how = cap == 0 ? ", packed" : "(capped), packed";
    cases.push_back({"linear_cross_entropy" + how, {{2, 3, 4}}, normal, [=](In x) {
                       return linear_cross_entropy(x[0], w, targets, -100, cap);
                     }});
    cases.push_back({"linear_log_probs" + how, {{2, 3, 4}}, normal, [=](In x) {
                       return linear_log_probs(x[0], w, targets, -100, cap);
                     }});
    cases.push_back({"linear_distillation" + how, {{2, 3, 4}}, normal, [=](In x) {
                       return linear_distillation(x[0], w, targets, teacher_of(x[0]), -100, cap);
                     }});
  }
}

void add_einsums(Cases& cases) {
  const auto each = [&](const std::string& equation, const std::vector<Shape>& shapes) {
    cases.push_back({"einsum(" + equation + ")", shapes, normal,
                     [=](In x) { return einsum(equation, {x.begin(), x.end()}); }});
  };
  each("ij->ji", {{2, 3}});
  each("ij->", {{2, 3}});
  each("ii->i", {{3, 3}});
  each("iji", {{2, 3, 2}});
  each("...i->...", {{2, 3, 2}});
  each("i,i", {{3}, {3}});
  each("i,j->ji", {{2}, {3}});
  each("ij,ij->ij", {{2, 3}, {2, 3}});
  each("bij,bjk->bik", {{2, 3, 4}, {2, 4, 2}});
  each("bhid,bhjd->bhij", {{2, 2, 3, 2}, {2, 2, 4, 2}});
  each("ij,ik,jk->i", {{2, 3}, {2, 4}, {3, 4}});
  each("...ij,jk", {{2, 2, 3}, {3, 2}});
  each("ij,kj->k", {{2, 3}, {4, 3}});
  each("bij,bj->ib", {{1, 3, 2}, {4, 2}});
  each(",i->i", {{}, {3}});
  each("ij,jk->ik", {{2, 0}, {0, 3}});
}

void add_convolutions(Cases& cases) {
  const auto each = [&](const std::string& name, const std::vector<Shape>& shapes,
                        const Conv1dOptions& options = {}) {
    cases.push_back({"conv1d" + name, shapes, normal, [=](In x) {
                       return conv1d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), options);
                     }});
  };
  each("", {{2, 3, 7}, {4, 3, 3}, {4}});
  each("", {{3, 5}, {2, 3, 2}});
  each("(stride 2, padding 1)", {{2, 2, 6}, {3, 2, 3}, {3}}, {.stride = 2, .padding = 1});
  each("(padding 2, dilation 2, groups 2)", {{2, 4, 5}, {4, 2, 3}, {4}},
       {.padding = 2, .dilation = 2, .groups = 2});
  each("(stride 3, padding 4)", {{1, 1, 2}, {1, 1, 3}}, {.stride = 3, .padding = 4});
  each("(stride 4)", {{2, 1, 7}, {1, 1, 2}}, {.stride = 4});
  each("", {{0, 3, 7}, {4, 3, 3}, {4}});
}

// Fewer positions than taps, more, and documents side by side.
void add_causal_convolutions(Cases& cases) {
  const auto each = [&](const std::string& name, const std::vector<Shape>& shapes, const Tensor& starts = {}) {
    cases.push_back({"causal_conv1d" + name, shapes, normal, [=](In x) {
                       return causal_conv1d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), starts);
                     }});
  };
  each("", {{2, 5, 3}, {3, 1, 3}, {3}});
  each("", {{1, 2, 2}, {2, 1, 4}});
  each("", {{2, 3, 1}, {1, 1, 1}});
  each("(documents)", {{2, 5, 2}, {2, 1, 3}, {2}}, ids({0, 0, 2, 2, 4, 0, 1, 1, 1, 1}, {2, 5}));
  each("", {{0, 5, 3}, {3, 1, 3}});
  each("", {{2, 0, 3}, {3, 1, 2}});
}

// clang-format on

}  // namespace

void add_product_cases(Cases& cases) {
  add_products(cases);
  add_grouped(cases);
  add_packed(cases);
  add_einsums(cases);
  add_convolutions(cases);
  add_causal_convolutions(cases);
}

}  // namespace tapegrad
