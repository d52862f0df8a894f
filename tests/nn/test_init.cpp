#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

void check_fingerprints(const nn::Params& params, const nlohmann::json& weights) {
  CHECK(params.parameters().size() == weights.size());
  for (const auto& [name, t] : params.parameters()) {
    INFO(name);
    REQUIRE(weights.contains(name));
    CHECK(fingerprint_difference(t.values<float>(), weights.at(name)) == "");
  }
}

}  // namespace

TEST_CASE("Linear draws the bits of nn.Linear", "[golden][init]") {
  const auto json = golden_json("init.json");
  for (const auto& facts : json.at("linear")) {
    INFO(facts.at("in") << " to " << facts.at("out"));
    Rng rng(123);
    const nn::Params params(rng);
    const nn::Linear layer(params, facts.at("in"), facts.at("out"));
    check_fingerprints(params, facts.at("weights"));
  }
}

TEST_CASE("Embedding draws the bits of nn.Embedding", "[golden][init]") {
  const auto json = golden_json("init.json");
  for (const auto& facts : json.at("embedding")) {
    INFO(facts.at("rows") << " by " << facts.at("width"));
    Rng rng(123);
    const nn::Params params(rng);
    const nn::Embedding layer(params, facts.at("rows"), facts.at("width"));
    check_fingerprints(params, facts.at("weights"));
  }
}

TEST_CASE("init_gpt2 draws the bits of nanoGPT, and leaves the generator where it does",
          "[golden][init]") {
  const auto json = golden_json("init.json");
  for (const auto& facts : json.at("gpt")) {
    INFO("seed " << facts.at("seed") << ": " << facts.at("config"));
    Rng rng(facts.at("seed").get<std::uint64_t>());
    const nn::Params params(rng);
    const nn::GPT gpt(params, golden_config(facts.at("config")));
    nn::init_gpt2(gpt, params, rng);
    check_fingerprints(params, facts.at("weights"));
    CHECK(static_cast<double>(rng.uniform()) == facts.at("next_uniform").get<double>());
  }
}

// Both sides round in f32 and drift apart slowly: after 50 steps the losses differ by less than
// 1e-5 of themselves.
TEST_CASE("a training run from a seed has nanoGPT's losses", "[golden][init]") {
  const auto facts = golden_json("init.json").at("training");
  const nn::DecoderConfig config = golden_config(facts.at("config"));
  std::vector<std::int32_t> text(facts.at("tokens").get<std::size_t>());
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<std::int32_t>((i * i + i / 5) % 17);

  Rng rng(facts.at("seed").get<std::uint64_t>());
  const nn::Params params(rng);
  const nn::GPT gpt(params, config);
  nn::init_gpt2(gpt, params, rng);
  optim::AdamW adamw(params.parameters(), {.beta1 = facts.at("betas").at(0),
                                           .beta2 = facts.at("betas").at(1),
                                           .eps = facts.at("eps"),
                                           .weight_decay = facts.at("weight_decay")});
  const std::int64_t B = facts.at("batch_size"), T = config.block_size;
  for (const double expected : facts.at("losses")) {
    std::vector<std::int32_t> inputs, targets;
    for (std::int64_t b = 0; b < B; ++b) {
      const auto start = text.begin() + rng.randint(static_cast<std::int64_t>(text.size()) - T);
      inputs.insert(inputs.end(), start, start + T);
      targets.insert(targets.end(), start + 1, start + 1 + T);
    }
    Tape tape;
    const Tensor loss =
        cross_entropy(gpt(Tensor::from(inputs, {B, T})), Tensor::from(targets, {B, T}));
    CHECK(loss.item() == Approx(expected).epsilon(1e-5));
    tape.backward(loss);
    optim::clip_grad_norm(params.parameters(), facts.at("grad_clip"));
    adamw.step(facts.at("lr"));
    adamw.zero_grad();
  }
}
