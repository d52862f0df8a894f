// Layers with PyTorch's names, against the numbers of golden_layers.py.

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tapegrad/autograd/tensor/safetensors.h"
#include "tapegrad/nn/image_layers.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/nn/multi_head_attention.h"
#include "tapegrad/nn/sequential.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Given = std::map<std::string, Tensor>;
// Makes a layer of the parameters, and runs it on the inputs of the file.
using LayerRun = std::function<Tensor(const nn::Params& p, const Given& in)>;

LayerRun bag(BagMode mode, std::optional<std::int64_t> padding = {}) {
  return [=](const nn::Params& p, const Given& in) {
    const auto factors = in.find("per_sample_weights");
    return nn::EmbeddingBag(p, 7, 5, mode, padding)(
        in.at("input"), in.at("offsets"), factors == in.end() ? Tensor() : factors->second);
  };
}

// Of itself, or of a query to keys and values; with the weights, whose mean PyTorch returns.
LayerRun attention_of(int heads, bool bias, bool across) {
  return [=](const nn::Params& p, const Given& in) {
    const nn::MultiHeadAttention layer = nn::torch_attention(p, 6, heads, {.bias = bias});
    const auto mask = in.find("key_padding_mask");
    const Tensor padding = mask == in.end() ? Tensor() : mask->second.to(DType::boolean);
    const Tensor &query = in.at("query"), &key = in.at(across ? "key" : "query");
    const Tensor means =
        mean(across ? layer.weights(query, key, padding) : layer.weights(query, padding), {1});
    CHECK(difference(means, in.at("weights"), 1e-6, 1e-6) == "");
    return across ? layer(query, key, in.at("value"), nullptr, padding)
                  : layer(query, nullptr, padding);
  };
}

const std::map<std::string, LayerRun>& torch_layers() {
  static const std::map<std::string, LayerRun> layers = {
      {"transposed",
       [](const nn::Params& p, const Given& in) {
         const nn::ConvTranspose2d layer(
             p, 4, 6, {3, 2},
             {.stride = {2, 1}, .padding = 1, .output_padding = {1, 0}, .groups = 2});
         return layer(in.at("input"));
       }},
      {"transposed_plain",
       [](const nn::Params& p, const Given& in) {
         return nn::ConvTranspose2d(p, 3, 2, 4, {.stride = 2, .padding = 1}, false)(in.at("input"));
       }},
      {"bag_sum", bag(BagMode::sum)},
      {"bag_weighted", bag(BagMode::sum, 3)},
      {"bag_mean", bag(BagMode::mean)},
      {"bag_padded", bag(BagMode::mean, -1)},
      {"bag_max", bag(BagMode::max)},
      {"bag_max_padded", bag(BagMode::max, 6)},
      {"attention", attention_of(3, true, false)},
      {"attention_plain", attention_of(2, false, false)},
      {"attention_across", attention_of(2, true, true)},
  };
  return layers;
}

// The tensors of one layer and dtype, without the prefix.
Given facts_of(const std::string& layer, DType dtype) {
  static const Given all = load_safetensors(golden_file("layers.safetensors").string()).tensors;
  const std::string prefix = layer + (dtype == DType::f32 ? "/f32/" : "/f64/");
  Given facts;
  for (const auto& [key, t] : all) {
    if (key.rfind(prefix, 0) == 0) facts[key.substr(prefix.size())] = t;
  }
  return facts;
}

nn::Params stored_params(const std::string& layer, DType dtype) {
  const std::string prefix = layer + (dtype == DType::f32 ? "/f32/" : "/f64/") + "param/";
  return nn::Params(open_safetensors(golden_file("layers.safetensors").string()), dtype,
                    Precision::full, nn::NameMap({{.prefix = "", .source_prefix = prefix}}));
}

}  // namespace

TEST_CASE("PyTorch's layers draw its bits under its names", "[torch_layers][golden]") {
  for (const auto& [name, run] : torch_layers()) {
    Given facts = facts_of(name, DType::f32);
    Rng rng(123);
    const nn::Params params(rng);
    run(params, facts);
    std::size_t found = 0;
    for (const auto& [key, t] : facts) found += key.rfind("param/", 0) == 0;
    CHECK(params.tensors().size() == found);
    for (const auto& [key, t] : params.tensors()) {
      INFO(name << ' ' << key);
      CHECK(same_bits(t, facts["param/" + key]));
    }
  }
}

TEST_CASE("a state_dict of PyTorch's layers gives its outputs and gradients",
          "[torch_layers][golden]") {
  for (const auto& [name, run] : torch_layers()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      Given facts = facts_of(name, dtype);
      const double near = dtype == DType::f32 ? 1e-6 : 1e-12;
      const nn::Params params = stored_params(name, dtype);
      Tape tape;
      std::vector<std::string> watched;
      for (const auto& [key, t] : facts) {
        if (facts.count("grad_" + key) == 0) continue;
        tape.watch(t);
        watched.push_back(key);
      }
      const Tensor y = run(params, facts);
      INFO(name << ' ' << name_of(dtype));
      CHECK(difference(y, facts["y"], near, near) == "");
      const Tensor loss = sum(y * cos(y));
      for (const std::string& key : watched) {
        INFO(key);
        CHECK(difference(tape.gradient(loss, {facts[key]}, {.keep = true})[0], facts["grad_" + key],
                         2 * near, 2 * near) == "");
      }
      tape.backward(loss);
      for (const auto& [key, t] : params.parameters()) {
        INFO(key);
        CHECK(difference(t.grad(), facts["grad/" + key], 4 * near, 4 * near) == "");
      }
    }
  }
}

TEST_CASE("bags of embeddings name what does not fit", "[torch_layers]") {
  const Tensor w = Tensor::ones({3, 2}), five = ids({0, 1, 2, 1, 0});
  const auto fails = [&](const EmbeddingBagOptions& options, const std::string& text) {
    CHECK_THROWS_WITH(embedding_bag(w, five, options), ContainsSubstring(text));
  };
  fails({}, "[embedding_bag] ids must be (B, L), or (N) with offsets, not (5)");
  fails({.offsets = ids({1, 2})}, "bag 0 cannot begin at 1");
  fails({.offsets = ids({0, 3, 2})},
        "bag 2 cannot begin at 2: offsets rise from 0 up to the 5 ids");
  fails({.offsets = ids({0, 6})}, "bag 1 cannot begin at 6");
  fails({.offsets = ids({})}, "5 ids are in no bag");
  fails({.offsets = ids({0}), .padding_idx = 3}, "padding_idx 3 is outside the 3 rows");
  fails({.offsets = ids({0}), .per_sample_weights = Tensor::ones({5})}, "for BagMode::sum");
  fails({.mode = BagMode::sum, .offsets = ids({0}), .per_sample_weights = Tensor::ones({4})},
        "(5) and per_sample_weights (4) differ");
  CHECK_THROWS_WITH(embedding_bag(w, ids({0, 3}), {.offsets = ids({0})}),
                    ContainsSubstring("id 3 at position 1 is outside the 3 rows"));
  Rng rng(1);
  CHECK_THROWS_WITH(nn::EmbeddingBag(nn::Params(rng), 3, 2, BagMode::sum, -4),
                    ContainsSubstring("[EmbeddingBag] padding_idx -4"));
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    CHECK(list(embedding_bag(w, ids({}), {.mode = mode, .offsets = ids({0, 0})})) ==
          std::vector<double>(4, 0.0));
    CHECK(embedding_bag(w, ids({}), {.mode = mode, .offsets = ids({})}).shape() == Shape{0, 2});
  }
}

TEST_CASE("PyTorch's attention names what does not fit, and may be causal", "[torch_layers]") {
  Rng rng(1);
  const nn::Params p(rng);
  CHECK_THROWS_WITH(nn::torch_attention(p / "a", 6, 4),
                    ContainsSubstring("[torch_attention] 4 heads do not divide 6 channels"));
  const nn::MultiHeadAttention causal = nn::torch_attention(p / "b", 6, 2, {.causal = true});
  const Tensor x = normal(rng, {1, 3, 6}, DType::f32);
  CHECK_THROWS_WITH(causal(x, x, x), ContainsSubstring("neither causal"));
  CHECK(causal.weights(x).at({0, 1, 0, 2}) == 0);
  CHECK(causal.weights(x).at({0, 1, 2, 0}) > 0);
}

TEST_CASE("Sequential runs layers, ops and lambdas, and hands on an Rng", "[torch_layers]") {
  Rng rng(1);
  const nn::Params p(rng);
  nn::Sequential net{nn::Linear(p / 0, 3, 4), relu,
                     [](const Tensor& x, Rng* draws) { return nn::maybe_dropout(x, 0.5, draws); },
                     nn::Linear(p / 3, 4, 2)};
  CHECK(p.parameters()[2].first == "3.weight");
  const Tensor x = normal(rng, {5, 3}, DType::f32);
  const auto by_hand = [&](Rng* draws) {
    const auto& t = p.parameters();
    const Tensor hidden = relu(linear(x, t[0].second, t[1].second));
    return linear(nn::maybe_dropout(hidden, 0.5, draws), t[2].second, t[3].second);
  };
  CHECK(same_bits(net(x), by_hand(nullptr)));
  Rng one(7), same(7);
  CHECK(same_bits(net(x, &one), by_hand(&same)));
  const nn::Sequential nested(net, [](const Tensor& y) { return y * 2.0; });
  CHECK(same_bits(nested(x), net(x) * 2.0));
  const nn::Sequential copy(net);
  net.append([](const Tensor& y, Rng*) { return -y; });
  CHECK(same_bits(net(x), -copy(x)));
}

TEST_CASE("fill and assign write into a tensor, NaNs included", "[torch_layers]") {
  Tensor x = Tensor::full({2, 3}, NAN), whole = ids({1, 2});
  const Tensor shared = x.view({6});
  fill(x, 0);
  CHECK(list(shared) == std::vector<double>(6, 0.0));
  assign(x, Tensor::from<float>({1, 2, 3}, {3}));
  CHECK(list(shared) == std::vector<double>{1, 2, 3, 1, 2, 3});
  CHECK(list(fill(whole, 7)) == std::vector<double>{7, 7});
  Tensor truth = Tensor::zeros({2}, DType::boolean);
  CHECK(list(fill(truth, 1)) == std::vector<double>{1, 1});
  CHECK_THROWS_WITH(fill(whole, 0.5), ContainsSubstring("0.5"));
  CHECK_THROWS_WITH(assign(x, Tensor::ones({2})), ContainsSubstring("[assign]"));
  Tape tape;
  tape.watch(x);
  CHECK_THROWS_WITH(fill(x, 0), ContainsSubstring("[assign] a live tape tracks"));
}
