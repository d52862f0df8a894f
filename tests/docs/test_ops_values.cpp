#include <cfloat>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "tapegrad/arrays/npy.h"
#include "tapegrad/autograd/derivatives.h"
#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/base/random.h"
#include "tapegrad/nn/init.h"
#include "tapegrad/nn/layers/recurrent.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

// The expressions of docs/ops.md beside PyTorch's functions, at random, special and empty inputs,
// with their gradients. PyTorch's results are written by golden_table.py.

namespace tapegrad::table_values {

// The names that expressions use.
struct Names {
  Tensor x, y, a, b, bias, mask, ids, w;
  Rng rng = Rng(1729);
  NamedTensors parameters;
  CheckpointFunction block = [](Inputs in, Rng*) { return in[0] * 1.0; };
  TensorFunction f = [](const Tensor& t) { return sum(t * t); };
  std::function<Tensor(std::int64_t)> loss = [this](std::int64_t i) {
    return sum(w) * static_cast<double>(i);
  };
  std::map<std::string, Tensor*> tensors = {{"x", &x},       {"y", &y},    {"a", &a},
                                            {"b", &b},       {"w", &w},    {"bias", &bias},
                                            {"mask", &mask}, {"ids", &ids}};
};

// Any result as tensors; none of one that holds no numbers.
template <class T>
std::vector<Tensor> tensors_of(const T& result) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return {result};
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    return result;
  } else if constexpr (std::is_same_v<T, SortResult>) {
    return {result.values, result.indices};
  } else if constexpr (std::is_same_v<T, BatchNormResult>) {
    return {result.y};
  } else if constexpr (std::is_same_v<T, Shape>) {
    std::vector<double> sizes;
    for (int i = 0; i < result.rank(); ++i) sizes.push_back(static_cast<double>(result[i]));
    return {Tensor::from(sizes, {result.rank()})};
  } else if constexpr (std::is_arithmetic_v<T>) {
    return {Tensor::scalar(static_cast<double>(result), DType::f64)};
  } else if constexpr (requires { std::vector<double>(result.begin(), result.end()); }) {
    const std::vector<double> numbers(result.begin(), result.end());
    return {Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())})};
  } else {
    return {};
  }
}

// Stands behind an expression and turns its result into tensors; behind one without a result,
// the comma is the language's own.
struct Collected {
  operator std::vector<Tensor>() const { return {}; }
};
template <class T>
std::vector<Tensor> operator,(const T& result, Collected) {
  return tensors_of(result);
}

using Row = std::vector<Tensor> (*)(Names& names, Tape& tape);

// A macro, since the table's rows are macros.
#define TOPIC(heading)
#define HERE(torch, ...)                                                                     \
  {torch, [](Names& names, [[maybe_unused]] Tape& tape) -> std::vector<Tensor> {             \
     [[maybe_unused]] const Tensor &x = names.x, &y = names.y, &a = names.a, &b = names.b,   \
                                   &bias = names.bias, &mask = names.mask, &ids = names.ids; \
     [[maybe_unused]] Tensor& w = names.w;                                                   \
     [[maybe_unused]] Rng& rng = names.rng;                                                  \
     [[maybe_unused]] const NamedTensors& parameters = names.parameters;                     \
     [[maybe_unused]] const CheckpointFunction& block = names.block;                         \
     [[maybe_unused]] const TensorFunction& f = names.f;                                     \
     [[maybe_unused]] const auto& loss = names.loss;                                         \
     return (__VA_ARGS__), Collected();                                                      \
   }},
#define NEAR(torch, difference, ...) HERE(torch, __VA_ARGS__)
#define ABSENT(torch, reason)
const std::map<std::string, Row>& rows() {
  static const std::map<std::string, Row> table = {
#include "tapegrad/tests/docs/torch_functions.h"
  };
  return table;
}
#undef TOPIC
#undef HERE
#undef NEAR
#undef ABSENT

using Tensors = std::map<std::string, Tensor>;

// Where a tape tracks these, our ops are an error, and PyTorch's give them no gradient.
const std::set<std::string> kUntracked = {"F.cosine_embedding_loss/y", "F.hinge_embedding_loss/y"};

// The results and gradients of a case, by the names of golden_table.py; or "raises".
Tensors ours(const std::string& key, Row row, const Tensors& theirs) {
  Names names;
  Tensors found;
  std::vector<std::string> wrt;
  std::vector<Tensor> leaves, outs, roots, seeds;
  Tape tape;
  for (const auto& [name, tensor] : names.tensors) {
    const auto given = theirs.find(name);
    if (given == theirs.end()) continue;
    *tensor = given->second.clone();
    if (theirs.count("grad_" + name) == 0) continue;
    if (kUntracked.count(key.substr(0, key.rfind('@')) + "/" + name) > 0) {
      found["grad_" + name] = Tensor::zeros(tensor->shape(), tensor->dtype());
      continue;
    }
    tape.watch(*tensor);
    wrt.push_back(name);
    leaves.push_back(*tensor);
  }
  try {
    outs = row(names, tape);
  } catch (const Error&) {
    return {{"raises", Tensor::scalar(1)}};
  }
  const double constant = key.find("dy=inf") != std::string::npos ? INFINITY : 1;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    found["out" + std::to_string(i)] = outs[i];
    if (wrt.empty() || !tape.tracks(outs[i])) continue;
    const auto dout = theirs.find("dout" + std::to_string(i));
    if (dout != theirs.end() && dout->second.shape() != outs[i].shape()) return found;
    roots.push_back(outs[i]);
    seeds.push_back(dout != theirs.end()
                        ? dout->second
                        : Tensor::full(outs[i].shape(), constant, outs[i].dtype()));
  }
  Grads grads(wrt.size());
  if (!roots.empty()) grads = tape.gradient(roots, leaves, {.seeds = seeds});
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    found["grad_" + wrt[i]] =
        grads[i].defined() ? grads[i] : Tensor::zeros(leaves[i].shape(), leaves[i].dtype());
  }
  return found;
}

bool agrees(double a, double b, double rounding, double least) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= rounding * std::abs(b) + least;
}

// Places where ours and PyTorch's differ: how many of each row, and a line for each.
struct Differences {
  std::map<std::string, int> counts;
  std::string lines;

  void add(const std::string& key, const std::string& what) {
    ++counts[key.substr(0, key.rfind('@'))];
    lines += key + what + "\n";
  }

  void compare(const std::string& key, const Tensor& ours, const Tensor& theirs) {
    if (ours.shape() != theirs.shape()) {
      return add(key, fmt::format(": shape {}, PyTorch's {}", ours.shape(), theirs.shape()));
    }
    const bool f32 = theirs.dtype() == DType::f32;
    const double rounding = f32 ? 5e-6 : 1e-13;
    // Denormals need not agree, nor what is left of numbers around 1 that cancel.
    const bool cancels = key.find("special") == std::string::npos || key.find("F.normalize") == 0 ||
                         key.find("F.cosine_similarity") == 0;
    const double least = cancels ? 2 * rounding : f32 ? 2e-38 : 1e-307;
    for (std::int64_t i = 0; i < theirs.numel(); ++i) {
      if (agrees(ours.at(i), theirs.at(i), rounding, least)) continue;
      add(key, fmt::format(" at {}: {:g}, PyTorch's {:g}", i, ours.at(i), theirs.at(i)));
    }
  }

  void compare_case(const std::string& key, const Tensors& theirs) {
    const Tensors found = ours(key, rows().at(key.substr(0, key.rfind('@'))), theirs);
    const bool raises = theirs.count("raises") > 0;
    if (found.count("raises") > 0 || raises) {
      if (found.count("raises") == 0) add(key, ": PyTorch raises");
      if (!raises) add(key, ": we raise");
      return;
    }
    for (const auto& [part, t] : theirs) {
      if (!part.starts_with("out") && !part.starts_with("grad_")) continue;
      const auto it = found.find(part);
      if (it == found.end()) {
        add(key, "/" + part + ": we have none");
      } else {
        compare(key + "/" + part, it->second, t);
      }
    }
  }
};

// Of each row, at how many places at most we differ on purpose.
const std::map<std::string, int> kOnPurpose = {
    // Rows that docs/ops.md marks as near, and single ops of which docs/exactness.md says the same.
    {"torch.acos", 24},
    {"torch.asin", 24},
    {"torch.amax", 120},
    {"torch.amin", 120},
    {"torch.clamp, .clip", 8},
    {"torch.cosh", 36},
    {"torch.sinh", 8},
    {"torch.cumprod", 651},
    {"torch.floor_divide", 32},
    {"torch.fmod", 154},
    {"torch.remainder", 148},
    {"torch.linalg.vector_norm", 280},
    {"torch.nan_to_num", 3},
    {"F.soft_margin_loss", 12},
    {"F.instance_norm", 1},
    {"F.adaptive_avg_pool2d", 1},
    {"torch.erf", 4},
    {"F.gelu", 4},
    {"torch.logsumexp", 8},
    {"torch.reciprocal", 2},
    {"F.hardsigmoid", 39},
    {"F.binary_cross_entropy", 7},
    // Powers, squares and products that leave f32 or f64 in PyTorch, and do not here.
    {"F.cosine_embedding_loss", 372},
    {"F.cosine_similarity", 144},
    {"F.normalize", 28},
    {"F.pairwise_distance", 240},
    {"F.triplet_margin_loss", 240},
    {"torch.norm", 262},
    {"torch.prod", 2},
    {"torch.std", 16},
    // PyTorch raises where there are no channels, no outputs or no ids, or gives a result without
    // channels; ours are empty, or zeros and the bias.
    {"F.avg_pool1d", 1},
    {"F.avg_pool2d", 1},
    {"F.max_pool1d", 1},
    {"F.max_pool2d", 1},
    {"F.batch_norm", 1},
    {"F.group_norm", 1},
    {"F.interpolate", 1},
    {"F.conv1d", 5},
    {"F.conv2d", 5},
    {"F.embedding_bag", 1},
    // PyTorch adds to a row that does not exist, without a gradient; ours is an error.
    {"torch.index_add", 1},
};

// Rows without a case: what they give are no numbers, or other draws, or it is compared elsewhere.
const std::set<std::string> kWithoutCase = {"F.adaptive_max_pool1d",
                                            "F.adaptive_max_pool2d",
                                            "F.affine_grid, F.grid_sample",
                                            "F.conv_transpose1d",
                                            "F.cross_entropy, class probabilities",
                                            "F.cross_entropy, weight, label_smoothing",
                                            "F.embedding, padding_idx",
                                            "F.gumbel_softmax",
                                            "F.interpolate, scale_factor",
                                            "F.pad, mode",
                                            "Tensor.backward",
                                            "Tensor.dtype",
                                            "Tensor.grad",
                                            "Tensor.requires_grad_",
                                            "Tensor.retain_grad, torch.autograd.grad",
                                            "nn.RNN, nn.LSTM, nn.GRU",
                                            "nn.RNNCell, nn.GRUCell, nn.LSTMCell",
                                            "nn.init.calculate_gain",
                                            "nn.init.kaiming_normal_",
                                            "nn.init.kaiming_uniform_",
                                            "nn.init.orthogonal_",
                                            "nn.init.trunc_normal_",
                                            "nn.init.xavier_normal_",
                                            "nn.init.xavier_uniform_",
                                            "nn.utils.clip_grad_norm_",
                                            "nn.utils.clip_grad_value_",
                                            "torch.autograd.functional.hessian",
                                            "torch.autograd.functional.hvp",
                                            "torch.autograd.functional.jacobian",
                                            "torch.autograd.functional.jvp",
                                            "torch.autograd.functional.vjp",
                                            "torch.bernoulli",
                                            "torch.empty",
                                            "torch.empty_like",
                                            "torch.from_numpy",
                                            "torch.func.vmap of torch.func.grad",
                                            "torch.manual_seed",
                                            "torch.randint"};

}  // namespace tapegrad::table_values

using namespace tapegrad;
using namespace tapegrad::table_values;

TEST_CASE("the table's expressions give what PyTorch's functions give", "[golden][docs]") {
  std::map<std::string, Tensors> cases;
  std::set<std::string> without;
  for (const auto& [name, row] : rows()) without.insert(name);
  const SafeTensors file = load_safetensors(testing::golden_file("table.safetensors").string());
  for (const auto& [name, tensor] : file.tensors) {
    const std::size_t slash = name.rfind('/');
    cases[name.substr(0, slash)][name.substr(slash + 1)] = tensor;
    without.erase(name.substr(0, name.rfind('@')));
  }
  CHECK(without == kWithoutCase);
  Differences differences;
  for (const auto& [key, theirs] : cases) {
    if (key.find("@each ") == std::string::npos) {
      differences.compare_case(key, theirs);
      continue;
    }
    for (std::int64_t i = 0; i < theirs.begin()->second.dim(0); ++i) {
      Tensors one;
      for (const auto& [part, t] : theirs) one[part] = select(t, 0, i);
      differences.compare_case(key + " " + std::to_string(i), one);
    }
  }
  INFO(differences.lines);
  for (const auto& [row, count] : differences.counts) {
    INFO(row);
    const auto known = kOnPurpose.find(row);
    CHECK(count <= (known == kOnPurpose.end() ? 0 : known->second));
  }
  for (const auto& [row, count] : kOnPurpose) {
    INFO(row << " agrees now");
    CHECK(differences.counts.count(row) == 1);
  }
}
