#include "autograd/op_table.h"

#include <cmath>
#include <utility>

#include "autograd/ops.h"

namespace tapegrad {
namespace {

using Case = OpCase;
using Cases = std::vector<OpCase>;
using Ids = std::vector<std::int32_t>;
using In = Inputs;

Tensor ids(const Ids& values, const Shape& shape) { return Tensor::from(values, shape); }
Tensor ids(const Ids& values) { return ids(values, {static_cast<std::int64_t>(values.size())}); }

// A mask that is set at every third element.
Tensor mask(const Shape& shape) {
  Tensor m = Tensor::zeros(shape, DType::u8);
  auto* values = m.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < m.numel(); i += 3) values[i] = 1;
  return m;
}

void add_unary(Cases& cases) {
  const auto each = [&](const std::string& op, Draw draw, std::function<Tensor(const Tensor&)> f) {
    for (const Shape& shape : {Shape{2, 5}, Shape{}, Shape{3, 0}}) {
      cases.push_back({op, {shape}, draw, [f](In x) { return f(x[0]); }});
    }
  };
  each("neg", Draw::normal, neg);
  each("exp", Draw::normal, exp);
  each("log", Draw::positive, log);
  each("sqrt", Draw::positive, sqrt);
  each("tanh", Draw::normal, tanh);
  each("sigmoid", Draw::normal, sigmoid);
  each("erf", Draw::normal, erf);
  each("relu", Draw::spread, relu);
  each("abs", Draw::spread, abs);
  each("clamp(-1, 1)", Draw::spread, [](const Tensor& x) { return clamp(x, -1, 1); });
  each("gelu", Draw::normal, [](const Tensor& x) { return gelu(x); });
  each("gelu(erf)", Draw::normal, [](const Tensor& x) { return gelu(x, Gelu::erf); });
  each("pow(3)", Draw::normal, [](const Tensor& x) { return pow(x, 3); });
  each("pow(-0.5)", Draw::positive, [](const Tensor& x) { return pow(x, -0.5); });
  each("pow(0)", Draw::normal, [](const Tensor& x) { return pow(x, 0); });
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
  each("add", Draw::normal, add);
  each("sub", Draw::normal, sub);
  each("mul", Draw::normal, mul);
  each("div", Draw::positive, div);
  each("pow", Draw::positive, pow);
  each("maximum", Draw::spread, maximum);
  cases.push_back({"mul, twice one", {{3}}, Draw::normal, [](In x) { return x[0] * x[0]; }});
}

void add_choices(Cases& cases) {
  const Cases lines = {
      {"where", {{3, 4}, {3, 4}}, Draw::normal, [](In x) { return where(mask({3, 4}), x[0], x[1]); }},
      {"where", {{4}, {2, 1}}, Draw::normal, [](In x) { return where(mask({2, 1}), x[0], x[1]); }},
      {"masked_fill", {{3, 4}}, Draw::normal, [](In x) { return masked_fill(x[0], mask({4}), 2); }},
      {"max", {{2, 5}}, Draw::spread, [](In x) { return max(x[0]); }},
      {"max(0)", {{4, 3}}, Draw::spread, [](In x) { return max(x[0], 0).values; }},
      {"max(-1, keep)", {{2, 3}}, Draw::spread, [](In x) { return max(x[0], -1, true).values; }},
      {"dropout(0.3)", {{5, 4}}, Draw::normal, [](In x) { Rng r(3); return dropout(x[0], 0.3, r); }},
      {"dropout(0)", {{5}}, Draw::normal, [](In x) { Rng r(3); return dropout(x[0], 0, r); }},
      {"dropout(1)", {{5}}, Draw::normal, [](In x) { Rng r(3); return dropout(x[0], 1, r); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_reductions(Cases& cases) {
  const Cases lines = {
      {"sum", {{3, 4}}, Draw::normal, [](In x) { return sum(x[0]); }},
      {"sum", {{}}, Draw::normal, [](In x) { return sum(x[0]); }},
      {"sum", {{0, 2}}, Draw::normal, [](In x) { return sum(x[0]); }},
      {"sum(0)", {{0, 2}}, Draw::normal, [](In x) { return sum(x[0], {0}); }},
      {"sum(0)", {{2, 0}}, Draw::normal, [](In x) { return sum(x[0], {0}); }},
      {"sum(0, 2)", {{2, 3, 4}}, Draw::normal, [](In x) { return sum(x[0], {0, 2}); }},
      {"sum(1, keep)", {{2, 3, 4}}, Draw::normal, [](In x) { return sum(x[0], {1}, true); }},
      {"mean", {{3, 4}}, Draw::normal, [](In x) { return mean(x[0]); }},
      {"mean(-1)", {{3, 4}}, Draw::normal, [](In x) { return mean(x[0], {-1}); }},
      {"var", {{3, 4}}, Draw::normal, [](In x) { return var(x[0]); }},
      {"var(1, biased)", {{3, 4}}, Draw::normal, [](In x) { return var(x[0], {1}, false); }},
      {"sum_to(3, 1)", {{2, 3, 4}}, Draw::normal, [](In x) { return sum_to(x[0], {3, 1}); }},
      {"sum_to()", {{2, 3}}, Draw::normal, [](In x) { return sum_to(x[0], {}); }},
      {"broadcast_to", {{3, 1}}, Draw::normal, [](In x) { return broadcast_to(x[0], {2, 3, 4}); }},
      {"broadcast_to", {{}}, Draw::normal, [](In x) { return broadcast_to(x[0], {2, 3}); }},
      {"broadcast_to", {{2, 1}}, Draw::normal, [](In x) { return broadcast_to(x[0], {2, 0}); }},
      {"log_sum_exp", {{3, 9}}, Draw::normal, [](In x) { return log_sum_exp(x[0]); }},
      {"log_sum_exp(0)", {{3, 2}}, Draw::normal, [](In x) { return log_sum_exp(x[0], 0, true); }},
      {"softmax", {{3, 9}}, Draw::normal, [](In x) { return softmax(x[0]); }},
      {"softmax(1)", {{2, 3, 2}}, Draw::normal, [](In x) { return softmax(x[0], 1); }},
      {"softmax", {{0, 4}}, Draw::normal, [](In x) { return softmax(x[0]); }},
      {"softmax", {{4, 1}}, Draw::normal, [](In x) { return softmax(x[0]); }},
      {"log_softmax", {{3, 9}}, Draw::normal, [](In x) { return log_softmax(x[0]); }},
      {"log_softmax(0)", {{3, 2}}, Draw::normal, [](In x) { return log_softmax(x[0], 0); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_shapes(Cases& cases) {
  const Cases lines = {
      {"reshape", {{2, 6}}, Draw::normal, [](In x) { return reshape(x[0], {3, -1}); }},
      {"reshape", {{1, 1}}, Draw::normal, [](In x) { return reshape(x[0], {}); }},
      {"transpose", {{2, 3}}, Draw::normal, [](In x) { return transpose(x[0], 0, 1); }},
      {"permute", {{2, 3, 4}}, Draw::normal, [](In x) { return permute(x[0], {2, 0, 1}); }},
      {"permute", {{2, 0, 4}}, Draw::normal, [](In x) { return permute(x[0], {2, 0, 1}); }},
      {"slice", {{4, 3}}, Draw::normal, [](In x) { return slice(x[0], 0, 1, 3); }},
      {"slice", {{2, 5, 2}}, Draw::normal, [](In x) { return slice(x[0], 1, 2, 5); }},
      {"slice, empty", {{2, 5}}, Draw::normal, [](In x) { return slice(x[0], 1, 2, 2); }},
      {"pad", {{2, 3}}, Draw::normal, [](In x) { return pad(x[0], 1, 1, 5); }},
      {"concat(0)", {{2, 3}, {1, 3}, {0, 3}}, Draw::normal,
       [](In x) { return concat({x[0], x[1], x[2]}, 0); }},
      {"concat(1)", {{2, 3}, {2, 1}}, Draw::normal, [](In x) { return concat({x[0], x[1]}, 1); }},
      {"split", {{2, 5}}, Draw::normal,
       [](In x) {
         const auto parts = split(x[0], {1, 4}, 1);
         return parts[0] * parts[1];
       }},
      {"gather_rows", {{5, 3}}, Draw::normal, [](In x) { return gather_rows(x[0], ids({4, 0, 4})); }},
      {"gather_rows", {{5}}, Draw::normal, [](In x) { return gather_rows(x[0], ids({1, 2}, {2, 1})); }},
      {"gather_rows", {{5, 3}}, Draw::normal, [](In x) { return gather_rows(x[0], ids({}, {0})); }},
      {"embedding", {{4, 2}}, Draw::normal,
       [](In x) { return embedding(x[0], ids({1, 3, 1, 1, 0, 3}, {2, 3})); }},
      {"gather(-1)", {{3, 4}}, Draw::normal, [](In x) { return gather(x[0], ids({3, 0, 3}), -1); }},
      {"gather(0)", {{3, 2}}, Draw::normal, [](In x) { return gather(x[0], ids({2, 1}), 0); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_products(Cases& cases) {
  const auto product = [](In x) { return matmul(x[0], x[1]); };
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{3, 4}, {4, 5}},    {{2, 3, 4}, {2, 4, 5}}, {{2, 3, 4}, {4, 5}}, {{3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {5, 4, 2}}, {{4}, {4, 3}},    {{2, 3, 4}, {4}},    {{4}, {4}},
      {{2, 0}, {0, 3}},    {{0, 4}, {4, 2}},       {{0, 2, 3}, {3, 2}}, {{1, 7}, {7, 1}},
  };
  for (const auto& [a, b] : shapes) cases.push_back({"matmul", {a, b}, Draw::normal, product});
  const Cases lines = {
      {"matmul(aᵀ)", {{2, 4, 3}, {4, 5}}, Draw::normal,
       [](In x) { return matmul(x[0], x[1], {.transpose_a = true}); }},
      {"matmul(bᵀ)", {{3, 4}, {2, 5, 4}}, Draw::normal,
       [](In x) { return matmul(x[0], x[1], {.transpose_b = true}); }},
      {"matmul(aᵀ, bᵀ)", {{4, 3}, {5, 4}}, Draw::normal,
       [](In x) { return matmul(x[0], x[1], {.transpose_a = true, .transpose_b = true}); }},
      {"linear", {{3, 4}, {5, 4}, {5}}, Draw::normal,
       [](In x) { return linear(x[0], x[1], x[2]); }},
      {"linear", {{2, 3, 4}, {5, 4}}, Draw::normal, [](In x) { return linear(x[0], x[1]); }},
      {"linear", {{4}, {5, 4}, {5}}, Draw::normal, [](In x) { return linear(x[0], x[1], x[2]); }},
      {"linear", {{0, 4}, {5, 4}, {5}}, Draw::normal,
       [](In x) { return linear(x[0], x[1], x[2]); }},
      {"linear", {{3, 0}, {5, 0}, {5}}, Draw::normal,
       [](In x) { return linear(x[0], x[1], x[2]); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_fused(Cases& cases) {
  const auto attend = [](int n_head, bool causal) {
    return [=](In x) {
      const AttentionOptions options{.causal = causal};
      return x.size() == 1 ? attention(x[0], n_head, options)
                           : attention(x[0], x[1], x[2], n_head, options);
    };
  };
  const Cases lines = {
      {"layer_norm", {{3, 8}}, Draw::normal, [](In x) { return layer_norm(x[0]); }},
      {"layer_norm", {{3, 8}, {8}}, Draw::normal, [](In x) { return layer_norm(x[0], x[1]); }},
      {"layer_norm(bias)", {{3, 8}, {8}}, Draw::normal,
       [](In x) { return layer_norm(x[0], {}, x[1]); }},
      {"layer_norm", {{2, 3, 5}, {5}, {5}}, Draw::normal,
       [](In x) { return layer_norm(x[0], x[1], x[2]); }},
      {"layer_norm", {{0, 5}, {5}, {5}}, Draw::normal,
       [](In x) { return layer_norm(x[0], x[1], x[2]); }},
      {"attention(2, causal)", {{2, 5, 12}}, Draw::normal, attend(2, true)},
      {"attention(1, full)", {{1, 4, 9}}, Draw::normal, attend(1, false)},
      {"attention(2, causal)", {{1, 1, 12}}, Draw::normal, attend(2, true)},
      {"attention(3, causal)", {{2, 3, 6}, {2, 3, 6}, {2, 3, 6}}, Draw::normal, attend(3, true)},
      {"attention(2, full)", {{2, 2, 4}, {2, 5, 4}, {2, 5, 4}}, Draw::normal, attend(2, false)},
      {"attention(2, causal)", {{1, 0, 12}}, Draw::normal, attend(2, true)},
      {"attention(2, dropout)", {{2, 5, 12}}, Draw::normal,
       [](In x) {
         Rng r(3);
         return attention(x[0], 2, {.dropout = 0.4, .rng = &r});
       }},
      {"attention_reference(2)", {{1, 3, 4}, {1, 3, 4}, {1, 3, 4}}, Draw::normal,
       [](In x) { return attention_reference(x[0], x[1], x[2], 2, true); }},
      {"cross_entropy", {{4, 5}}, Draw::normal,
       [](In x) { return cross_entropy(x[0], ids({0, 4, 2, 2})); }},
      {"cross_entropy", {{2, 2, 3}}, Draw::normal,
       [](In x) { return cross_entropy(x[0], ids({0, 1, 1, 2}, {2, 2})); }},
      {"cross_entropy(ignore)", {{4, 5}}, Draw::normal,
       [](In x) { return cross_entropy(x[0], ids({0, -1, 2, -1}), -1); }},
      {"mse_loss", {{3, 4}, {3, 4}}, Draw::normal, [](In x) { return mse_loss(x[0], x[1]); }},
      {"checkpoint", {{3}, {3}}, Draw::normal,
       [](In x) {
         const auto f = [](In y, Rng* r) { return dropout(tanh(y[0] * y[1]), 0.5, *r) * y[0]; };
         Rng rng(5);
         return checkpoint(f, {x[0], x[1]}, &rng);
       }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

Tensor random_like(const Tensor& t, Rng& rng) {
  Tensor r = Tensor::empty(t.shape(), t.dtype());
  rng.normal(std::span(r.mutable_data<double>(), static_cast<std::size_t>(r.numel())), 0, 1);
  return r;
}

// The gradients of all inputs x…, end to end in one tensor, as a function of (x…, dy).
Tensor gradient_of(const OpCase& op_case, Inputs inputs_and_dy) {
  const Inputs inputs = inputs_and_dy.first(inputs_and_dy.size() - 1);
  Tape tape;
  for (const Tensor& x : inputs) tape.watch(x);
  const Grads grads = tape.gradient(op_case.run(inputs), {inputs.begin(), inputs.end()},
                                    {.seeds = {inputs_and_dy.back()}});
  std::vector<Tensor> flat;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    flat.push_back(grads[i].defined() ? reshape(grads[i], {grads[i].numel()})
                                      : Tensor::zeros({inputs[i].numel()}, DType::f64));
  }
  return concat(flat, 0);
}

// Checks f as if it were one op.
std::vector<GradientCheck> check_whole(const std::string& name, const std::vector<Tensor>& inputs,
                                       const std::function<Tensor(Inputs)>& f,
                                       const GradientCheckOptions& options) {
  Tape tape({.checkable = true});
  for (const Tensor& x : inputs) tape.watch(x);
  checkpoint([&](Inputs in, Rng*) { return f(in); }, inputs);
  std::vector<GradientCheck> checks = check_gradients(tape, options);
  for (GradientCheck& check : checks) check.op = name;
  return checks;
}

}  // namespace

std::string OpCase::str() const {
  std::string text = op;
  for (const Shape& shape : shapes) text += (text == op ? " " : ", ") + shape.str();
  return text;
}

std::vector<Tensor> OpCase::inputs(Rng& rng) const {
  std::int64_t total = 0;
  for (const Shape& shape : shapes) total += shape.numel();
  const std::vector<std::int64_t> order = rng.randperm(std::max<std::int64_t>(1, total));
  std::vector<Tensor> tensors;
  std::size_t next = 0;
  for (const Shape& shape : shapes) {
    Tensor x = random_like(Tensor::empty(shape, DType::f64), rng);
    double* values = x.mutable_data<double>();
    for (std::int64_t i = 0; i < x.numel(); ++i, ++next) {
      if (draw == Draw::positive) values[i] = 0.5 + std::abs(values[i]);
      if (draw == Draw::spread) values[i] = 0.25 * static_cast<double>(order[next] - total / 2) + 0.1;
    }
    tensors.push_back(x);
  }
  return tensors;
}

std::span<const OpCase> op_table() {
  static const Cases table = [] {
    Cases cases;
    add_unary(cases);
    add_binary(cases);
    add_choices(cases);
    add_reductions(cases);
    add_shapes(cases);
    add_products(cases);
    add_fused(cases);
    return cases;
  }();
  return table;
}

OpChecks check_op_case(const OpCase& op_case, const GradientCheckOptions& options) {
  Rng rng(options.seed);
  std::vector<Tensor> inputs = op_case.inputs(rng);
  const Tensor dy = random_like(op_case.run(inputs), rng);
  OpChecks checks;
  {
    Tape outer({.checkable = true});
    for (const Tensor& x : inputs) outer.watch(x);
    outer.watch(dy);
    Tape inner({.checkable = true});
    for (const Tensor& x : inputs) inner.watch(x);
    const Tensor y = op_case.run(inputs);
    checks.first = check_gradients(inner, options);
    inner.gradient(y, inputs, {.seeds = {dy}});
    checks.second = check_gradients(outer, options);
    // The outer tape has recorded the steps of the inner one as well.
    checks.second.erase(checks.second.begin(),
                        checks.second.begin() + static_cast<std::ptrdiff_t>(checks.first.size()));
  }
  const auto add = [](std::vector<GradientCheck>& to, const std::vector<GradientCheck>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  add(checks.first, check_whole(op_case.str(), inputs, op_case.run, options));
  inputs.push_back(dy);
  add(checks.second, check_whole("gradient of " + op_case.str(), inputs,
                                 [&](Inputs in) { return gradient_of(op_case, in); }, options));
  return checks;
}

}  // namespace tapegrad
