#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using TensorOp = std::function<Tensor(Inputs)>;
using TensorOps = std::map<std::string, TensorOp>;

Tensor int_tensor(const std::vector<std::int32_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

// The functions here for the names in golden_tensor_ops.py.
const TensorOps& tensor_ops() {
  static const TensorOps table = {
      {"round", [](Inputs x) { return tapegrad::round(x[0]); }},
      {"floor", [](Inputs x) { return tapegrad::floor(x[0]); }},
      {"ceil", [](Inputs x) { return tapegrad::ceil(x[0]); }},
      {"trunc", [](Inputs x) { return tapegrad::trunc(x[0]); }},
      {"sign", [](Inputs x) { return sign(x[0]); }},
      {"tan", [](Inputs x) { return tapegrad::tan(x[0]); }},
      {"log2", [](Inputs x) { return tapegrad::log2(x[0]); }},
      {"hardswish", [](Inputs x) { return hardswish(x[0]); }},
      {"atan2", [](Inputs x) { return tapegrad::atan2(x[0], x[1]); }},
      {"stddev", [](Inputs x) { return stddev(x[0]); }},
      {"stddev(1,biased)", [](Inputs x) { return stddev(x[0], {1}, false); }},
      {"norm", [](Inputs x) { return norm(x[0]); }},
      {"norm(2,1,keep)", [](Inputs x) { return norm(x[0], 2, {1}, true); }},
      {"norm(1,0)", [](Inputs x) { return norm(x[0], 1, {0}); }},
      {"norm(3)", [](Inputs x) { return norm(x[0], 3); }},
      {"norm(0.5,1)", [](Inputs x) { return norm(x[0], 0.5, {1}); }},
      {"prod", [](Inputs x) { return prod(x[0]); }},
      {"prod(1)", [](Inputs x) { return prod(x[0], {1}); }},
      {"prod(0,keep)", [](Inputs x) { return prod(x[0], {0}, true); }},
      {"cumprod(0)", [](Inputs x) { return cumprod(x[0], 0); }},
      {"cumprod(1)", [](Inputs x) { return cumprod(x[0], 1); }},
      {"normalize", [](Inputs x) { return normalize(x[0]); }},
      {"normalize(1,0)", [](Inputs x) { return normalize(x[0], 1, 0); }},
      {"cosine_similarity", [](Inputs x) { return cosine_similarity(x[0], x[1]); }},
      {"cosine_similarity(0)", [](Inputs x) { return cosine_similarity(x[0], x[1], 0); }},
      {"pairwise_distance", [](Inputs x) { return pairwise_distance(x[0], x[1]); }},
      {"pairwise_distance(1,keep)",
       [](Inputs x) { return pairwise_distance(x[0], x[1], 1, 1e-6, true); }},
      {"scatter_add(1)",
       [](Inputs x) {
         return scatter_add(x[0], int_tensor({3, 0, 3, 1, 1, 2}, {2, 3}), x[1], 1);
       }},
      {"index_add(0)",
       [](Inputs x) {
         return index_add(x[0], 0, int_tensor({2, 0, 2, 2}, {4}), x[1]);
       }},
      {"index_add(1)",
       [](Inputs x) {
         return index_add(x[0], 1, int_tensor({2, 0, 2, 2}, {4}), x[1]);
       }},
      {"masked_select", [](Inputs x) { return masked_select(x[0], x[0] > 0.0); }},
      {"masked_select(row)",
       [](Inputs x) {
         return masked_select(x[0], int_tensor({1, 0, 1}, {3}).to(DType::u8));
       }},
  };
  return table;
}

// pad(mode,n) pads the last n dimensions.
const TensorOps& pads() {
  static const TensorOps table = [] {
    TensorOps ops;
    const std::vector<std::int64_t> pairs = {2, 1, 0, 2, 1, 1};
    for (const auto& [name, mode] :
         {std::pair("reflect", PadMode::reflect), std::pair("replicate", PadMode::replicate),
          std::pair("circular", PadMode::circular)}) {
      for (int n = 1; n <= 3; ++n) {
        const std::vector<std::int64_t> padding(pairs.begin(), pairs.begin() + 2 * n);
        ops[fmt::format("pad({},{})", name, n)] = [=, mode = mode](Inputs x) {
          return pad(x[0], padding, mode);
        };
      }
    }
    return ops;
  }();
  return table;
}

const TensorOps& margin_losses() {
  using enum Reduction;
  const auto signs = [](Inputs x) {
    return Tensor::from<double>({1, -1, -1, 1}, {4}).to(x[0].dtype());
  };
  const auto nll = [](const NllLossOptions& options) {
    return [=](Inputs x) { return nll_loss(x[0], int_tensor({0, 4, 2, 2}, {4}), options); };
  };
  const auto entropy = [](const CrossEntropyOptions& options) {
    return [=](Inputs x) { return cross_entropy(x[0], int_tensor({0, 4, 2, 2}, {4}), options); };
  };
  const Tensor weight = Tensor::from<double>({0.5, 2, 1, 3, 0.25}, {5});
  static const TensorOps table = {
      {"nll_loss", nll({})},
      {"nll_loss(none)", nll({.reduction = none})},
      {"nll_loss(weight,ignore=2)", nll({.weight = weight, .ignore_index = 2})},
      {"nll_loss(weight,sum)", nll({.weight = weight, .reduction = Reduction::sum})},
      {"cross_entropy(weight,ignore=2)", entropy({.weight = weight, .ignore_index = 2})},
      {"cross_entropy(sum)", entropy({.reduction = Reduction::sum})},
      {"cross_entropy(smoothing=0.1)", entropy({.label_smoothing = 0.1})},
      {"cross_entropy(smoothing=0.1,ignore=2)",
       entropy({.ignore_index = 2, .label_smoothing = 0.1})},
      {"cross_entropy(smoothing=0.3,weight,ignore=2)",
       entropy({.weight = weight, .ignore_index = 2, .label_smoothing = 0.3})},
      {"cross_entropy(smoothing=0.3,weight,none)",
       entropy({.weight = weight, .label_smoothing = 0.3, .reduction = none})},
      {"cross_entropy(smoothing=1,weight,sum)",
       entropy({.weight = weight, .label_smoothing = 1, .reduction = Reduction::sum})},
      {"hinge_embedding_loss", [=](Inputs x) { return hinge_embedding_loss(x[0], signs(x)); }},
      {"hinge_embedding_loss(0.5,none)",
       [=](Inputs x) { return hinge_embedding_loss(x[0], signs(x), 0.5, none); }},
      {"margin_ranking_loss", [=](Inputs x) { return margin_ranking_loss(x[0], x[1], signs(x)); }},
      {"margin_ranking_loss(0.5,sum)",
       [=](Inputs x) { return margin_ranking_loss(x[0], x[1], signs(x), 0.5, Reduction::sum); }},
      {"cosine_embedding_loss",
       [=](Inputs x) { return cosine_embedding_loss(x[0], x[1], signs(x)); }},
      {"cosine_embedding_loss(0.2,none)",
       [=](Inputs x) { return cosine_embedding_loss(x[0], x[1], signs(x), 0.2, none); }},
      {"triplet_margin_loss", [](Inputs x) { return triplet_margin_loss(x[0], x[1], x[2]); }},
      {"triplet_margin_loss(2,1,swap,none)",
       [](Inputs x) {
         return triplet_margin_loss(x[0], x[1], x[2],
                                    {.margin = 2, .p = 1, .swap = true, .reduction = none});
       }},
  };
  return table;
}

}  // namespace

TEST_CASE("rounding, products, norms, places and margins agree with PyTorch",
          "[golden][tensor_ops]") {
  std::map<std::string, std::map<std::string, Tensor>> cases;
  for (const auto& [name, tensor] :
       load_safetensors(golden_file("tensor_ops.safetensors").string()).tensors) {
    const std::size_t slash = name.rfind('/');
    cases[name.substr(0, slash)][name.substr(slash + 1)] = tensor;
  }
  std::map<std::string, int> checked;
  for (const auto& [key, tensors] : cases) {
    INFO(key);
    const Tensor& expected = tensors.at("out");
    const double near = expected.dtype() == DType::f64 ? 1e-12 : 2e-6;
    const std::string op = key.substr(0, key.find('@'));
    if (op == "linspace") {
      const Tensor line = Tensor::linspace(-0.7, 2.3, expected.numel(), expected.dtype());
      CHECK(difference(line, expected, near, near) == "");
      continue;
    }
    const TensorOps& table = tensor_ops().count(op) > 0 ? tensor_ops()
                             : pads().count(op) > 0     ? pads()
                                                        : margin_losses();
    REQUIRE(table.count(op) == 1);
    ++checked[op];
    std::vector<Tensor> inputs;
    for (int i = 0; tensors.count("in" + std::to_string(i)) > 0; ++i) {
      inputs.push_back(tensors.at("in" + std::to_string(i)));
    }
    Tape tape;
    for (const Tensor& x : inputs) tape.watch(x);
    const Tensor y = table.at(op)(inputs);
    CHECK(difference(y, expected, near, near) == "");
    const Grads grads = tape.gradient(y, inputs, {.seeds = {tensors.at("dout")}});
    for (std::size_t i = 0; i < grads.size(); ++i) {
      INFO("gradient " << i);
      CHECK(difference(grads[i], tensors.at("grad" + std::to_string(i)), near, near) == "");
    }
  }
  CHECK(checked.size() == tensor_ops().size() + pads().size() + margin_losses().size());
}

TEST_CASE("rounding goes to even, and signs tell zeros from others", "[tensor_ops]") {
  const Tensor x = Tensor::from<float>({0.5F, 1.5F, 2.5F, -0.5F, -1.5F}, {5});
  CHECK(allclose(tapegrad::round(x), Tensor::from<float>({0, 2, 2, 0, -2}, {5}), 0, 0));
  CHECK(allclose(sign(x - 0.5), Tensor::from<float>({0, 1, 1, -1, -1}, {5}), 0, 0));
  // The gradient is 0 even where what comes in is not finite.
  Tape tape;
  tape.watch(x);
  const Tensor dx =
      tape.gradient(tapegrad::floor(x), {x}, {.seeds = {Tensor::full({5}, INFINITY)}})[0];
  CHECK(allclose(dx, Tensor::zeros({5}), 0, 0));
}

TEST_CASE("places of non-zero elements, and combinations of masks", "[tensor_ops]") {
  const Tensor x = Tensor::from<float>({0, 2, 0, 3, 0, 4}, {2, 3});
  CHECK(allclose(nonzero(x), int_tensor({0, 1, 1, 0, 1, 2}, {3, 2}), 0, 0));
  CHECK(nonzero(Tensor::scalar(2)).shape() == Shape{1, 0});
  CHECK(nonzero(Tensor::scalar(0)).shape() == Shape{0, 0});
  CHECK(nonzero(Tensor::zeros({2, 0})).shape() == Shape{0, 2});
  CHECK(allclose(masked_select(x, x > 2.0), Tensor::from<float>({3, 4}, {2}), 0, 0));
  CHECK(masked_select(int_tensor({5, 6}, {2}), int_tensor({0, 1}, {2}).to(DType::u8)).item() == 6);
  const Tensor a = int_tensor({0, 1, 0, 2}, {4}), b = int_tensor({0, 0, 3, 3}, {4});
  const auto bits = [](const Tensor& t) {
    return sum(t * Tensor::from<std::int32_t>({1, 2, 4, 8}, {4})).item();
  };
  CHECK(bits(logical_and(a, b).to(DType::i32)) == 8);
  CHECK(bits(logical_or(a, b).to(DType::i32)) == 14);
  CHECK(bits(logical_not(a).to(DType::i32)) == 5);
}

TEST_CASE("close tensors are close, and others are not", "[tensor_ops]") {
  const auto of = [](double a) { return Tensor::scalar(a, DType::f64); };
  CHECK(allclose(of(1), of(1 + 1e-5)));
  CHECK_FALSE(allclose(of(1), of(1 + 3e-5)));
  CHECK(allclose(of(0), of(1e-8)));
  CHECK_FALSE(allclose(of(0), of(2e-8)));
  CHECK(allclose(of(INFINITY), of(INFINITY)));
  CHECK_FALSE(allclose(of(1), of(INFINITY)));
  CHECK_FALSE(allclose(of(NAN), of(NAN)));
  CHECK(allclose(of(NAN), of(NAN), 0, 0, true));
  CHECK(allclose(Tensor::ones({2, 3}), Tensor::ones({3})));
  CHECK(prod(int_tensor({3, 4, 5}, {3})).item() == 60);
}

TEST_CASE("ops of places, products and margins name what does not fit", "[tensor_ops]") {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({3});
  const Tensor two = int_tensor({0, 1}, {2});
  CHECK_THROWS_WITH(norm(a, 0), ContainsSubstring("[norm] p must be finite and above 0, not 0"));
  CHECK_THROWS_WITH(prod(a, {2}), ContainsSubstring("[prod] there is no dimension 2 in (2, 3)"));
  CHECK_THROWS_WITH(tapegrad::atan2(a, two.to(DType::f32)), ContainsSubstring("[atan2]"));
  CHECK_THROWS_WITH(scatter_add(a, two, b, 1),
                    ContainsSubstring("[scatter_add] the shapes of index (2) and source (3)"));
  CHECK_THROWS_WITH(scatter_add(a, int_tensor({0, 3}, {2}), two.to(DType::f32), 1),
                    ContainsSubstring("[scatter_add] index 3 at position 1 is outside [0, 3)"));
  CHECK_THROWS_WITH(index_add(a, 0, two, b), ContainsSubstring("[index_add] source (3)"));
  CHECK_THROWS_WITH(index_add(a, 0, int_tensor({2}, {1}), Tensor::zeros({1, 3})),
                    ContainsSubstring("[index_add] id 2 at position 0 is outside the 2 rows"));
  CHECK_THROWS_WITH(masked_select(a, b),
                    ContainsSubstring("[masked_select] the mask must be bool or u8"));
  CHECK_THROWS_WITH(pad(a, {1}, PadMode::reflect), ContainsSubstring("[pad] 1 numbers"));
  CHECK_THROWS_WITH(pad(b, {1, 1, 1, 1}, PadMode::reflect), ContainsSubstring("[pad] 4 numbers"));
  CHECK_THROWS_WITH(pad(a, {0, -1}, PadMode::replicate), ContainsSubstring("not (0, -1)"));
  CHECK_THROWS_WITH(pad(a, {3, 0}, PadMode::reflect),
                    "[pad] reflect by 3 needs at least 4 elements in the dimension, not 3");
  CHECK_THROWS_WITH(pad(a, {0, 4}, PadMode::circular), ContainsSubstring("circular by 4 needs"));
  CHECK_THROWS_WITH(pad(Tensor::zeros({2, 0}), {1, 0}, PadMode::replicate),
                    ContainsSubstring("replicate by 1 needs at least 1 elements"));
  CHECK_THROWS_WITH(pad(a, {INT64_MAX, 1}, PadMode::reflect), ContainsSubstring("is too long"));
  CHECK_THROWS_WITH(nll_loss(a, int_tensor({0, 3}, {2})),
                    ContainsSubstring("[nll_loss] target 3 at position 1 is outside [0, 3)"));
  CHECK_THROWS_WITH(nll_loss(a, two, {.weight = two}),
                    ContainsSubstring("[nll_loss] weight (2) does not fit 3 classes"));
  CHECK_THROWS_WITH(nll_loss(b, two),
                    ContainsSubstring("[nll_loss] targets (2) do not fit log-probabilities (3)"));
  CHECK_THROWS_WITH(hinge_embedding_loss(a, b),
                    ContainsSubstring("[hinge_embedding_loss] target 0 at position 0 is neither"));
  CHECK_THROWS_WITH(margin_ranking_loss(a, b, b), ContainsSubstring("[margin_ranking_loss]"));
  CHECK_THROWS_WITH(cosine_embedding_loss(a, b, b), ContainsSubstring("[cosine_embedding_loss]"));
  CHECK_THROWS_WITH(triplet_margin_loss(a, b, b), ContainsSubstring("[triplet_margin_loss]"));
  CHECK_THROWS_WITH(cosine_similarity(a, two.to(DType::f32)),
                    ContainsSubstring("[cosine_similarity]"));
  CHECK_THROWS_WITH(Tensor::linspace(0, INFINITY, 3), ContainsSubstring("[linspace]"));
  CHECK_THROWS_WITH(Tensor::linspace(0, 1, -1), ContainsSubstring("[linspace] -1 numbers"));
}
