#include <cmath>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

const TinyRun& tiny() {
  static const TinyRun run(20);
  return run;
}

Result evaluate(const Args& args) {
  return run_program("evaluate", Args{"--model", tiny().run} + args);
}

nlohmann::json evaluated(const Args& args) {
  const Result r = evaluate(args + Args{"--json"});
  check_ended_well(r);
  return nlohmann::json::parse(r.out);
}

// The sum of −log p and the number of tokens, window by window as the recipe for perplexity goes.
std::pair<double, int> by_the_recipe(const run::TextModel& model,
                                     const std::vector<data::Token>& tokens, std::int64_t length,
                                     std::int64_t stride) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  double nats = 0;
  int count = 0;
  for (std::int64_t begin = 0, before = 0;; begin += stride) {
    const std::int64_t end = std::min(begin + length, n);
    const std::vector<data::Token> ids(tokens.begin() + begin, tokens.begin() + end);
    const Tensor logits = model.gpt(Tensor::from(ids, {1, end - begin}));
    const Tensor log_p = log_softmax(logits, -1);
    const std::int64_t vocab = logits.dim(2);
    for (std::int64_t t = std::max(before, begin + 1); t < end; ++t, ++count) {
      nats -= log_p.at((t - begin - 1) * vocab + ids[static_cast<std::size_t>(t - begin)]);
    }
    before = end;
    if (end == n) return {nats, count};
  }
}

}  // namespace

TEST_CASE("a loss by sliding windows is the one of the recipe for perplexity", "[evaluate]") {
  const run::TextModel model = run::load(tiny().run, DType::f64);
  const auto tokens = model.tokenizer.encode("the cat sat on mat 7 and the dog ate.\nthe cat sat");
  for (const std::int64_t stride : {1, 5, 15}) {
    const auto [nats, count] = by_the_recipe(model, tokens, 16, stride);
    const auto loss = run::loss_of_tokens(model.gpt, model.tokenizer, tokens,
                                          {.batch_size = 3, .block_size = 16, .stride = stride});
    REQUIRE(loss);
    CHECK(loss->tokens == count);
    CHECK(std::abs(loss->loss - nats / count) < 1e-9);
    CHECK(loss->share == 1);
  }
}

TEST_CASE("part of a text is spread over all of it", "[evaluate]") {
  const run::TextModel model = run::load(tiny().run);
  std::string text;  // whose first half is strange to the model
  for (int i = 0; i < 20; ++i) text += "9876543210 .tac eht";
  for (int i = 0; i < 20; ++i) text += "the cat sat on mat 1 and the dog ate.\n";
  const auto tokens = model.tokenizer.encode(text);
  const auto loss = [&](run::EvaluationLimit limit) {
    return run::loss_of_tokens(model.gpt, model.tokenizer, tokens,
                               {.batch_size = 1, .block_size = 16, .limit = limit})
        ->loss;
  };
  CHECK(std::abs(loss({.batches = 20}) - loss({})) < 0.3);
  CHECK(loss({.batches = 1}) > loss({}) + 0.1);
  CHECK(loss({.seconds = 1e-9}) == loss({.batches = 1}));  // one batch is the least
}

TEST_CASE("evaluate says how well a text is predicted", "[evaluate]") {
  const TempFolder folder;
  const auto known = folder.put("known.txt", tiny_text());
  const auto strange = folder.put("strange.txt", "tac eht .eta god eht dna");
  const Result r = evaluate({known});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("known.txt: loss ") &&
                        ContainsSubstring(" (whole text), perplexity ") &&
                        ContainsSubstring(" bits per byte; 4,689 tokens, "));
  const auto json = evaluated({known}), odd = evaluated({strange});
  CHECK(json.at("loss") < odd.at("loss"));
  CHECK(json.at("perplexity") == std::exp(json.at("loss").get<double>()));
  CHECK(json.at("tokens") == 4689);
  const auto sliding = evaluated({known, "--stride", "4", "--block-size", "12"});
  CHECK(sliding.at("tokens") == 4689);
  CHECK(sliding.at("stride") == 4);
  CHECK(sliding.at("loss") != json.at("loss"));
  const auto whole = evaluated({known, "--stride", "16"});
  CHECK(whole.at("tokens") == 4689);
  CHECK(whole.at("loss") == json.at("loss"));
  CHECK(evaluated({known, "--limit", "2"}).at("share") < 0.1);
  CHECK(evaluated({known, "--batch-size", "1", "--threads", "1"}).at("share") == 1);
}

TEST_CASE("--eval-only is the evaluation at the end of training", "[evaluate]") {
  const TinyRun run(6, {"--final-eval", "all"});
  const std::string metrics = run.file("metrics.jsonl");
  const auto last =
      nlohmann::json::parse(metrics.substr(metrics.rfind('\n', metrics.size() - 2) + 1));
  const Result r = train({"--eval-only", "--out-dir", run.run});
  check_ended_well(r);
  CHECK_THAT(r.out,
             ContainsSubstring(fmt::format("validation split of text.txt: loss {:.4f} (whole",
                                           last.at("final_val_loss").get<double>())));
  CHECK(run.file("metrics.jsonl") == metrics);
  check_error_of("train-gpt", train({"--eval-only"}), 2, "--eval-only needs --out-dir");
}

TEST_CASE("evaluate says what is wrong", "[evaluate]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  const auto fails = [&](const Args& args, int code, const std::string& message) {
    check_error_of("evaluate", evaluate(args), code, message);
  };
  fails({}, 2, "a PATH is needed");
  fails({"/none"}, 1, "/none");
  fails({text, "--stride", "17"}, 1, "--stride 17 is above the block size of 16");
  fails({text, "--block-size", "17"}, 1, "--block-size 17 is more than the 16 tokens");
  fails({text, "--limit", "auto"}, 2, "'auto' is not all or a number of batches");
  fails({folder.put("odd.txt", "the \xC3\xA9t\xC3\xA9")}, 1, "U+00E9");
  fails({folder.put("short.txt", "t")}, 1, "needs at least 2");
  check_error_of("evaluate", run_program("evaluate", {}), 2, "--model is needed");
}
