#include "tapegrad/autograd/check/internal/op_cases.h"

#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/factor_products.h"

namespace tapegrad {
namespace {

using enum Draw;
using Cases = std::vector<OpCase>;
using In = Inputs;

// A mask that is set at every third element.
Tensor mask(const Shape& shape) {
  Tensor m = Tensor::zeros(shape, DType::u8);
  auto* values = m.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < m.numel(); i += 3) values[i] = 1;
  return m;
}

// One line per case, which clang-format would tear apart.
// clang-format off

void add_unary(Cases& cases) {
  const auto each = [&](const std::string& op, Draw draw, std::function<Tensor(const Tensor&)> f) {
    for (const Shape& shape : {Shape{2, 5}, Shape{}, Shape{3, 0}}) {
      cases.push_back({op, {shape}, draw, [f](In x) { return f(x[0]); }});
    }
  };
  each("neg", normal, neg);
  each("clone", normal, [](const Tensor& x) { return x.clone(); });
  each("to(f64)", normal, [](const Tensor& x) { return x.to(DType::f64); });
  each("exp", normal, exp);
  each("expm1", normal, expm1);
  each("log", positive, log);
  each("log1p", positive, log1p);
  each("sin", normal, sin);
  each("cos", normal, cos);
  each("tan(0.3 x)", spread, [](const Tensor& x) { return tan(x * 0.3); });
  each("log2", positive, log2);
  each("round", spread, round);
  each("floor", spread, floor);
  each("ceil", spread, ceil);
  each("trunc", spread, trunc);
  each("sign", spread, sign);
  each("softplus", normal, [](const Tensor& x) { return softplus(x); });
  each("softplus(2)", normal, [](const Tensor& x) { return softplus(x, 2); });
  each("silu", normal, silu);
  each("sqrt", positive, sqrt);
  each("tanh", normal, tanh);
  each("softcap(1.5)", normal, [](const Tensor& x) { return softcap(x, 1.5); });
  each("sigmoid", normal, sigmoid);
  each("erf", normal, erf);
  each("relu", spread, relu);
  each("relu2", spread, relu2);
  each("abs", spread, abs);
  each("clamp(-1, 1)", spread, [](const Tensor& x) { return clamp(x, -1, 1); });
  each("gelu", normal, [](const Tensor& x) { return gelu(x); });
  each("gelu(erf)", normal, [](const Tensor& x) { return gelu(x, Gelu::erf); });
  each("pow(3)", normal, [](const Tensor& x) { return pow(x, 3); });
  each("pow(-0.5)", positive, [](const Tensor& x) { return pow(x, -0.5); });
  each("pow(0)", positive, [](const Tensor& x) { return pow(x, 0); });
}

void add_binary(Cases& cases) {
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const auto each = [&](const std::string& op, Draw draw, Binary f) {
    const auto run = [f](In x) { return f(x[0], x[1]); };
    cases.push_back({op, {{3, 4}, {3, 4}}, draw, run});
    cases.push_back({op, {{3, 4}, {4}}, draw, run});
    cases.push_back({op, {{2, 1, 3}, {4, 1}}, draw, run});
    cases.push_back({op, {{}, {2, 3}}, draw, run});
    cases.push_back({op, {{2, 1, 2, 1}, {2, 1, 3}}, draw, run});
    cases.push_back({op, {{}, {}}, draw, run});
    cases.push_back({op, {{4, 0}, {4, 1}}, draw, run});
  };
  each("add", normal, add);
  each("sub", normal, sub);
  each("mul", normal, mul);
  each("div", positive, div);
  each("pow", positive, pow);
  each("maximum", spread, maximum);
  each("atan2", normal, atan2);
  cases.push_back({"mul, twice one", {{3}}, normal, [](In x) { return x[0] * x[0]; }});
  const auto ratio = [](In x) { return quotient_of_products({x[0], x[1]}, {x[2]}); };
  cases.push_back({"quotient_of_products", {{2, 3}, {2, 3}, {2, 3}}, positive, ratio});
  cases.push_back({"quotient_of_products", {{2, 3}, {3}, {2, 1}}, positive, ratio});
  cases.push_back({"quotient_of_products", {{}, {}, {}}, positive, ratio});
  cases.push_back({"quotient_of_products", {{0, 3}, {3}, {1}}, positive, ratio});
}

void add_choices(Cases& cases) {
  const Cases lines = {
      {"where", {{3, 4}, {3, 4}}, normal, [](In x) { return where(mask({3, 4}), x[0], x[1]); }},
      {"where", {{4}, {2, 1}}, normal, [](In x) { return where(mask({2, 1}), x[0], x[1]); }},
      {"where", {{}, {}}, normal, [](In x) { return where(mask({}), x[0], x[1]); }},
      {"where", {{}, {0, 3}}, normal, [](In x) { return where(mask({3}), x[0], x[1]); }},
      {"masked_fill", {{3, 4}}, normal, [](In x) { return masked_fill(x[0], mask({4}), 2); }},
      {"masked_fill", {{0, 4}}, normal, [](In x) { return masked_fill(x[0], mask({4}), 2); }},
      {"max", {{2, 5}}, spread, [](In x) { return max(x[0]); }},
      {"max", {{}}, spread, [](In x) { return max(x[0]); }},
      {"max(0)", {{3, 0}}, spread, [](In x) { return max(x[0], 0).values; }},
      {"max(0)", {{4, 3}}, spread, [](In x) { return max(x[0], 0).values; }},
      {"max(-1, keep)", {{2, 3}}, spread, [](In x) { return max(x[0], -1, true).values; }},
      {"dropout(0.3)", {{5, 4}}, normal, [](In x) { Rng r(3); return dropout(x[0], 0.3, r); }},
      {"dropout(0)", {{5}}, normal, [](In x) { Rng r(3); return dropout(x[0], 0, r); }},
      {"dropout(1)", {{5}}, normal, [](In x) { Rng r(3); return dropout(x[0], 1, r); }},
      {"dropout(0.3)", {{}}, normal, [](In x) { Rng r(3); return dropout(x[0], 0.3, r); }},
      {"dropout(0.3)", {{0, 4}}, normal, [](In x) { Rng r(3); return dropout(x[0], 0.3, r); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_reductions(Cases& cases) {
  const Cases lines = {
      {"sum", {{3, 4}}, normal, [](In x) { return sum(x[0]); }},
      {"sum", {{}}, normal, [](In x) { return sum(x[0]); }},
      {"sum", {{0, 2}}, normal, [](In x) { return sum(x[0]); }},
      {"sum(0)", {{0, 2}}, normal, [](In x) { return sum(x[0], {0}); }},
      {"sum(0)", {{2, 0}}, normal, [](In x) { return sum(x[0], {0}); }},
      {"sum(0, 2)", {{2, 3, 4}}, normal, [](In x) { return sum(x[0], {0, 2}); }},
      {"sum(1, keep)", {{2, 3, 4}}, normal, [](In x) { return sum(x[0], {1}, true); }},
      {"mean", {{3, 4}}, normal, [](In x) { return mean(x[0]); }},
      {"mean(-1)", {{3, 4}}, normal, [](In x) { return mean(x[0], {-1}); }},
      {"mean", {{}}, normal, [](In x) { return mean(x[0]); }},
      {"mean(-1)", {{0, 4}}, normal, [](In x) { return mean(x[0], {-1}); }},
      {"var", {{3, 4}}, normal, [](In x) { return var(x[0]); }},
      {"var(1, biased)", {{3, 4}}, normal, [](In x) { return var(x[0], {1}, false); }},
      {"var(biased)", {{}}, normal, [](In x) { return var(x[0], {}, false); }},
      {"var(1)", {{0, 4}}, normal, [](In x) { return var(x[0], {1}); }},
      {"sum_to(3, 1)", {{2, 3, 4}}, normal, [](In x) { return sum_to(x[0], {3, 1}); }},
      {"sum_to()", {{2, 3}}, normal, [](In x) { return sum_to(x[0], {}); }},
      {"broadcast_to", {{3, 1}}, normal, [](In x) { return broadcast_to(x[0], {2, 3, 4}); }},
      {"broadcast_to", {{}}, normal, [](In x) { return broadcast_to(x[0], {2, 3}); }},
      {"broadcast_to", {{2, 1}}, normal, [](In x) { return broadcast_to(x[0], {2, 0}); }},
      {"log_sum_exp", {{3, 9}}, normal, [](In x) { return log_sum_exp(x[0]); }},
      {"log_sum_exp(0)", {{3, 2}}, normal, [](In x) { return log_sum_exp(x[0], 0, true); }},
      {"log_sum_exp", {{0, 4}}, normal, [](In x) { return log_sum_exp(x[0]); }},
      {"softmax", {{3, 9}}, normal, [](In x) { return softmax(x[0]); }},
      {"softmax(1)", {{2, 3, 2}}, normal, [](In x) { return softmax(x[0], 1); }},
      {"softmax", {{0, 4}}, normal, [](In x) { return softmax(x[0]); }},
      {"softmax", {{4, 1}}, normal, [](In x) { return softmax(x[0]); }},
      {"log_softmax", {{3, 9}}, normal, [](In x) { return log_softmax(x[0]); }},
      {"log_softmax(0)", {{3, 2}}, normal, [](In x) { return log_softmax(x[0], 0); }},
      {"log_softmax", {{0, 4}}, normal, [](In x) { return log_softmax(x[0]); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_orders(Cases& cases) {
  const Cases lines = {
      {"cumsum(0)", {{5}}, normal, [](In x) { return cumsum(x[0], 0); }},
      {"cumsum(0)", {{4, 3}}, normal, [](In x) { return cumsum(x[0], 0); }},
      {"cumsum(-1)", {{2, 3, 4}}, normal, [](In x) { return cumsum(x[0], -1); }},
      {"cumsum(0)", {{}}, normal, [](In x) { return cumsum(x[0], 0); }},
      {"cumsum(1)", {{2, 0}}, normal, [](In x) { return cumsum(x[0], 1); }},
      {"sort", {{2, 7}}, spread, [](In x) { return sort(x[0]).values; }},
      {"sort(0, descending)", {{5, 3}}, spread, [](In x) { return sort(x[0], 0, true).values; }},
      {"sort", {{}}, spread, [](In x) { return sort(x[0]).values; }},
      {"topk(3)", {{2, 7}}, spread, [](In x) { return topk(x[0], 3).values; }},
      {"topk(2, 0, smallest)", {{5, 3}}, spread,
       [](In x) { return topk(x[0], 2, 0, false).values; }},
      {"min", {{3, 4}}, spread, [](In x) { return min(x[0]); }},
      {"min(1)", {{3, 4}}, spread, [](In x) { return min(x[0], 1).values; }},
      {"topk(0)", {{2, 3}}, spread, [](In x) { return topk(x[0], 0).values; }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_shapes(Cases& cases) {
  const Cases lines = {
      {"reshape", {{2, 6}}, normal, [](In x) { return reshape(x[0], {3, -1}); }},
      {"reshape", {{1, 1}}, normal, [](In x) { return reshape(x[0], {}); }},
      {"view", {{2, 6}}, normal, [](In x) { return x[0].view({3, -1}); }},
      {"rows", {{4, 3}}, normal, [](In x) { return x[0].rows(1, 3); }},
      {"rows", {{2, 0}}, normal, [](In x) { return x[0].rows(1, 2); }},
      {"transpose", {{2, 3}}, normal, [](In x) { return transpose(x[0], 0, 1); }},
      {"permute", {{2, 3, 4}}, normal, [](In x) { return permute(x[0], {2, 0, 1}); }},
      {"permute", {{2, 0, 4}}, normal, [](In x) { return permute(x[0], {2, 0, 1}); }},
      {"slice", {{4, 3}}, normal, [](In x) { return slice(x[0], 0, 1, 3); }},
      {"slice", {{2, 5, 2}}, normal, [](In x) { return slice(x[0], 1, 2, 5); }},
      {"slice, empty", {{2, 5}}, normal, [](In x) { return slice(x[0], 1, 2, 2); }},
      {"slice", {{0, 5}}, normal, [](In x) { return slice(x[0], 1, 2, 4); }},
      {"pad", {{2, 3}}, normal, [](In x) { return pad(x[0], 1, 1, 5); }},
      {"concat(0)", {{2, 3}, {1, 3}, {0, 3}}, normal,
       [](In x) { return concat({x[0], x[1], x[2]}, 0); }},
      {"concat(1)", {{2, 3}, {2, 1}}, normal, [](In x) { return concat({x[0], x[1]}, 1); }},
      {"split", {{2, 5}}, normal,
       [](In x) {
         const auto parts = split(x[0], {1, 4}, 1);
         return parts[0] * parts[1];
       }},
      {"gather_rows", {{5, 3}}, normal, [](In x) { return gather_rows(x[0], ids({4, 0, 4})); }},
      {"gather_rows", {{5}}, normal, [](In x) { return gather_rows(x[0], ids({1, 2}, {2, 1})); }},
      {"gather_rows, empty", {{5, 3}}, normal,
       [](In x) { return gather_rows(x[0], ids({}, {0})); }},
      {"gather_rows", {{2, 0}}, normal, [](In x) { return gather_rows(x[0], ids({1, 0, 1})); }},
      {"embedding", {{4, 2}}, normal,
       [](In x) { return embedding(x[0], ids({1, 3, 1, 1, 0, 3}, {2, 3})); }},
      {"gather(-1)", {{3, 4}}, normal, [](In x) { return gather(x[0], ids({3, 0, 3}), -1); }},
      {"gather(0)", {{3, 2}}, normal, [](In x) { return gather(x[0], ids({2, 1}), 0); }},
      {"gather(-1)", {{0, 4}}, normal, [](In x) { return gather(x[0], ids({}, {0}), -1); }},
      {"gather(1), two of four", {{2, 4}}, normal,
       [](In x) { return gather(x[0], ids({3, 3, 0, 2}, {2, 2}), 1); }},
      {"slice(-4, -1)", {{2, 5}}, normal, [](In x) { return slice(x[0], 1, -4, -1); }},
      {"index_select(1)", {{2, 3, 2}}, normal,
       [](In x) { return index_select(x[0], 1, ids({2, 0, 2})); }},
      {"stack(1)", {{2, 3}, {2, 3}}, normal, [](In x) { return stack({x[0], x[1]}, 1); }},
      {"repeat", {{2, 3}}, normal, [](In x) { return repeat(x[0], {2, 1, 3}); }},
      {"flip", {{2, 3}}, normal, [](In x) { return flip(x[0], -1); }},
      {"roll", {{2, 5}}, normal, [](In x) { return roll(x[0], 2, 1); }},
      {"tril", {{2, 3, 3}}, normal, [](In x) { return tril(x[0], -1); }},
      {"triu", {{3, 4}}, normal, [](In x) { return triu(x[0], 1); }},
      {"select(1, -2)", {{2, 3, 2}}, normal, [](In x) { return select(x[0], 1, -2); }},
      {"select(0, 1)", {{2}}, normal, [](In x) { return select(x[0], 0, 1); }},
      {"index", {{3, 4, 2}}, normal,
       [](In x) { return index(x[0], {ids({2, 0, 2}), ids({1, -1, 1})}); }},
      {"index", {{3, 2}}, normal,
       [](In x) { return index(x[0], {ids({2, 0}, {2, 1}), ids({1, 0, 1})}); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_fused(Cases& cases) {
  const Cases lines = {
      {"layer_norm", {{3, 8}}, normal, [](In x) { return layer_norm(x[0]); }},
      {"layer_norm", {{3, 8}, {8}}, normal, [](In x) { return layer_norm(x[0], x[1]); }},
      {"layer_norm(bias)", {{3, 8}, {8}}, normal, [](In x) { return layer_norm(x[0], {}, x[1]); }},
      {"layer_norm", {{2, 3, 5}, {5}, {5}}, normal,
       [](In x) { return layer_norm(x[0], x[1], x[2]); }},
      {"layer_norm(unbiased)", {{3, 8}, {8}, {8}}, normal,
       [](In x) { return layer_norm(x[0], x[1], x[2], {.unbiased = true}); }},
      {"layer_norm(unbiased, eps outside)", {{3, 8}, {8}, {8}}, normal,
       [](In x) {
         return layer_norm(x[0], x[1], x[2], {.eps = 0.1, .unbiased = true, .eps_outside = true});
       }},
      {"layer_norm", {{0, 5}, {5}, {5}}, normal, [](In x) { return layer_norm(x[0], x[1], x[2]); }},
      {"rms_norm", {{3, 8}}, normal, [](In x) { return rms_norm(x[0]); }},
      {"rms_norm", {{2, 3, 5}, {5}}, normal, [](In x) { return rms_norm(x[0], x[1]); }},
      {"rms_norm(eps 0.1)", {{4, 1}, {1}}, normal, [](In x) { return rms_norm(x[0], x[1], 0.1); }},
      {"rms_norm", {{0, 5}, {5}}, normal, [](In x) { return rms_norm(x[0], x[1]); }},
      {"swiglu", {{3, 5}, {3, 5}}, normal, [](In x) { return swiglu(x[0], x[1]); }},
      {"swiglu", {{}, {}}, normal, [](In x) { return swiglu(x[0], x[1]); }},
      {"swiglu", {{3, 0}, {3, 0}}, normal, [](In x) { return swiglu(x[0], x[1]); }},
      {"swiglu, one as both", {{4}}, normal, [](In x) { return swiglu(x[0], x[0]); }},
      {"clamped_swiglu", {{3, 5}, {3, 5}}, normal, [](In x) { return clamped_swiglu(x[0], x[1]); }},
      {"clamped_swiglu(alpha 0.8, limit 0.6)", {{4, 6}, {4, 6}}, normal,
       [](In x) { return clamped_swiglu(x[0], x[1], {.alpha = 0.8, .limit = 0.6}); }},
      {"clamped_swiglu", {{3, 0}, {3, 0}}, normal, [](In x) { return clamped_swiglu(x[0], x[1]); }},
      {"checkpoint, one tensor twice", {{3}}, normal,
       [](In x) {
         return checkpoint([](In y, Rng*) { return y[0] * y[1] * y[1]; }, {x[0], x[0]});
       }},
      {"checkpoint", {{}, {0, 2}}, normal,
       [](In x) { return checkpoint([](In y, Rng*) { return y[0] * y[1]; }, {x[0], x[1]}); }},
      {"checkpoint", {{3}, {3}}, normal,
       [](In x) {
         const auto f = [](In y, Rng* r) { return dropout(tanh(y[0] * y[1]), 0.5, *r) * y[0]; };
         Rng rng(5);
         return checkpoint(f, {x[0], x[1]}, &rng);
       }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

// clang-format on

}  // namespace

std::span<const OpCase> op_table() {
  static const Cases table = [] {
    Cases cases;
    add_unary(cases);
    add_binary(cases);
    add_choices(cases);
    add_reductions(cases);
    add_orders(cases);
    add_shapes(cases);
    add_product_cases(cases);
    add_loss_cases(cases);
    add_composed_cases(cases);
    add_fused(cases);
    add_attention_cases(cases);
    add_image_cases(cases);
    add_recurrent_cases(cases);
    return cases;
  }();
  return table;
}

}  // namespace tapegrad
