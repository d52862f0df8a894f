#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// The model's name for a weight of the tutorials' GPT-2.
std::string name_of(std::string name) {
  const std::vector<std::pair<std::string, std::string>> renamed = {
      {"tok_emb.", "wte."},   {"pos_emb.", "wpe."},     {"out_head.", "lm_head."},
      {"trf_blocks.", "h."},  {"out_proj.", "c_proj."}, {"att.", "attn."},
      {"ff.0.", "mlp.c_fc."}, {"ff.2.", "mlp.c_proj."},
  };
  for (const auto& [theirs, ours] : renamed) {
    const std::size_t at = name.find(theirs);
    if (at != std::string::npos) name.replace(at, theirs.size(), ours);
  }
  return name;
}

}  // namespace

TEST_CASE("GPT-2 124M from seed 123 has the weights, logits and continuation of the tutorials",
          "[golden][slow]") {
  const auto facts = golden_json("book.json");
  Rng rng(facts.at("seed").get<std::uint64_t>());
  const nn::Params params(rng);
  const nn::GPT gpt(params, {.qkv_bias = false, .tied = false, .separate_qkv = true});
  CHECK(params.count() == 163'009'536);
  CHECK(params.count() == facts.at("parameters").get<std::int64_t>());

  const std::map<std::string, Tensor> weights(params.parameters().begin(),
                                              params.parameters().end());
  for (const auto& [name, fingerprint] : facts.at("weights").items()) {
    INFO(name);
    const Tensor& t = weights.at(name_of(name));
    CHECK(fingerprint_difference(t.values<float>(), fingerprint) == "");
  }

  const std::vector<std::int32_t> prompt = facts.at("prompt");
  const Tensor logits = gpt.last_logits(Tensor::from(prompt, {1, 4}));
  const std::vector<double> head = facts.at("last_logits_head");
  for (std::size_t i = 0; i < head.size(); ++i) {
    CHECK(std::abs(logits.at(static_cast<std::int64_t>(i)) - head[i]) < 1e-5);
  }
  // 50257 logits, each off by 1e-6 or so.
  CHECK(sum(logits).item() == Approx(facts.at("last_logits_sum").get<double>()).margin(1e-2));

  const std::vector<std::int32_t> continuation = facts.at("continuation");
  CHECK(nn::generate(gpt, {prompt}, {.max_new_tokens = 10, .greedy = true})[0] == continuation);
  CHECK(continuation == std::vector<std::int32_t>{27018, 24086, 47843, 30961, 42348, 7267, 49706,
                                                  43231, 47062, 34657});
}
