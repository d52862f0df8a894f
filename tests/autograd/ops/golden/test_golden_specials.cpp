#include <cmath>
#include <limits>
#include <map>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

// Every op at zeros, denormals, numbers of 1e±30, infinities, NaN and ties, against PyTorch: what
// it gives, its gradients, and theirs. Written by golden_specials.py.

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Function = std::function<Tensor(Inputs)>;
using Tensors = std::map<std::string, Tensor>;

template <Tensor (*F)(const Tensor&)>
Tensor one(Inputs x) {
  return F(x[0]);
}
template <Tensor (*F)(const Tensor&, const Tensor&)>
Tensor two(Inputs x) {
  return F(x[0], x[1]);
}

Tensor with_logits(const Tensor& x, double target) {
  return binary_cross_entropy_with_logits(x, Tensor::full(x.shape(), target, x.dtype()),
                                          {.reduction = Reduction::none});
}

std::map<std::string, Function> elementwise() {
  return {
      {"neg", one<neg>},
      {"exp", one<exp>},
      {"log", one<log>},
      {"sqrt", one<sqrt>},
      {"tanh", one<tanh>},
      {"sigmoid", one<sigmoid>},
      {"erf", one<erf>},
      {"relu", one<relu>},
      {"abs", one<abs>},
      {"clamp(-1,1)", [](Inputs x) { return clamp(x[0], -1, 1); }},
      {"gelu(tanh)", [](Inputs x) { return gelu(x[0]); }},
      {"gelu(erf)", [](Inputs x) { return gelu(x[0], Gelu::erf); }},
      {"pow(0)", [](Inputs x) { return pow(x[0], 0.0); }},
      {"pow(3)", [](Inputs x) { return pow(x[0], 3.0); }},
      {"pow(-1)", [](Inputs x) { return pow(x[0], -1.0); }},
      {"pow(0.5)", [](Inputs x) { return pow(x[0], 0.5); }},
      {"inverse", [](Inputs x) { return 1.0 / x[0]; }},
      {"dropout(0.15)",
       [](Inputs x) {
         Rng rng(3);
         return dropout(x[0], 0.15, rng);
       }},
      {"sin", one<sin>},
      {"cos", one<cos>},
      {"log1p", one<log1p>},
      {"expm1", one<expm1>},
      {"softplus", [](Inputs x) { return softplus(x[0]); }},
      {"silu", one<silu>},
      {"with_logits(0)", [](Inputs x) { return with_logits(x[0], 0); }},
      {"with_logits(0.25)", [](Inputs x) { return with_logits(x[0], 0.25); }},
      {"with_logits(1)", [](Inputs x) { return with_logits(x[0], 1); }},
      {"round", one<round>},
      {"floor", one<floor>},
      {"ceil", one<ceil>},
      {"trunc", one<trunc>},
      {"sign", one<sign>},
      {"tan", one<tan>},
      {"log2", one<log2>},
      {"leaky_relu", [](Inputs x) { return leaky_relu(x[0]); }},
      {"elu", [](Inputs x) { return elu(x[0]); }},
      {"mish", one<mish>},
      {"hardswish", one<hardswish>},
      {"hardtanh", [](Inputs x) { return hardtanh(x[0]); }},
      {"hardtanh(-2.5,1)", [](Inputs x) { return hardtanh(x[0], -2.5, 1); }},
      {"hardsigmoid", one<hardsigmoid>},
      {"atan2", two<atan2>},
      {"l1_loss", [](Inputs x) { return l1_loss(x[0], x[1], Reduction::none); }},
      {"smooth_l1_loss", [](Inputs x) { return smooth_l1_loss(x[0], x[1], 1, Reduction::none); }},
      {"huber_loss", [](Inputs x) { return huber_loss(x[0], x[1], 1, Reduction::none); }},
      {"kl_div", [](Inputs x) { return kl_div(x[0], x[1], {.reduction = Reduction::none}); }},
      {"kl_div(log_target)",
       [](Inputs x) {
         return kl_div(x[0], x[1], {.reduction = Reduction::none, .log_target = true});
       }},
      {"add", two<add>},
      {"sub", two<sub>},
      {"mul", two<mul>},
      {"div", two<div>},
      {"pow", two<pow>},
      {"maximum", two<maximum>},
      {"swiglu", two<swiglu>},
      {"mse_loss", [](Inputs x) { return (x[0] - x[1]) * (x[0] - x[1]); }},
      {"where",
       [](Inputs x) {
         Tensor even = Tensor::zeros(x[0].shape(), DType::u8);
         for (std::int64_t i = 0; i < even.numel(); i += 2)
           even.mutable_data<std::uint8_t>()[i] = 1;
         return where(even, x[0], x[1]);
       }},
  };
}

std::map<std::string, Function> of_rows() {
  const auto attend = [](Inputs x, bool fused) {
    const Tensor q = Tensor::ones({1, 1, 1}, x[0].dtype()), k = reshape(x[0], {1, 2, 1});
    const Tensor v = vector({3, 5}).to(x[0].dtype()).view({1, 2, 1});
    const Tensor y =
        fused ? attention(q, k, v, 1, {.causal = false}) : attention_reference(q, k, v, 1, false);
    return reshape(y, {1});
  };
  const auto linear_loss = [](Inputs x) {
    return linear_cross_entropy(Tensor::ones({1, 1}, x[0].dtype()), reshape(x[0], {2, 1}),
                                ids({0}));
  };
  return {
      {"sum", [](Inputs x) { return sum(x[0]); }},
      {"mean", [](Inputs x) { return mean(x[0]); }},
      {"var", [](Inputs x) { return var(x[0]); }},
      {"max", [](Inputs x) { return max(x[0]); }},
      {"max(0)", [](Inputs x) { return max(x[0], 0).values; }},
      {"cumsum", [](Inputs x) { return cumsum(x[0], 0); }},
      {"sort", [](Inputs x) { return sort(x[0]).values; }},
      {"sort(descending)", [](Inputs x) { return sort(x[0], -1, true).values; }},
      {"topk(1)", [](Inputs x) { return topk(x[0], 1).values; }},
      {"softmax", [](Inputs x) { return softmax(x[0]); }},
      {"log_softmax", [](Inputs x) { return log_softmax(x[0]); }},
      {"logsumexp", [](Inputs x) { return log_sum_exp(x[0]); }},
      {"layer_norm", [](Inputs x) { return layer_norm(x[0]); }},
      {"cross_entropy",
       [](Inputs x) { return cross_entropy(x[0], Tensor::from<std::int32_t>({0}, {})); }},
      {"cross_entropy/linear", linear_loss},
      {"matmul",
       [](Inputs x) {
         return matmul(x[0], vector({1, 2}).to(x[0].dtype()));
       }},
      {"attention", [=](Inputs x) { return attend(x, true); }},
      {"attention/composed", [=](Inputs x) { return attend(x, false); }},
  };
}

// The weights with which gradients are added up for the second derivatives: 1, −2 for a row of two.
Tensor weights_of(const Tensor& g) {
  return (g.numel() == 2 ? vector({1, -2}) : Tensor::ones(g.shape(), DType::f64)).to(g.dtype());
}

// out, g0…, h0…, as golden_specials.py has them.
Tensors derivatives(const Function& f, const std::vector<Tensor>& inputs, double dy) {
  const DType dtype = inputs[0].dtype();
  Tensors found;
  std::vector<Tensor> roots, seeds;
  Tape outer;
  for (const Tensor& x : inputs) outer.watch(x);
  Tape inner;
  for (const Tensor& x : inputs) inner.watch(x);
  const Tensor y = f(inputs);
  found["out"] = y;
  const Grads first = inner.gradient(y, inputs, {.seeds = {Tensor::full(y.shape(), dy, dtype)}});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor zeros = Tensor::zeros(inputs[i].shape(), dtype);
    found["g" + std::to_string(i)] = first[i].defined() ? first[i] : zeros;
    found["h" + std::to_string(i)] = zeros;
    if (!first[i].defined() || !outer.tracks(first[i])) continue;
    roots.push_back(first[i]);
    seeds.push_back(weights_of(first[i]));
  }
  if (roots.empty()) return found;
  const Grads second = outer.gradient(roots, inputs, {.seeds = seeds});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (second[i].defined()) found["h" + std::to_string(i)] = second[i];
  }
  return found;
}

// Attention's gradients are differences of numbers around 4, of which the last bits are lost.
bool agrees(double a, double b, DType dtype, bool attention) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  const double least = dtype == DType::f32 ? 2e-38 : 1e-307;  // denormals need not agree
  const double rounding = (dtype == DType::f32 ? 5e-6 : 1e-13) * (attention ? 10 : 1);
  return a == b || std::abs(a - b) <= rounding * std::abs(b) + least;
}

std::string print(Inputs inputs, std::int64_t i) {
  std::string text;
  for (const Tensor& x : inputs) {
    for (std::int64_t k = 0; k < (inputs.size() == 1 && x.numel() == 2 ? 2 : 1); ++k) {
      text += fmt::format(" {:g}", x.at(x.numel() == 2 && inputs.size() == 1 ? k : i));
    }
  }
  return text;
}

// Places where ours and PyTorch's differ, as "log/f32/g0 at 0 1: ours 2, PyTorch's 3".
class Differences {
 public:
  void compare(const std::string& key, Inputs inputs, const Tensor& ours, const Tensor& theirs) {
    REQUIRE(ours.numel() == theirs.numel());
    const bool attention = key.rfind("attention", 0) == 0;
    for (std::int64_t i = 0; i < ours.numel(); ++i) {
      if (agrees(ours.at(i), theirs.at(i), ours.dtype(), attention)) continue;
      ++counts[key];
      lines += fmt::format("{} at{}: {:g}, PyTorch's {:g}\n", key, print(inputs, i), ours.at(i),
                           theirs.at(i));
    }
  }
  std::map<std::string, int> counts;
  std::string lines;
};

// Of each op and quantity, at how many places we differ on purpose; docs/exactness.md says why.
const std::map<std::string, int> kOnPurpose = {
    // NaN keys beside −∞ give NaN, and equal scores of 1e30 each half of the gradient.
    {"attention/composed/f32/g0", 6},
    {"attention/composed/f32/out", 3},
    {"attention/composed/f64/g0", 6},
    {"attention/composed/f64/out", 3},
    {"attention/f32/g0", 6},
    {"attention/f32/out", 3},
    {"attention/f64/g0", 6},
    {"attention/f64/out", 3},
    {"logsumexp/f32/g0", 4},
    {"logsumexp/f32/h0", 4},
    {"logsumexp/f64/g0", 4},
    {"logsumexp/f64/h0", 4},
    // Right where PyTorch has 0 or NaN.
    {"erf/f32/out", 2},
    {"gelu(erf)/f32/h0", 2},
    {"gelu(erf)/f32/out", 1},
    {"gelu(tanh)/f32/g0", 2},
    {"gelu(tanh)/f32/h0", 2},
    {"gelu(tanh);dy=inf/f32/g0", 1},
    // An infinite dy times 1e-60, which is no f32 but not 0.
    {"inverse;dy=inf/f32/g0", 2},
    // A row of twice 1e30 is constant and gives 0; 1e30 beside −1e30 overflows and gives NaN.
    {"layer_norm/f32/g0", 8},
    {"layer_norm/f32/h0", 8},
    {"layer_norm/f32/out", 8},
    // Second derivatives where `up` is infinite or, in f32, 1e30 beside a gate of ±1e30: their
    // limits, not NaN.
    {"swiglu/f32/h0", 18},
    {"swiglu/f64/h0", 14},
    // Where the target is 0 or infinite: limits, not NaN.
    {"kl_div/f32/g1", 39},
    {"kl_div/f32/h1", 90},
    {"kl_div/f32/out", 7},
    {"kl_div/f64/g1", 39},
    {"kl_div/f64/h1", 90},
    {"kl_div/f64/out", 7},
    // A logit of −∞ for a target above 0 costs ∞, not 0·∞.
    {"with_logits(0.25)/f32/out", 1},
    {"with_logits(0.25)/f64/out", 1},
    {"with_logits(1)/f32/out", 1},
    {"with_logits(1)/f64/out", 1},
    // The second derivative at 0 is that of the exponential.
    {"elu/f32/h0", 2},
    {"elu/f64/h0", 2},
    // PyTorch rounds 1/6 to f32 in f64.
    {"hardsigmoid/f64/g0", 10},
    // Where both are so small that their squares are 0, the gradient is 0, and so are its own.
    {"atan2/f32/h0", 36},
    {"atan2/f32/h1", 36},
    {"atan2/f64/h0", 16},
    {"atan2/f64/h1", 16},
    // At the limits, clamp passes its gradient, as in PyTorch before 2.14.
    {"clamp(-1,1)/f32/g0", 2},
    {"clamp(-1,1)/f64/g0", 2},
    {"clamp(-1,1);dy=inf/f32/g0", 2},
    {"clamp(-1,1);dy=inf/f64/g0", 2},
    // Of mish at 1e30.
    {"mish/f32/h0", 1},
    {"mish/f64/h0", 1},
    // IEEE's power of −∞ and −0, not their roots; second derivatives of and to 0 without NaNs.
    {"pow(0.5)/f32/g0", 2},
    {"pow(0.5)/f32/out", 1},
    {"pow(0.5);dy=inf/f32/g0", 1},
    {"pow(0.5)/f64/g0", 2},
    {"pow(0.5)/f64/out", 1},
    {"pow(0.5);dy=inf/f64/g0", 1},
    {"pow/f32/h0", 22},
    {"pow/f32/h1", 16},
    {"pow/f64/h0", 19},
    {"pow/f64/h1", 16},
};

}  // namespace

TEST_CASE("every op at special values gives what PyTorch gives", "[golden]") {
  const Tensors golden = [] {
    const SafeTensors file = load_safetensors(golden_file("specials.safetensors").string());
    return Tensors(file.tensors.begin(), file.tensors.end());
  }();
  Differences differences;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::string label = dtype == DType::f32 ? "/f32" : "/f64";
    const Tensor values = golden.at("values" + label), pairs = golden.at("pairs" + label);
    const Tensor left = slice(pairs, 1, 0, 1).view({-1}), right = slice(pairs, 1, 1, 2).view({-1});
    for (const auto& [name, f] : elementwise()) {
      const bool unary = golden.count(name + label + "/g1") == 0;
      const std::vector<Tensor> inputs = unary ? std::vector{values} : std::vector{left, right};
      for (const double dy : {1.0, kInf}) {
        if (dy == kInf && !unary) continue;
        const std::string key = name + (dy == 1 ? "" : ";dy=inf") + label + "/";
        for (const auto& [part, t] : derivatives(f, inputs, dy)) {
          const auto theirs = golden.find(key + part);  // without h0 if PyTorch has no derivative
          if (theirs == golden.end() && part[0] == 'h') continue;
          REQUIRE(theirs != golden.end());
          if (dy == 1 || part == "g0") differences.compare(key + part, inputs, t, theirs->second);
        }
      }
    }
    for (const auto& [name, f] : of_rows()) {
      const std::string key = name.substr(0, name.find('/')) + label + "/";
      for (std::int64_t row = 0; row < pairs.dim(0); ++row) {
        const std::vector<Tensor> inputs = {pairs.rows(row, row + 1).view({2})};
        for (const auto& [part, t] : derivatives(f, inputs, 1)) {
          const auto theirs = golden.find(key + part);
          if (theirs == golden.end()) continue;
          differences.compare(name + label + "/" + part, inputs, t,
                              theirs->second.rows(row, row + 1));
        }
      }
    }
  }
  INFO(differences.lines);
  CHECK(differences.counts == kOnPurpose);
}
