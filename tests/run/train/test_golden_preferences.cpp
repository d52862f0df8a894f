// Ten steps on pairs of answers, against PyTorch.

#include "tapegrad/autograd/tape.h"
#include "tapegrad/data/packed_batches.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/preferences.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

const SafeTensors& golden() {
  static const SafeTensors file = load_safetensors(golden_file("preferences.safetensors").string());
  return file;
}

// The golden pairs, packed into rows as a run packs them.
data::Batch golden_pairs() {
  const auto tokens = golden().at("tokens").values<std::int32_t>();
  const auto lengths = golden().at("lengths").values<std::int32_t>();
  auto set = std::make_shared<data::ChatSet>();
  set->pairs = true;
  auto at = tokens.begin();
  const auto part = [&](std::int32_t length) {
    const std::vector<data::Token> some(at, at + length);
    at += length;
    return some;
  };
  for (std::size_t i = 0; i < lengths.size(); i += 3) {
    const auto prompt = part(lengths[i]), chosen = part(lengths[i + 1]);
    const auto rejected = part(lengths[i + 2]);
    data::ChatTokens pair;
    const auto add = [&](const std::vector<data::Token>& answer) {
      pair.tokens.insert(pair.tokens.end(), prompt.begin(), prompt.end());
      const std::int64_t begin = std::ssize(pair.tokens);
      pair.tokens.insert(pair.tokens.end(), answer.begin(), answer.end());
      pair.answers.push_back({begin, std::ssize(pair.tokens)});
    };
    add(chosen);
    pair.second = std::ssize(pair.tokens);
    add(rejected);
    set->add(pair);
  }
  set->files.push_back({set->size(), 1});
  data::PackedBatches batches(set, {.batch_size = 8, .block_size = 24, .shuffle = false}, Rng(1));
  CHECK(batches.counted(1) == std::vector<std::int64_t>{5});
  return batches.next();
}

struct Steps {
  std::vector<double> losses, margins;
};

Steps ten_steps(const nn::Decoder& gpt, const nn::Decoder* reference, const nn::Params& params,
                run::PreferenceLoss loss) {
  const run::PairRows rows = run::pair_rows(golden_pairs());
  optim::AdamW adamw(params.parameters(), {.beta2 = 0.95, .weight_decay = 0.1});
  Steps steps;
  for (int i = 0; i < 10; ++i) {
    Tape tape;
    const run::PairLoss made =
        run::preference_loss(gpt, reference, rows, {.loss = loss, .beta = 0.3});
    tape.backward(made.value);
    adamw.step(1e-3, optim::measure_clipping(params.parameters(), 1.0).factor);
    adamw.zero_grad();
    steps.losses.push_back(made.value.item());
    steps.margins.push_back(run::margins_of(made.margins).mean);
  }
  return steps;
}

void check_steps(const Steps& steps, const char* name) {
  const auto expected = golden().at(name).values<float>();
  for (std::size_t i = 0; i < 10; ++i) {
    CAPTURE(name, i);
    CHECK(steps.losses[i] == Approx(expected[2 * i]).epsilon(1e-5));
    CHECK(steps.margins[i] == Approx(expected[2 * i + 1]).margin(1e-5).epsilon(1e-5));
  }
}

// The golden model, all of whose weights are trained, and a frozen copy.
struct Whole {
  run::OpenedModel opened = run::open_model(golden_file("hf_llama"));
  nn::Params params{opened.weights};
  nn::Decoder gpt = nn::make_decoder(params, opened.config, {});
  run::TextModel reference = run::load_quantized(run::open_model(golden_file("hf_llama")));
};

}  // namespace

TEST_CASE("ten steps of DPO beside a frozen copy have PyTorch's losses and margins",
          "[golden][preferences]") {
  const Whole model;
  const Steps steps = ten_steps(model.gpt, &model.reference.gpt, model.params,  //
                                run::PreferenceLoss::dpo);
  check_steps(steps, "dpo");
}

TEST_CASE("ten steps of length-normalised DPO have PyTorch's losses and margins",
          "[golden][preferences]") {
  const Whole model;
  check_steps(
      ten_steps(model.gpt, &model.reference.gpt, model.params, run::PreferenceLoss::dpo_norm),
      "dpo_norm");
}

TEST_CASE("ten steps of ORPO have PyTorch's losses and margins", "[golden][preferences]") {
  const Whole model;
  check_steps(ten_steps(model.gpt, nullptr, model.params, run::PreferenceLoss::orpo), "orpo");
}

TEST_CASE("ten steps of DPO on adapters, with the model without them as reference, have PyTorch's",
          "[golden][preferences]") {
  const run::OpenedModel opened =
      run::with_adapter(run::open_model(golden_file("hf_llama")), golden_file("hf_llama_lora"));
  const bool packed = GENERATE(false, true);
  nn::Params params(opened.parts);
  if (packed) params.quantize(nullptr, true);
  const nn::Decoder gpt =
      nn::make_decoder(params, opened.config, {.adapters = opened.tuning.adapters()});
  const nn::Decoder reference = nn::without_adapters(gpt);
  check_steps(ten_steps(gpt, &reference, params, run::PreferenceLoss::dpo), "dpo_lora");
}

TEST_CASE("a loss is told whether there is a reference", "[preferences]") {
  const Whole model;
  const run::PairRows rows = run::pair_rows(golden_pairs());
  CHECK_THROWS_WITH(run::preference_loss(model.gpt, nullptr, rows, {}),
                    ContainsSubstring("the loss dpo has a reference model"));
}
