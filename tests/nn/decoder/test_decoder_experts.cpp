// Models with experts: their losses, texts, options and summary.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

nn::DecoderConfig mixture_config() {
  nn::DecoderConfig c = tiny_config();
  c.arch = nn::Architecture::llama;
  c.moe.experts = 4;
  return c;
}

}  // namespace

TEST_CASE("a selection bias is saved, and is neither trained nor quantised", "[experts]") {
  nn::DecoderConfig c = mixture_config();
  c.moe.selection_bias = true;
  Rng rng(3);
  const nn::Params p(rng);
  const nn::Decoder model(p, c);
  Tensor bias = model.h[0].experts.selection_bias;
  bias += Tensor::from<float>({1, 2, 3, 4}, {4});
  const std::string name = "layers.0.mlp.expert_bias";
  const auto names = [&](const NamedTensors& tensors) {
    return std::count_if(tensors.begin(), tensors.end(),
                         [&](const auto& t) { return t.first == name; });
  };
  CHECK((names(p.tensors()) == 1 && names(p.parameters()) == 0));
  CHECK(!bias.requires_grad());
  const std::map<std::string, Tensor> tensors(p.tensors().begin(), p.tensors().end());
  const nn::Params again(memory_source(tensors, "memory"));
  again.quantize(&stored_type("q8_0"));
  const nn::Decoder opened(again, c);
  CHECK(difference(opened.h[0].experts.selection_bias, bias, 0, 0) == "");
}

TEST_CASE("a text of a model with experts has the bits that it has alone", "[experts]") {
  for (const char* type : {"", "q8_0"}) {
    nn::DecoderConfig c = mixture_config();
    c.n_embd = 64, c.n_head = 2, c.moe.inner = 96, c.moe.experts = 5, c.moe.top_k = 3;
    Rng rng(4);
    const nn::Params exact(rng), packed(rng);
    if (*type != 0) packed.quantize(&stored_type(type));
    const nn::Decoder model(*type == 0 ? exact : packed, c);
    CHECK(model.all_quantized() == (*type != 0));
    constexpr std::int32_t kTexts = 7;
    std::deque<nn::KVCache> alone, together;
    std::vector<nn::KVCache*> caches;
    std::vector<std::int32_t> next;
    for (std::int32_t i = 0; i < kTexts; ++i) {
      const Tensor prompt = Tensor::from<std::int32_t>({i, 2, i + 1}, {1, 3});
      for (auto* all : {&alone, &together}) all->emplace_back(6);
      for (auto* all : {&alone, &together})
        model.states(prompt, (*all)[static_cast<std::size_t>(i)]);
      caches.push_back(&together[static_cast<std::size_t>(i)]);
      next.push_back(i);
    }
    const Tensor all = model.last_logits(Tensor::from(next, {kTexts, 1}), caches);
    for (std::int32_t i = 0; i < kTexts; ++i) {
      const Tensor own = model.last_logits(Tensor::from<std::int32_t>({i}, {1, 1}),
                                           alone[static_cast<std::size_t>(i)]);
      CHECK(difference(own, slice(all, 0, i, i + 1), 0, 0) == "");
    }
  }
}

TEST_CASE("a training loss has routers' losses, an evaluation not, also with recomputation",
          "[experts]") {
  nn::DecoderConfig c = mixture_config();
  c.moe.pattern = "DE";
  c.moe.z_loss = 0.5;
  c.n_layer = 4;
  Rng rng(2);
  const nn::Params p(rng);
  nn::Decoder model(p, c);
  CHECK((model.h[0].mlp.exists() && !model.h[0].experts.exists()));
  CHECK((!model.h[3].mlp.exists() && model.h[3].experts.exists()));
  const Tensor ids = Tensor::from<std::int32_t>({1, 2, 3, 4, 5, 6}, {1, 6});
  const auto trained = [&](nn::RouterLosses* routers) {
    Rng dropout(1);
    return model.loss(ids, ids, &dropout, -100, routers);
  };
  nn::RouterLosses routers;
  const Tensor loss = trained(&routers);
  CHECK(routers.blocks.size() == 2);
  CHECK(difference(loss, model.loss(ids, ids) + routers.balance * 0.01 + routers.z * 0.5, 1e-6,
                   1e-6) == "");
  const auto gradients = [&] {
    std::vector<Tensor> parameters;
    for (const auto& [name, t] : p.parameters()) parameters.push_back(t);
    Tape tape;
    return tape.gradient(trained(nullptr), parameters);
  };
  const std::vector<Tensor> usual = gradients();
  model.recompute = true;
  CHECK(difference(trained(nullptr), loss, 0, 0) == "");
  const std::vector<Tensor> again = gradients();
  for (std::size_t i = 0; i < usual.size(); ++i) CHECK(difference(again[i], usual[i], 0, 0) == "");
}

TEST_CASE("options of experts mean nothing without experts, and are refused by name", "[experts]") {
  const auto complaint = [](const std::function<void(nn::ExpertsConfig&)>& change) {
    nn::DecoderConfig c = mixture_config();
    change(c.moe);
    try {
      c.validate();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(complaint([](auto&) {}).empty());
  CHECK(complaint([](auto& o) { o.experts = 0, o.top_k = 3; }) == "moe_top_k needs moe_experts");
  CHECK(complaint([](auto& o) { o.experts = 0, o.z_loss = 1; }) == "moe_z_loss needs moe_experts");
  CHECK(complaint([](auto& o) { o.bias_rate = 1; }) == "moe_bias_rate needs moe_selection_bias");
  CHECK(complaint([](auto& o) { o.experts = 0, o.selection_bias = true; }) ==
        "moe_selection_bias needs moe_experts");
  CHECK(complaint([](auto& o) { o.shared_gate = true; }) ==
        "moe_shared_gate needs moe_shared_inner");
  CHECK(complaint([](auto& o) { o.top_k = 5; }) == "moe_top_k 5 is more than moe_experts 4");
  CHECK_THAT(complaint([](auto& o) { o.pattern = "EX"; }), ContainsSubstring("moe_pattern 'EX'"));
}

TEST_CASE("the summary tells all parameters from those that a token meets", "[experts]") {
  for (const std::string pattern : {"", "DE", "EED"}) {
    nn::DecoderConfig c = mixture_config();
    c.n_layer = 5, c.moe.pattern = pattern, c.moe.inner = 10, c.moe.shared_inner = 7;
    Rng rng(1);
    const nn::Params params(rng);
    const nn::Decoder model(params, c);
    std::int64_t active = 0;
    for (const auto& [name, t] : params.parameters()) {
      active += t.rank() == 3 ? t.numel() / 2 : t.numel();
    }
    const nn::Summary s = nn::summary(c);
    INFO(pattern << "\n" << s.str());
    CHECK(s.parameters() == params.count());
    CHECK(s.active_parameters() == active);
    CHECK_THAT(s.str(), ContainsSubstring("a token goes to 2 of 4 experts"));
  }
}
