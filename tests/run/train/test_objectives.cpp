// What a decoder learns: the loss, and the model beside it.

#include <cmath>

#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/run/train/objectives/internal/decoder_objective.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

const nn::DecoderConfig kConfig = [] {
  nn::DecoderConfig c;
  c.n_layer = 1, c.n_head = 1, c.n_embd = 8, c.block_size = 8, c.vocab_size = 5;
  return c;
}();

struct Model {
  Rng rng;
  nn::Params params{rng};
  nn::Decoder decoder;
  explicit Model(std::uint64_t seed)
      : rng(seed), decoder(nn::make_decoder(params, kConfig, {.gpt2_weights = &rng})) {}
};

const Tensor kInputs = Tensor::from(std::vector<std::int32_t>{0, 1, 2, 3, 4, 3, 2, 1}, {2, 4});
const Tensor kTargets = Tensor::from(std::vector<std::int32_t>{1, 2, 3, 4, 3, 2, 1, 0}, {2, 4});

float loss_of(const run::DecoderObjective& objective, const run::DecoderModels& models) {
  return objective.loss_of_rows(models, kInputs, kTargets, nullptr).item();
}

std::shared_ptr<const run::OpenedModel> opened() {
  return std::make_shared<run::OpenedModel>(
      run::OpenedModel{.config = kConfig,
                       .tuning = {},
                       .tokenizer = data::Tokenizer::of_characters(std::string_view("abcde")),
                       .weights = {}});
}

}  // namespace

TEST_CASE("texts and conversations have the model's loss, a batch's tokens and no other model",
          "[objectives]") {
  const Model model(1);
  const float expected = model.decoder.loss(kInputs, kTargets).item();
  for (const auto& objective : {run::text_objective(), run::chat_objective()}) {
    CHECK(loss_of(*objective, {model.decoder}) == expected);
    const auto ids = [](const Tensor& t) {
      const auto values = t.values<std::int32_t>();
      return std::vector<data::Token>(values.begin(), values.end());
    };
    const data::Batch batch{.B = 2, .T = 4, .inputs = ids(kInputs), .targets = ids(kTargets)};
    const run::Loss loss = objective->loss({model.decoder}, batch, nullptr);
    CHECK(loss.value.item() == expected);
    CHECK(loss.tokens == 8);
    CHECK_FALSE(objective->second_model());
    CHECK_FALSE(objective->make_second(model.decoder));
    CHECK(objective->metrics().empty());
  }
}

TEST_CASE("a teacher stands beside the objective of the data, whose name and loss remain",
          "[objectives]") {
  const Model model(1), other(2);
  run::TeacherOptions options;
  options.teacher = "big";
  const auto with_weight = [&](double weight) {
    options.weight = weight;
    return run::teacher_objective(run::chat_objective(), options, opened(), Precision::full);
  };
  const auto none = with_weight(0), half = with_weight(0.5);
  const run::DecoderModels models{model.decoder, &other.decoder};
  CHECK(none->name() == "chat");
  CHECK(loss_of(*none, models) == Approx(loss_of(*run::text_objective(), models)));
  CHECK(loss_of(*half, models) != loss_of(*none, models));
  REQUIRE(half->second_model());
  CHECK(half->second_model()->config.n_embd == kConfig.n_embd);
  CHECK(half->about().at(0).text == "big, 0.5 of the loss at temperature 2");
}

TEST_CASE("pairs are compared with a reference, of weights of its own or without adapters",
          "[objectives]") {
  const Model model(1);
  Rng rng(2);
  const auto objective = [](run::PreferenceLoss loss, auto reference) {
    return run::pair_objective({.loss = loss}, reference);
  };
  const run::MemoryOptions::SecondModel weights{.config = kConfig,
                                                .params = [&rng] { return nn::Params(rng); }};
  const auto own = objective(run::PreferenceLoss::dpo, std::optional(weights));
  const auto view = objective(run::PreferenceLoss::dpo, std::nullopt);
  const auto none = objective(run::PreferenceLoss::orpo, std::nullopt);
  CHECK(own->metrics() == std::vector<std::string>{"reward_margin", "reward_accuracy"});
  CHECK(own->second_model());
  CHECK_FALSE(view->second_model());
  CHECK(view->make_second(model.decoder));
  CHECK_FALSE(none->make_second(model.decoder));
  // The model itself, without adapters, is no more likely to say either: −log σ(0).
  CHECK(loss_of(*view, {model.decoder}) == Approx(std::log(2.0)).margin(1e-6));
  const auto second = own->make_second(model.decoder);
  REQUIRE(second);
  CHECK(loss_of(*own, {model.decoder, &*second}) != loss_of(*view, {model.decoder}));
}

TEST_CASE("the rows of pairs in a dry run are as many as those that it is given", "[objectives]") {
  const auto objective = run::pair_objective({.loss = run::PreferenceLoss::orpo}, std::nullopt);
  const auto activations = [&](std::int64_t rows) {
    run::MemoryOptions options;
    options.step.loss = [&](const nn::Decoder& trained, const nn::Decoder*,
                            const nn::TokenRows& ids, const Tensor& targets, Rng* dropout) {
      return objective->loss_of_rows({trained}, ids, targets, dropout);
    };
    return run::estimate_memory(kConfig, rows, options).activations;
  };
  CHECK(activations(8) > 2 * activations(2));
}

TEST_CASE("an objective of two functions passes over a batch by a dry run of its loss",
          "[objectives]") {
  bool dry = false;
  const auto objective = run::objective_of(
      [&] {
        dry = in_dry_run();
        return run::Loss(Tensor::scalar(1, DType::f32));
      },
      [] { return run::Losses{.train = 1, .val = 2}; });
  objective->loss();
  CHECK_FALSE(dry);
  objective->skip_batch();
  CHECK(dry);
  CHECK(objective->evaluate().value().val == 2);
  CHECK(objective->counted(3).empty());
  CHECK(objective->metrics().empty());
}
