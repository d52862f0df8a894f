#pragma once

// The table of test_tracked_arguments.cpp.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/autograd/cached_attention.h"
#include "tapegrad/autograd/derivatives.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/autograd/ops/expert_ops.h"
#include "tapegrad/autograd/ops/head_ops.h"
#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/autograd/state_pieces.h"
#include "tapegrad/tests/autograd/support.h"

namespace tapegrad::testing {

// A call of a public function with all its tensors of floats, for test_tracked_arguments.cpp. Of
// each argument by itself, a tape finds a way to the result; of those in `refused`, an Error.
struct TrackedCall {
  std::string function;
  std::vector<std::string> arguments;  // as the header names them; "Options.field" of options
  std::vector<Shape> shapes;           // of each, or of all if there is one
  std::function<Tensor(Inputs)> run;
  std::vector<std::string> refused = {};
};
namespace tracked {

using Calls = std::vector<TrackedCall>;
using In = Inputs;

inline const Shape m{3, 4}, row{4}, square{4, 4};

inline Tensor three_ids() { return ids({0, 1, 2}); }

// One line per function, which clang-format would tear apart.
// clang-format off

inline void add_of_one(Calls& calls) {
  const auto each = [&](const char* name, std::function<Tensor(const Tensor&)> f) {
    calls.push_back({name, {"x"}, {m}, [f](In x) { return f(x[0]); }});
  };
  each("neg", neg), each("exp", exp), each("expm1", expm1), each("log", log), each("log1p", log1p);
  each("log2", log2), each("sin", sin), each("cos", cos), each("tan", tan), each("sqrt", sqrt);
  each("tanh", tanh), each("sigmoid", sigmoid), each("erf", erf), each("relu", relu), each("abs", abs);
  each("relu2", relu2), each("silu", silu), each("mish", mish), each("hardswish", hardswish), each("hardsigmoid", hardsigmoid);
  each("round", round), each("floor", floor), each("ceil", ceil), each("trunc", trunc), each("sign", sign);
  each("operator-", [](const Tensor& x) { return -x; });
  each("clamp", [](const Tensor& x) { return clamp(x, 0, 1); });
  each("softcap", [](const Tensor& x) { return softcap(x, 0); });
  each("softplus", [](const Tensor& x) { return softplus(x); });
  each("gelu", [](const Tensor& x) { return gelu(x); });
  each("leaky_relu", [](const Tensor& x) { return leaky_relu(x); });
  each("elu", [](const Tensor& x) { return elu(x); });
  each("hardtanh", [](const Tensor& x) { return hardtanh(x); });
  each("normalize", [](const Tensor& x) { return normalize(x); });
  each("sum", [](const Tensor& x) { return sum(x); });
  each("mean", [](const Tensor& x) { return mean(x); });
  each("var", [](const Tensor& x) { return var(x); });
  each("stddev", [](const Tensor& x) { return stddev(x); });
  each("norm", [](const Tensor& x) { return norm(x); });
  each("prod", [](const Tensor& x) { return prod(x); });
  each("max", [](const Tensor& x) { return max(x); });
  each("max", [](const Tensor& x) { return max(x, 0).values; });
  each("min", [](const Tensor& x) { return min(x); });
  each("min", [](const Tensor& x) { return min(x, 0).values; });
  each("cumsum", [](const Tensor& x) { return cumsum(x, 0); });
  each("cumprod", [](const Tensor& x) { return cumprod(x, 0); });
  each("sort", [](const Tensor& x) { return sort(x).values; });
  each("topk", [](const Tensor& x) { return topk(x, 2).values; });
  each("sum_to", [](const Tensor& x) { return sum_to(x, m); });
  each("broadcast_to", [](const Tensor& x) { return broadcast_to(x, m); });
  each("softmax", [](const Tensor& x) { return softmax(x); });
  each("log_softmax", [](const Tensor& x) { return log_softmax(x); });
  each("log_sum_exp", [](const Tensor& x) { return log_sum_exp(x); });
  each("dropout", [](const Tensor& x) { Rng rng(1); return dropout(x, 1, rng); });
  each("rope", [](const Tensor& x) { return rope(x, 2); });
  each("reshape", [](const Tensor& x) { return reshape(x, m); });
  each("transpose", [](const Tensor& x) { return transpose(x, 0, 0); });
  each("permute", [](const Tensor& x) { return permute(x, {0, 1}); });
  each("slice", [](const Tensor& x) { return slice(x, 0, 0, 3); });
  each("pad", [](const Tensor& x) { return pad(x, 0, 0, 3); });
  each("split", [](const Tensor& x) { return split(x, {3}, 0)[0]; });
  each("select", [](const Tensor& x) { return select(x, 0, 0); });
  each("unsqueeze", [](const Tensor& x) { return unsqueeze(x, 0); });
  each("squeeze", [](const Tensor& x) { return squeeze(x); });
  each("flatten", [](const Tensor& x) { return flatten(x); });
  each("chunk", [](const Tensor& x) { return chunk(x, 1)[0]; });
  each("repeat", [](const Tensor& x) { return repeat(x, {1, 1}); });
  each("flip", [](const Tensor& x) { return flip(x, 0); });
  each("roll", [](const Tensor& x) { return roll(x, 0, 0); });
  each("tril", [](const Tensor& x) { return tril(x); });
  each("triu", [](const Tensor& x) { return triu(x); });
  each("index", [](const Tensor& x) { return index(x, {three_ids()}); });
  each("gather_rows", [](const Tensor& x) { return gather_rows(x, three_ids()); });
  each("gather", [](const Tensor& x) { return gather(x, three_ids(), 1); });
  each("index_select", [](const Tensor& x) { return index_select(x, 0, three_ids()); });
  each("masked_select", [](const Tensor& x) { return masked_select(x, x < 0.0); });
  each("masked_fill", [](const Tensor& x) { return masked_fill(x, x < 0.0, 0); });
  const auto member = [&](const char* name, std::function<Tensor(const Tensor&)> f) {
    calls.push_back({name, {"*this"}, {m}, [f](In x) { return f(x[0]); }});
  };
  member("Tensor::clone", [](const Tensor& x) { return x.clone(); });
  member("Tensor::to", [](const Tensor& x) { return x.to(DType::f64); });
  member("Tensor::view", [](const Tensor& x) { return x.view(m); });
  member("Tensor::rows", [](const Tensor& x) { return x.rows(0, 3); });
  member("Tensor::operator[]", [](const Tensor& x) { return x[{all}]; });
}

inline void add_of_images(Calls& calls) {
  const auto each = [&](const char* name, Shape shape, std::function<Tensor(const Tensor&)> f) {
    calls.push_back({name, {"x"}, {shape}, [f](In x) { return f(x[0]); }});
  };
  const Shape image{1, 2, 4, 4};
  each("max_pool2d", image, [](const Tensor& x) { return max_pool2d(x, 2); });
  each("avg_pool2d", image, [](const Tensor& x) { return avg_pool2d(x, 2); });
  each("adaptive_avg_pool2d", image, [](const Tensor& x) { return adaptive_avg_pool2d(x, 2); });
  each("adaptive_max_pool2d", image, [](const Tensor& x) { return adaptive_max_pool2d(x, 2); });
  each("upsample", image, [](const Tensor& x) { return upsample(x, 8); });
  each("upsample_by", image, [](const Tensor& x) { return upsample_by(x, 2); });
  each("max_pool1d", {1, 2, 4}, [](const Tensor& x) { return max_pool1d(x, 2); });
  each("avg_pool1d", {1, 2, 4}, [](const Tensor& x) { return avg_pool1d(x, 2); });
  each("adaptive_max_pool1d", {1, 2, 4}, [](const Tensor& x) { return adaptive_max_pool1d(x, 2); });
  calls.push_back({"affine_grid", {"theta"}, {{1, 2, 3}}, [](In x) { return affine_grid(x[0], 4); }});
  calls.push_back({"grid_sample", {"x", "grid"}, {image, {1, 3, 3, 2}}, [](In x) { return grid_sample(x[0], x[1]); }});
  const std::vector<std::string> with_weights = {"x", "weight", "bias"};
  const Calls lines = {
      {"conv1d", with_weights, {{1, 2, 4}, {2, 2, 3}, {2}}, [](In x) { return conv1d(x[0], x[1], x[2]); }},
      {"causal_conv1d", with_weights, {{1, 4, 2}, {2, 1, 3}, {2}}, [](In x) { return causal_conv1d(x[0], x[1], x[2]); }},
      {"conv2d", with_weights, {image, {2, 2, 3, 3}, {2}}, [](In x) { return conv2d(x[0], x[1], x[2]); }},
      {"conv_transpose1d", with_weights, {{1, 2, 4}, {2, 2, 3}, {2}}, [](In x) { return conv_transpose1d(x[0], x[1], x[2]); }},
      {"conv_transpose2d", with_weights, {image, {2, 2, 3, 3}, {2}}, [](In x) { return conv_transpose2d(x[0], x[1], x[2]); }},
      {"batch_norm", with_weights, {image, {2}, {2}}, [](In x) { return batch_norm(x[0], x[1], x[2]).y; }},
      {"batch_norm_with", {"x", "mean", "var", "weight", "bias"}, {image, {2}, {2}, {2}, {2}},
       [](In x) { return batch_norm_with(x[0], x[1], x[2], x[3], x[4]); }, {"mean", "var"}},
      {"group_norm", with_weights, {image, {2}, {2}}, [](In x) { return group_norm(x[0], 2, x[1], x[2]); }},
      {"layer_norm", with_weights, {m, row, row}, [](In x) { return layer_norm(x[0], x[1], x[2]); }},
      {"rms_norm", {"x", "weight"}, {m, row}, [](In x) { return rms_norm(x[0], x[1]); }},
      {"linear", with_weights, {m, square, row}, [](In x) { return linear(x[0], x[1], x[2]); }},
  };
  calls.insert(calls.end(), lines.begin(), lines.end());
}

inline void add_of_two(Calls& calls) {
  const auto each = [&](const char* name, Tensor (*f)(const Tensor&, const Tensor&),
                        std::vector<std::string> names = {"a", "b"}) {
    calls.push_back({name, std::move(names), {m}, [f](In x) { return f(x[0], x[1]); }});
  };
  each("add", add), each("sub", sub), each("mul", mul), each("div", div), each("pow", pow);
  each("maximum", maximum), each("minimum", minimum), each("swiglu", swiglu, {"gate", "up"});
  each("clamped_swiglu", [](const Tensor& g, const Tensor& u) { return clamped_swiglu(g, u); }, {"gate", "up"});
  each("atan2", atan2, {"y", "x"});
  each("operator+", operator+), each("operator-", operator-), each("operator*", operator*), each("operator/", operator/);
  const std::vector<std::string> a_b = {"a", "b"}, x_target = {"x", "target"};
  const Calls lines = {
      {"where", a_b, {m}, [](In x) { return where(x[0] > 0.0, x[0], x[1]); }},
      {"matmul", a_b, {square}, [](In x) { return matmul(x[0], x[1]); }},
      {"cosine_similarity", a_b, {m}, [](In x) { return cosine_similarity(x[0], x[1]); }},
      {"pairwise_distance", a_b, {m}, [](In x) { return pairwise_distance(x[0], x[1]); }},
      {"einsum", {"operands"}, {m}, [](In x) { return einsum("ij->ij", {x[0]}); }},
      {"concat", {"parts"}, {m}, [](In x) { return concat({x[0]}, 0); }},
      {"stack", {"parts"}, {m}, [](In x) { return stack({x[0]}); }},
      {"scatter_add", {"x", "source"}, {m}, [](In x) { return scatter_add(x[0], Tensor::zeros(m, DType::i32), x[1], 0); }},
      {"index_add", {"x", "source"}, {m}, [](In x) { return index_add(x[0], 0, three_ids(), x[1]); }},
      {"checkpoint", {"inputs"}, {m}, [](In x) { return checkpoint([](In in, Rng*) { return in[0] * 2.0; }, {x[0]}); }},
      {"mse_loss", x_target, {m}, [](In x) { return mse_loss(x[0], x[1]); }},
      {"l1_loss", x_target, {m}, [](In x) { return l1_loss(x[0], x[1]); }},
      {"smooth_l1_loss", x_target, {m}, [](In x) { return smooth_l1_loss(x[0], x[1]); }},
      {"huber_loss", x_target, {m}, [](In x) { return huber_loss(x[0], x[1]); }},
      {"kl_div", x_target, {m}, [](In x) { return kl_div(x[0], x[1]); }},
      {"triplet_margin_loss", {"anchor", "positive", "negative"}, {m}, [](In x) { return triplet_margin_loss(x[0], x[1], x[2]); }},
      {"margin_ranking_loss", {"first", "second", "target"}, {m},
       [](In x) { return margin_ranking_loss(x[0], x[1], sign(x[2])); }},
      {"hinge_embedding_loss", x_target, {m}, [](In x) { return hinge_embedding_loss(x[0], sign(x[1])); }, {"target"}},
      {"cosine_embedding_loss", {"a", "b", "target"}, {m, m, {3}},
       [](In x) { return cosine_embedding_loss(x[0], x[1], sign(x[2])); }, {"target"}},
      {"cross_entropy", {"logits"}, {m}, [](In x) { return cross_entropy(x[0], three_ids()); }},
      {"cross_entropy", {"logits", "CrossEntropyOptions.weight"}, {m, row},
       [](In x) { return cross_entropy(x[0], three_ids(), {.weight = x[1], .label_smoothing = 0.1}); }, {"CrossEntropyOptions.weight"}},
      {"nll_loss", {"log_probs", "NllLossOptions.weight"}, {m, row},
       [](In x) { return nll_loss(x[0], three_ids(), {.weight = x[1]}); }, {"NllLossOptions.weight"}},
      {"binary_cross_entropy", {"p", "target", "BinaryLossOptions.weight"}, {m},
       [](In x) { return binary_cross_entropy(sigmoid(x[0]), sigmoid(x[1]), {.weight = x[2]}); }},
      {"binary_cross_entropy_with_logits", {"logits", "target", "BinaryLossOptions.weight", "BinaryLossOptions.pos_weight"}, {m},
       [](In x) { return binary_cross_entropy_with_logits(x[0], sigmoid(x[1]), {.weight = x[2], .pos_weight = x[3]}); }},
      {"linear_cross_entropy", {"x", "weight"}, {m, square}, [](In x) { return linear_cross_entropy(x[0], x[1], three_ids()); }},
      {"grouped_linear", {"x", "weight"}, {m, {1, 4, 4}}, [](In x) { return grouped_linear(x[0], x[1], ids({3})); }},
      {"linear_log_probs", {"x", "weight"}, {m, square}, [](In x) { return linear_log_probs(x[0], x[1], three_ids()); }},
      {"linear_distillation", {"x", "weight"}, {m, square},
       [](In x) {
         const Teacher teacher{.logits = [](std::int64_t, std::int64_t n) { return Tensor::ones({n, 4}); }};
         return linear_distillation(x[0], x[1], three_ids(), teacher);
       }},
      {"embedding", {"weight"}, {m}, [](In x) { return embedding(x[0], three_ids()); }},
      {"embedding_bag", {"weight", "EmbeddingBagOptions.per_sample_weights"}, {m, {1, 3}},
       [](In x) { return embedding_bag(x[0], reshape(three_ids(), {1, 3}), {.mode = BagMode::sum, .per_sample_weights = x[1]}); }},
  };
  calls.insert(calls.end(), lines.begin(), lines.end());
}

inline void add_of_sequences(Calls& calls) {
  const Shape sequence{1, 3, 4}, steps{3, 1, 4}, state{1, 4};
  const auto with = [](const Tensor& mask) { AttentionOptions options; options.scores.attn_mask = mask; return options; };
  const auto page_of = [](const Tensor& keys, const Tensor& values) {
    const auto page = std::make_shared<CachedPage>(4, 16, DType::f32, CacheType::f32);
    page->store(0, 3, keys, values, 0);
    return page;
  };
  const auto cached = [=](const Tensor& q) {
    const std::vector<std::shared_ptr<CachedPage>> pages = {page_of(Tensor::ones(m), Tensor::ones(m))};
    return attention(q, std::array{CachedKeys{pages, 3}}, 2);
  };
  const auto packed = [](const StoredTensor& from) { return QuantizedMatrix(from, stored_type("f32")).dequantized(); };
  const std::vector<std::string> delta_names = {"q", "k", "v", "g", "beta"};
  const std::vector<Shape> delta_shapes = {{1, 2, 1, 3}, {1, 2, 1, 3}, {1, 2, 1, 2}, {1, 2, 1}, {1, 2, 1}};
  const std::vector<std::string> scan_names = {"x", "dt", "A", "B", "C"};
  const std::vector<Shape> scan_shapes = {{1, 2, 1, 2}, {1, 2, 1}, {1}, {1, 2, 1, 3}, {1, 2, 1, 3}};
  const Calls lines = {
      {"attention", {"qkv"}, {{1, 3, 12}}, [](In x) { return attention(x[0], 2); }},
      {"attention", {"q", "k", "v", "ScoreOptions.attn_mask"}, {sequence, sequence, sequence, {3, 3}},
       [=](In x) { return attention(x[0], x[1], x[2], 2, with(x[3])); }},
      {"attention", {"q", "k", "v", "ScoreOptions.sinks"}, {sequence, sequence, sequence, {2}},
       [](In x) { return attention(x[0], x[1], x[2], 2, {.scores = {.sinks = x[3]}}); }},
      {"attention", {"q", "k", "v"}, {sequence}, [](In x) { return attention(x[0], x[1], x[2], 2); }},
      {"attention", {"q"}, {{1, 1, 4}}, [=](In x) { return cached(x[0]); }, {"q"}},
      {"attention_weights", {"q", "k"}, {sequence}, [](In x) { return attention_weights(x[0], x[1], 2); }},
      {"attention_reference", {"q", "k", "v"}, {sequence}, [](In x) { return attention_reference(x[0], x[1], x[2], 2, true); }},
      {"store", {"keys", "values"}, {m}, [=](In x) { page_of(x[0], x[1]); return Tensor(); }, {"keys", "values"}},
      {"QuantizedMatrix", {"from"}, {square}, [=](In x) { return packed({x[0], "from"}); }, {"from"}},
      {"QuantizedMatrix", {"from"}, {square}, [=](In x) { return packed(StoredTensor(x[0], "from").transposed()); }, {"from"}},
      {"QuantizedMatrix", {"from"}, {square}, [=](In x) { return packed(StoredTensor(x[0], "from").first_rows(2)); }, {"from"}},
      {"QuantizedMatrix", {"from"}, {square},
       [=](In x) { return packed(StoredTensor(x[0], "from").rows(4, [](std::int64_t row) { return 3 - row; })); }, {"from"}},
      {"gated_delta_rule", delta_names, delta_shapes, [](In x) { return gated_delta_rule(x[0], x[1], x[2], x[3], x[4]); }},
      {"gated_delta_rule_steps", delta_names, delta_shapes,
       [](In x) { return gated_delta_rule_steps(x[0], x[1], x[2], x[3], x[4]); }},
      {"gated_delta_rule_pieces", delta_names, {{2, 1, 3}, {2, 1, 3}, {2, 1, 2}, {2, 1}, {2, 1}},
       [](In x) { return gated_delta_rule_pieces(x[0], x[1], x[2], x[3], x[4], {}); }, delta_names},
      {"state_space_scan", scan_names, scan_shapes,
       [](In x) { return state_space_scan(x[0], x[1], x[2], x[3], x[4]); }},
      {"state_space_scan_steps", scan_names, scan_shapes,
       [](In x) { return state_space_scan_steps(x[0], x[1], x[2], x[3], x[4]); }},
      {"state_space_scan_pieces", scan_names, {{2, 1, 2}, {2, 1}, {1}, {2, 1, 3}, {2, 1, 3}},
       [](In x) { return state_space_scan_pieces(x[0], x[1], x[2], x[3], x[4], {}); }, scan_names},
      {"lstm", {"x", "h0", "c0", "weight_hh", "bias_hh"}, {{3, 1, 16}, state, state, {16, 4}, {16}},
       [](In x) { return lstm(x[0], x[1], x[2], x[3], x[4]).y; }},
      {"gru", {"x", "h0", "weight_hh", "bias_hh"}, {{3, 1, 12}, state, {12, 4}, {12}},
       [](In x) { return gru(x[0], x[1], x[2], x[3]).y; }},
      {"rnn", {"x", "h0", "weight_hh", "bias_hh"}, {steps, state, square, row},
       [](In x) { return rnn(x[0], x[1], x[2], x[3]).y; }},
  };
  calls.insert(calls.end(), lines.begin(), lines.end());
  const auto in_place = [&](const char* name, Tensor& (*f)(Tensor&, const Tensor&)) {
    const auto run = [f](In x) { Tensor a = x[0]; return f(a, x[1]); };
    calls.push_back({name, {"a", "b"}, {m}, run, {"a", "b"}});
  };
  in_place("operator+=", operator+=), in_place("operator-=", operator-=), in_place("operator*=", operator*=);
  in_place("operator/=", operator/=), in_place("assign", assign);
  calls.push_back({"fill", {"a"}, {m}, [](In x) { Tensor a = x[0]; return fill(a, 0); }, {"a"}});
}

inline void add_of_derivatives(Calls& calls) {
  const TensorFunction cubes = [](const Tensor& t) { return t * t * t; };
  const TensorFunction sum_of_cubes = [cubes](const Tensor& t) { return sum(cubes(t)); };
  const TensorsFunction cubes_of_all = [cubes](In t) { return cubes(t[0]); };
  const TensorsFunction sum_of_all = [sum_of_cubes](In t) { return sum_of_cubes(t[0]); };
  const std::vector<TrackedCall> lines = {
      {"jacobian", {"x"}, {row}, [=](In x) { return jacobian(cubes, x[0]); }},
      {"jacobian", {"xs"}, {row}, [=](In x) { return jacobian(cubes_of_all, {x[0]})[0]; }},
      {"hessian", {"x"}, {row}, [=](In x) { return hessian(sum_of_cubes, x[0]); }},
      {"hessian", {"xs"}, {row}, [=](In x) { return hessian(sum_of_all, {x[0]})[0][0]; }},
      {"vjp", {"x", "v"}, {row}, [=](In x) { return vjp(cubes, x[0], x[1]).product; }},
      {"vjp", {"xs", "v"}, {row}, [=](In x) { return vjp(cubes_of_all, {x[0]}, x[1]).products[0]; }},
      {"jvp", {"x", "v"}, {row}, [=](In x) { return jvp(cubes, x[0], x[1]).product; }},
      {"jvp", {"xs", "vs"}, {row}, [=](In x) { return jvp(cubes_of_all, {x[0]}, {x[1]}).product; }},
      {"hvp", {"x", "v"}, {row}, [=](In x) { return hvp(sum_of_cubes, x[0], x[1]).product; }},
      {"hvp", {"xs", "vs"}, {row}, [=](In x) { return hvp(sum_of_all, {x[0]}, {x[1]}).products[0]; }},
      {"per_example_gradients", {"wrt"}, {row},
       [=](In x) { const Tensor t = x[0]; return per_example_gradients([&](std::int64_t) { return sum_of_cubes(t); }, 2, {t})[0]; }},
  };
  calls.insert(calls.end(), lines.begin(), lines.end());
}

// clang-format on

}  // namespace tracked

inline std::vector<TrackedCall> tracked_calls() {
  std::vector<TrackedCall> calls;
  tracked::add_of_one(calls);
  tracked::add_of_two(calls);
  tracked::add_of_images(calls);
  tracked::add_of_sequences(calls);
  tracked::add_of_derivatives(calls);
  return calls;
}

}  // namespace tapegrad::testing
