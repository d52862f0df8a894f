#include <cmath>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace fs = std::filesystem;
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
}

TEST_CASE("how much the last evaluation sees is counted, not timed", "[evaluate]") {
  CHECK(run::automatic_batches(1000, 1e12) == 200);  // a fifth of the training's
  CHECK(run::automatic_batches(1000, 1e8) == 1000);  // of a small model more
  CHECK(run::automatic_batches(1, 1e15) == 1);
  CHECK(run::automatic_batches(1e300, 1) == 1'000'000'000'000'000'000);
  CHECK(run::evaluation_limit("auto", 7)->batches == 7);
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

namespace {

// The tiny run as a GGUF file of this type.
std::string rounded_to(const TempFolder& folder, const std::string& type) {
  const std::string path = folder / (type + ".gguf");
  check_ended_well(run_program("export", {"--model", tiny().run, "--out", path, "--dtype", type}));
  return path;
}

}  // namespace

TEST_CASE("--against is what rounding cost, and --beside-f32 what computing costs", "[evaluate]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  const std::string file = rounded_to(folder, "bf16");
  const Args both = {"--model", file, text, "--beside-f32", "--against", tiny().run};
  const Result r = run_program("evaluate", both);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("beside f32 (the cost of computing with the weights as "
                                      "stored): perplexity ") &&
                        ContainsSubstring("against " + tiny().run.string() +
                                          " (the cost of rounding, if this model was made from "
                                          "it): perplexity "));
  const Result as_json = run_program("evaluate", both + Args{"--json"});
  check_ended_well(as_json);
  const auto json = nlohmann::json::parse(as_json.out);
  const auto plain = evaluated({text});
  const auto of_file = nlohmann::json::parse(
      run_program("evaluate", {"--model", file, text, "--weights", "f32", "--json"}).out);
  CHECK(json.at("against").at("model") == tiny().run.string());
  CHECK(json.at("against").at("loss").get<double>() ==
        Approx(plain.at("loss").get<double>()).epsilon(1e-5));
  CHECK(json.at("f32").at("loss").get<double>() ==
        Approx(of_file.at("loss").get<double>()).epsilon(1e-5));
  // bf16 is widened exactly, so that rounding alone changes the predictions.
  const double rounding = json.at("against").at("divergence").get<double>();
  CHECK(rounding > 1e-8);
  CHECK(std::abs(json.at("f32").at("divergence").get<double>()) < rounding / 2);
  const auto itself = evaluated({text, "--against", tiny().run});
  CHECK(std::abs(itself.at("against").at("divergence").get<double>()) < 1e-9);
  CHECK(itself.at("against").at("same_choice") == 1);
  CHECK(!itself.contains("f32"));
}

TEST_CASE("--beside-f32 with --weights says that it has the rounding in it", "[evaluate]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  const Result r = evaluate({text, "--weights", "bf16", "--beside-f32"});
  check_ended_well(r);
  CHECK_THAT(r.out,
             ContainsSubstring("beside f32 (the cost of --weights bf16, rounding included)"));
}

TEST_CASE("--against refuses a model of other tokens or fewer positions", "[evaluate]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", "the cat sat");
  const auto run_on = [&](const std::string& name, const std::string& corpus, const Args& more) {
    const fs::path run = folder / name;
    check_ended_well(train(tiny_run(folder.put(name + ".txt", corpus), run, 1) + more));
    return run;
  };
  const auto fails = [&](const fs::path& against, const std::string& message) {
    check_error_of("evaluate", evaluate({text, "--against", against}), 1, message);
  };
  const fs::path fewer = run_on("fewer", replaced(tiny_text(), "cat", "ate"), {});
  fails(fewer, "--against " + fewer.string() + ": it has 23 tokens, and " + tiny().run.string() +
                   " 24: both must have the same tokens");
  const fs::path other = run_on("other", replaced(tiny_text(), "c", "k"), {});
  fails(other, "' there, and 'c' in " + tiny().run.string());
  const fs::path shorter = run_on("shorter", tiny_text(), {"--block-size", "8"});
  fails(shorter, "it sees 8 tokens at once, fewer than the 16");
  check_ended_well(evaluate({text, "--against", shorter, "--block-size", "8"}));
  fails("/none", "/none does not exist");
}

TEST_CASE("a loss with short keys and values is that of texts made with them", "[evaluate]") {
  const run::TextModel model = run::load_quantized(run::open_model(tiny().run));
  const auto tokens = model.tokenizer.encode("the cat sat on m");
  nn::Generation generation(model.gpt, {.cache = CacheType::f16});
  const auto id = generation.add(tokens, {.max_new_tokens = 1, .prompt_logprobs = 0}, Rng(1));
  while (generation.step()) {
  }
  double nats = 0;
  for (const nn::NewToken& t : generation.take(id).prompt) nats -= t.logprob;
  const auto loss =
      run::loss_of_tokens(model.gpt, model.tokenizer, tokens,
                          {.batch_size = 1, .block_size = 16, .cache = CacheType::f16});
  CHECK(loss->loss == Approx(nats / 15).epsilon(1e-6));
}

TEST_CASE("--cache says what short keys and values cost", "[evaluate]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  const auto plain = evaluated({text}), f16 = evaluated({text, "--cache", "f16", "--stride", "16"});
  CHECK(plain.at("cache") == "f32");
  CHECK(!plain.contains("f32_cache"));
  CHECK(f16.at("cache") == "f16");
  CHECK(f16.at("loss") != plain.at("loss"));
  CHECK(f16.at("loss").get<double>() == Approx(plain.at("loss").get<double>()).epsilon(1e-3));
  CHECK(f16.at("f32_cache").at("loss").get<double>() ==
        Approx(plain.at("loss").get<double>()).epsilon(1e-6));
  CHECK(f16.at("f32_cache").at("loss") != f16.at("loss"));
  const Result all =
      evaluate({text, "--cache", "f16", "--beside-f32", "--against", tiny().run.string()});
  check_ended_well(all);
  CHECK_THAT(all.out, ContainsSubstring("\nbeside keys and values in f32 (the cost of --cache "
                                        "f16): perplexity ") &&
                          ContainsSubstring("as stored and --cache f16): perplexity ") &&
                          ContainsSubstring("the cost of rounding and --cache f16, if "));
}

TEST_CASE("--cache refuses what it cannot store", "[evaluate]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  const auto fails = [&](const Args& args, int code, const std::string& message) {
    check_error_of("evaluate", evaluate(Args{text} + args), code, message);
  };
  fails({"--cache", "q8_0"}, 1, "channels of keys that are a multiple of 32, not 16; f16 does not");
  fails({"--cache", "q4_0"}, 2, "--cache");
  fails({"--cache", "f16", "--isolate-documents"}, 1,
        "--cache f16: a window is read as one text, and documents are kept apart in it");
}
