// Layers with PyTorch's names, against the numbers of golden_layers.py.

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/nn/layers/embedding_bag_layer.h"
#include "tapegrad/nn/layers/image_layers.h"
#include "tapegrad/nn/layers/recurrent.h"
#include "tapegrad/nn/layers/sequential.h"
#include "tapegrad/nn/layers/torch_attention.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Given = std::map<std::string, Tensor>;
// Makes a layer of the parameters, and runs it on the inputs of the file.
using LayerRun = std::function<Tensor(const nn::Params& p, const Given& in)>;

LayerRun bag(BagMode mode, std::optional<std::int64_t> padding = {}, bool last_offset = false) {
  return [=](const nn::Params& p, const Given& in) {
    const auto factors = in.find("per_sample_weights");
    nn::EmbeddingBag layer(p, 7, 5, mode, padding);
    layer.include_last_offset = last_offset;
    return layer(in.at("input"), in.at("offsets"),
                 factors == in.end() ? Tensor() : factors->second);
  };
}

// Of itself, or of a query to keys and values; with the weights, whose mean PyTorch returns.
LayerRun attention_of(int heads, const nn::TorchAttentionOptions& options, bool across = false) {
  return [=](const nn::Params& p, const Given& in) {
    const nn::TorchAttention layer(p, 6, heads, options);
    // Masks of bool are stored as u8.
    const auto mask = [&](const char* name) {
      const auto found = in.find(name);
      if (found == in.end()) return Tensor();
      return is_mask(found->second.dtype()) ? found->second.to(DType::boolean) : found->second;
    };
    const nn::TorchAttentionMasks masks{mask("key_padding_mask"), mask("attn_mask")};
    const Tensor &query = in.at("query"), &key = in.at(across ? "key" : "query");
    const Tensor means = mean(layer.weights(query, key, masks), {1});
    CHECK(difference(means, in.at("weights"), 1e-6, 1e-6) == "");
    return across ? layer(query, key, in.at("value"), nullptr, masks)
                  : layer(query, nullptr, masks);
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
      {"bag_last_offset", bag(BagMode::mean, {}, true)},
      {"embedding_padded",
       [](const nn::Params& p, const Given& in) {
         return nn::Embedding(p, 7, 5, 3)(in.at("input"));
       }},
      {"embedding_padded_last",
       [](const nn::Params& p, const Given& in) {
         return nn::Embedding(p, 7, 5, -1)(in.at("input"));
       }},
      {"rnn_cell",
       [](const nn::Params& p, const Given& in) {
         return nn::RNNCell(p, 4, 3)(in.at("input"), in.at("hx"));
       }},
      {"rnn_cell_relu",
       [](const nn::Params& p, const Given& in) {
         return nn::RNNCell(p, 4, 3, false, Nonlinearity::relu)(in.at("input"), in.at("hx"));
       }},
      {"gru_cell",
       [](const nn::Params& p, const Given& in) {
         return nn::GRUCell(p, 4, 3)(in.at("input"), in.at("hx"));
       }},
      {"gru_cell_plain",
       [](const nn::Params& p, const Given& in) {
         return nn::GRUCell(p, 4, 3, false)(in.at("input"));
       }},
      {"lstm_cell",
       [](const nn::Params& p, const Given& in) {
         const auto state = nn::LSTMCell(p, 4, 3)(in.at("input"), {in.at("h"), in.at("c")});
         return concat({state.h, state.c}, -1);
       }},
      {"lstm_cell_plain",
       [](const nn::Params& p, const Given& in) {
         const auto state = nn::LSTMCell(p, 4, 3, false)(in.at("input"));
         return concat({state.h, state.c}, -1);
       }},
      {"attention", attention_of(3, {})},
      {"attention_plain", attention_of(2, {.bias = false})},
      {"attention_across", attention_of(2, {}, true)},
      {"attention_hidden", attention_of(2, {})},
      {"attention_added", attention_of(3, {}, true)},
      {"attention_of_each", attention_of(2, {.bias = false}, true)},
      {"attention_widths", attention_of(2, {.kdim = 4, .vdim = 3}, true)},
      {"attention_widths_plain", attention_of(3, {.bias = false, .vdim = 5}, true)},
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
  fails({.offsets = ids({0, 4}), .include_last_offset = true},
        "offsets end with the number of ids, 5, not 4");
  fails({.offsets = ids({}), .include_last_offset = true}, "needs an offset at least");
  fails({.offsets = ids({0}), .padding_idx = 3}, "padding_idx 3 is outside the 3 rows");
  fails({.offsets = ids({0}), .per_sample_weights = Tensor::ones({5})}, "for BagMode::sum");
  fails({.mode = BagMode::sum, .offsets = ids({0}), .per_sample_weights = Tensor::ones({4})},
        "(5) and per_sample_weights (4) differ");
  CHECK_THROWS_WITH(embedding_bag(w, ids({0, 3}), {.offsets = ids({0})}),
                    ContainsSubstring("id 3 at position 1 is outside the 3 rows"));
  Rng rng(1);
  CHECK_THROWS_WITH(nn::EmbeddingBag(nn::Params(rng), 3, 2, BagMode::sum, -4),
                    ContainsSubstring("[EmbeddingBag] padding_idx -4"));
  CHECK_THROWS_WITH(nn::Embedding(nn::Params(rng), 3, 2, 3),
                    ContainsSubstring("[Embedding] padding_idx 3 is outside the 3 rows"));
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    CHECK(list(embedding_bag(w, ids({}), {.mode = mode, .offsets = ids({0, 0})})) ==
          std::vector<double>(4, 0.0));
    CHECK(embedding_bag(w, ids({}), {.mode = mode, .offsets = ids({})}).shape() == Shape{0, 2});
    const EmbeddingBagOptions no_bag{
        .mode = mode, .offsets = ids({0}), .include_last_offset = true};
    CHECK(embedding_bag(w, ids({}), no_bag).shape() == Shape{0, 2});
  }
}

TEST_CASE("PyTorch's attention names what does not fit, and may be causal", "[torch_layers]") {
  Rng rng(1);
  const nn::Params p(rng);
  CHECK_THROWS_WITH(nn::TorchAttention(p / "a", 6, 4),
                    ContainsSubstring("[TorchAttention] 4 heads do not divide 6 channels"));
  const nn::TorchAttention layer(p / "b", 6, 2);
  const Tensor x = normal(rng, {1, 3, 6}, DType::f32), y = x.clone();
  const nn::TorchAttentionMasks causal{.is_causal = true};
  CHECK(layer.weights(x, x, causal).at({0, 1, 0, 2}) == 0);
  CHECK(layer.weights(x, x, causal).at({0, 1, 2, 0}) > 0);
  const nn::TorchAttentionMasks later{.attn_mask = triu(Tensor::ones({3, 3}), 1).to(DType::u8)};
  CHECK(difference(layer(x, nullptr, causal), layer(x, nullptr, later), 1e-6, 1e-6) == "");
  CHECK(difference(layer(x, y, y, nullptr, causal), layer(x, nullptr, later), 1e-6, 1e-6) == "");
  const auto fails = [&](const Tensor& mask, const std::string& text) {
    CHECK_THROWS_WITH(layer(x, nullptr, {.attn_mask = mask}), ContainsSubstring(text));
    CHECK_THROWS_WITH(layer(x, y, y, nullptr, {.attn_mask = mask}), ContainsSubstring(text));
  };
  fails(Tensor::ones({3, 2}), "attn_mask (3, 2) does not fit scores (B, H, Tq, Tk) = (1, 2, 3, 3)");
  fails(Tensor::ones({1, 3, 3}), "(B·H, T, S) with B·H = 2, not (1, 3, 3)");
  fails(Tensor::ones({3}), "must be (T, S)");
  fails(Tensor::ones({3, 3}, DType::f64), "attn_mask must be bool, u8 or f32, not f64");
}

TEST_CASE("a query whose attn_mask hides all keys gets zeros, and passes no gradient",
          "[torch_layers]") {
  Rng rng(1);
  for (const bool added : {false, true}) {
    INFO(added);
    Tensor mask = added ? Tensor::full({3, 3}, -INFINITY) : Tensor::ones({3, 3}, DType::u8);
    Tensor seen = mask.rows(0, 2);
    fill(seen, 0);
    const Tensor qkv = normal(rng, {1, 3, 12}, DType::f32);
    Tape tape;
    tape.watch(qkv);
    const Tensor y = attention(qkv, 2, {.causal = false, .scores = {.attn_mask = mask}});
    CHECK(list(y[{0, 2}]) == std::vector<double>(4, 0.0));
    const Tensor d = tape.gradient(sum(y), {qkv})[0];
    CHECK(list(d[{0, 2, Range(0, 4)}]) == std::vector<double>(4, 0.0));
    CHECK(std::isfinite(sum(d).item()));
  }
}

TEST_CASE("attention with an attn_mask drops out as without", "[torch_layers]") {
  Rng rng(1);
  const Tensor qkv = normal(rng, {2, 3, 12}, DType::f32);
  Rng one(7), same(7);
  const Tensor masked =
      attention(qkv, 2, {.dropout = 0.5, .rng = &one, .scores = {.attn_mask = Tensor::zeros({1})}});
  CHECK(difference(masked, attention(qkv, 2, {.dropout = 0.5, .rng = &same}), 1e-6, 1e-6) == "");
  CHECK(one.state() == same.state());
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
