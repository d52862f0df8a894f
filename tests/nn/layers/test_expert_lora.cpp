// Adapters of experts and routers: what they add, how they merge, and models without them.

#include <map>
#include <string>

#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/nn/layers/experts.h"
#include "tapegrad/nn/lora/lora.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

const nn::LoraOptions kEverywhere{.rank = 2, .alpha = 3, .targets = {"*"}};

std::map<std::string, Tensor> copies_of(const nn::Params& params) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, t] : params.tensors()) all[name] = t.clone();
  return all;
}

nn::Experts make_mixture(const nn::Params& p) {
  return {p,
          4,
          {.experts = 5, .shared_inner = 3},
          {.hidden = 6, .bias = false, .gated = true, .activation = nn::Activation::silu},
          {}};
}

}  // namespace

TEST_CASE("adapters of experts add what merging adds to each matrix, with gradients",
          "[experts][lora]") {
  Rng rng(11);
  const nn::Params base(rng, DType::f64);
  const nn::Experts plain = make_mixture(base);
  const nn::Params params(memory_source(copies_of(base), "base"), DType::f64);
  params.adapt(kEverywhere, &rng);
  const nn::Experts adapted = make_mixture(params);
  const Tensor x = Tensor::randn({9, 4}, rng, DType::f64);
  CHECK(same_bits(adapted(x), plain(x)));  // B is 0
  CHECK(adapted.c_fc.adapter.A.shape() == Shape{5, 2, 4});
  CHECK(adapted.c_fc.adapter.B.shape() == Shape{5, 6, 2});
  CHECK(adapted.router.adapter.exists());
  for (const auto& [name, t] : params.parameters()) CHECK_THAT(name, ContainsSubstring(".lora_"));

  randomize(params.parameters(), rng);
  std::map<std::string, Tensor> tensors = copies_of(params);
  const auto sum_of_both = nn::merge_adapters(memory_source(tensors, "adapted"), kEverywhere);
  const nn::Experts merged = make_mixture(nn::Params(sum_of_both, DType::f64));
  CHECK(difference(adapted(x), merged(x), 1e-12, 1e-12) == "");
  CHECK(difference(adapted(x), plain(x), 1e-2, 1e-2) != "");
  const auto checks = check_function(
      "adapted", [&] { return sum(adapted(x) * adapted(x)); }, params.parameters());
  // A and B of the router, and of three layers of the experts and of the shared one.
  CHECK(checks.size() == 14);
  for (const GradientCheck& check : checks) {
    INFO(check.str());
    CHECK(check.passed);
  }

  tensors.at("experts.c_fc.lora_B.weight") = Tensor::zeros({5, 6, 3}, DType::f64);
  CHECK_THROWS_WITH(nn::merge_adapters(memory_source(tensors, "adapted"), kEverywhere),
                    ContainsSubstring("which are not of rank 2"));
}

TEST_CASE("adapters that earlier versions kept beside experts are all that there are",
          "[experts][lora]") {
  nn::DecoderConfig config = tiny_config();
  config.arch = nn::Architecture::llama;
  config.moe.experts = 4;
  Rng rng(6);
  const nn::Params base(rng);
  const nn::Decoder plain(base, config);
  const nn::Params made(memory_source(copies_of(base), "base"));
  made.adapt(kEverywhere, &rng);
  const nn::Decoder all(made, config);
  std::map<std::string, Tensor> kept = copies_of(made);
  const std::size_t before = kept.size();
  std::erase_if(kept, [](const auto& entry) {
    return entry.first.find(".mlp.") != std::string::npos &&
           entry.first.find(".lora_") != std::string::npos;
  });
  REQUIRE(before - kept.size() == 2 * 2 * 4);  // of two blocks: a router, and three of experts
  const auto open = [&](const std::map<std::string, Tensor>& tensors) {
    const nn::Params params(memory_source(tensors, "kept"));
    params.adapt(kEverywhere);
    const nn::Decoder decoder(params, config);
    CHECK(decoder.h[0].attn.c_proj.adapter.exists());
    return decoder.h[0].experts.router.adapter.exists();
  };
  CHECK_FALSE(open(kept));
  CHECK(open(copies_of(made)));
  // Half an adapter is none of an earlier version, and neither is one that attention lacks.
  std::map<std::string, Tensor> half = copies_of(made);
  const std::string router = "layers.0.mlp.gate.lora_B.weight";
  REQUIRE(half.erase(router) == 1);
  CHECK_THROWS_WITH(open(half), ContainsSubstring(router));
}

TEST_CASE("a reference has no adapters of experts and routers", "[experts][lora]") {
  nn::DecoderConfig config = tiny_config();
  config.arch = nn::Architecture::llama;
  config.moe.experts = 4;
  Rng rng(5);
  const nn::Params base(rng);
  const nn::Decoder plain(base, config);
  const nn::Params params(memory_source(copies_of(base), "base"));
  params.adapt(kEverywhere, &rng);
  const nn::Decoder adapted(params, config);
  randomize(params.parameters(), rng);
  const Tensor ids = Tensor::from<std::int32_t>({1, 5, 10, 0, 3}, {1, 5});
  CHECK(same_bits(nn::without_adapters(adapted)(ids), plain(ids)));
  CHECK_FALSE(same_bits(adapted(ids), plain(ids)));
}
