#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/golden/golden.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// The preset with a model, a text and a pace that take no time.
Args tiny_book(const fs::path& text, const fs::path& run) {
  return {"--preset",     "book-124m", "--corpus",     text, "--out-dir",       run,
          "--tokenizer",  "char",      "--n-layer",    "2",  "--n-head",        "2",
          "--n-embd",     "16",        "--block-size", "16", "--stride",        "32",
          "--batch-size", "8",         "--eval-iters", "3",  "--learning-rate", "5e-3",
          "--rng",        "torch",     "--seed",       "123"};
}

struct Metrics {
  std::vector<double> losses;
  std::vector<json> evaluations;
  explicit Metrics(const fs::path& run) {
    std::istringstream lines(TempFolder::get(run / "metrics.jsonl"));
    for (std::string text; std::getline(lines, text);) {
      const json line = json::parse(text);
      if (line.contains("loss")) losses.push_back(line.at("loss"));
      if (line.contains("train_loss")) evaluations.push_back(line);
    }
  }
};

void check_error(const Result& r, int code, const std::string& text) {
  check_error_of("train-gpt", r, code, text);
}

std::string model_of(const fs::path& run) { return TempFolder::get(run / "model.safetensors"); }

}  // namespace

TEST_CASE("training follows the book's script in PyTorch, step by step", "[train-gpt][golden]") {
  const auto facts = tapegrad::testing::golden_json("book_training.json");
  const TempFolder folder;
  const fs::path run = folder / "run";
  const Result r = train(tiny_book(folder.put("text.txt", tiny_text()), run) +
                         Args{"--epochs", "2", "--sample-prompt", "the cat"});
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  const Metrics metrics(run);
  const std::vector<double> losses = facts.at("losses");
  REQUIRE(metrics.losses.size() == losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    INFO("step " << i);
    CHECK(metrics.losses[i] == Approx(losses[i]).epsilon(1e-5));
  }
  // One more at the end, which the book does not make.
  const auto& evaluations = facts.at("evaluations");
  REQUIRE(metrics.evaluations.size() == evaluations.size() + 1);
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    INFO("evaluation " << i);
    CHECK(metrics.evaluations[i].at("iteration") == evaluations[i].at(0));
    CHECK(metrics.evaluations[i].at("train_loss").get<double>() ==
          Approx(evaluations[i].at(1).get<double>()).epsilon(1e-5));
    CHECK(metrics.evaluations[i].at("val_loss").get<double>() ==
          Approx(evaluations[i].at(2).get<double>()).epsilon(1e-5));
  }
  for (const std::string sample : facts.at("samples")) {
    CHECK_THAT(r.out, ContainsSubstring("\n" + sample + "\n"));
  }
}

TEST_CASE("a book's training that stopped ends as one that did not, bit for bit", "[train-gpt]") {
  const TempFolder folder;
  const fs::path text = folder.put("text.txt", tiny_text()), straight = folder / "straight";
  REQUIRE(
      train(tiny_book(text, straight) + Args{"--max-iters", "24", "--sample-prompt", "the"}).code ==
      0);
  // Before, at and after an evaluation (of 1, 6, 11, …) and the end of a pass (16).
  for (const char* stop : {"3", "6", "16", "17"}) {
    INFO("stopped at " << stop);
    const fs::path run = folder / stop;
    REQUIRE(
        train(tiny_book(text, run) + Args{"--max-iters", stop, "--sample-prompt", "the"}).code ==
        0);
    const Result r = train(resume_run(run, 24));
    INFO(r.out << r.err);
    REQUIRE(r.code == 0);
    CHECK(model_of(run) == model_of(straight));
    CHECK(Metrics(run).losses == Metrics(straight).losses);
    CHECK(Metrics(run).evaluations == Metrics(straight).evaluations);
  }
}

TEST_CASE("with one generator evaluations draw from the training's, otherwise they do not",
          "[train-gpt]") {
  const TempFolder folder;
  const fs::path text = folder.put("text.txt", tiny_text());
  const auto model = [&](const char* rng, const char* eval_interval) {
    const fs::path run = folder / (std::string(rng) + eval_interval);
    const Result r =
        train(tiny_book(text, run) + Args{"--max-iters", "18", "--sample-prompt", "the", "--rng",
                                          rng, "--eval-interval", eval_interval, "--overwrite"});
    INFO(r.err);
    CHECK(r.code == 0);
    return model_of(run);
  };
  CHECK(model("philox", "5") == model("philox", "100"));
  CHECK(model("torch", "5") != model("torch", "100"));
  CHECK(model("torch", "100") != model("philox", "100"));
}

namespace {

// The lines that a run has printed as samples, which begin with their prompt.
std::ptrdiff_t samples_in(const std::string& out) {
  const std::regex sample("\nthe [^\n]*");
  return std::distance(std::sregex_iterator(out.begin(), out.end(), sample), {});
}

}  // namespace

TEST_CASE("each pass is followed by one sample, whatever a step is made of", "[train-gpt]") {
  const TempFolder folder;
  const fs::path text = folder.put("text.txt", tiny_text());
  const auto samples = [&](const Args& more) {
    const Args prompt = {"--sample-prompt", "the ", "--overwrite", "--eval-interval", "100"};
    const Result r = train(tiny_book(text, folder / "run") + prompt + more);
    INFO(r.out << r.err);
    CHECK(r.code == 0);
    return samples_in(r.out);
  };
  // A pass has 16 batches.
  CHECK(samples({"--epochs", "2"}) == 2);
  CHECK(samples({"--epochs", "2", "--gradient-accumulation-steps", "2"}) == 2);
  CHECK(samples({"--epochs", "3", "--gradient-accumulation-steps", "3"}) == 3);
  CHECK(samples({"--max-iters", "10", "--gradient-accumulation-steps", "3"}) == 1);
  CHECK(samples({"--max-iters", "11", "--gradient-accumulation-steps", "3"}) == 2);
}

TEST_CASE("a pass goes on where it was with another batch size", "[train-gpt]") {
  const TempFolder folder;
  const fs::path text = folder.put("text.txt", tiny_text()), run = folder / "run";
  const Args base = tiny_book(text, run) + Args{"--sample-prompt", "the "};
  REQUIRE(train(base + Args{"--max-iters", "14"}).code == 0);
  // 14 · 8 of 132 windows are behind it: one batch of 15 and then 5 windows are left, and a batch
  // later the next pass has begun.
  const Args larger = {"--batch-size", "15"};
  const Result end_of_pass = train(resume_run(run, 15) + larger);
  INFO(end_of_pass.out << end_of_pass.err);
  REQUIRE(end_of_pass.code == 0);
  CHECK(samples_in(end_of_pass.out) == 1);
  const Result next_pass = train(resume_run(run, 16));
  CHECK(next_pass.code == 0);
  const std::string place = json::parse(TempFolder::get(run / "trainer.json")).at("loader");
  CHECK(place.substr(0, 10) == "window 15 ");
}

TEST_CASE("a run that is resumed prints no sample of a pass that ended before", "[train-gpt]") {
  const TempFolder folder;
  const fs::path text = folder.put("text.txt", tiny_text()), run = folder / "run";
  const Args base = tiny_book(text, run) + Args{"--sample-prompt", "the "};
  const Result first = train(base + Args{"--max-iters", "17"});  // the second pass has begun
  INFO(first.out << first.err);
  REQUIRE(first.code == 0);
  CHECK(samples_in(first.out) == 1);
  const Args more =
      GENERATE(Args{"--batch-size", "15"}, Args{"--gradient-accumulation-steps", "4"});
  const Result resumed = train(resume_run(run, 18) + more);
  INFO(resumed.out << resumed.err);
  REQUIRE(resumed.code == 0);
  CHECK(samples_in(resumed.out) == 0);
}

TEST_CASE("epochs are counted in batches of the text, and last as options should", "[train-gpt]") {
  const TempFolder folder;
  const fs::path text = folder.put("text.txt", tiny_text()), run = folder / "run";
  const Args base = tiny_book(text, run);
  REQUIRE(train(base + Args{"--epochs", "1", "--sample-prompt", "the"}).code == 0);
  const json config = json::parse(TempFolder::get(run / "config.json"));
  const json& training = config.at("optimizer");
  CHECK(training.at("max_iters") == 16);
  CHECK(training.at("lr_decay_iters") == 16);
  CHECK(config.at("passes").at("epochs") == nullptr);
  const Result more = train({"--init-from", "resume", "--out-dir", run, "--epochs", "2"});
  INFO(more.err);
  CHECK(more.code == 0);
  CHECK(json::parse(TempFolder::get(run / "config.json")).at("optimizer").at("max_iters") == 32);

  check_unparsed(base + Args{"--epochs", "1", "--max-iters", "3"}, 2, "exclude each other");
  check_unparsed({"--stride", "8"}, 2, "--stride needs --batches epochs");
  check_unparsed({"--sample-prompt", "a"}, 2,
                 "--sample-prompt needs --sample-interval or --batches epochs");
  check_error(train(base + Args{"--overwrite", "--sample-prompt", "the", "--batch-size", "200"}), 1,
              "132 windows of 16 tokens, which do not fill a batch of 200");
  check_error(train(base + Args{"--overwrite", "--sample-prompt", "\u20ac"}), 1, "U+20AC");
  check_unparsed(resume_run(run, 40) + Args{"--rng", "philox"}, 2, "--rng");
}
