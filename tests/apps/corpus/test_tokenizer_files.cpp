// Runs with the tokenizer of a file tokenizer.json.

#include <nlohmann/json.hpp>

#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/golden/golden.h"

namespace {

// A folder "model" with the file of one of the golden tokenizers.
struct WithTokenizer : CorpusAndRun {
  std::string tokenizer_json =
      tapegrad::testing::golden_json("tokenizers.json").at("llama3").at("file");
  explicit WithTokenizer() : CorpusAndRun("text.txt", tiny_text()) {
    folder.put("model/tokenizer.json", tokenizer_json);
  }
  Args args(const std::filesystem::path& tokenizer) const {
    return tiny_run(corpus, run, 4) + Args{"--tokenizer", tokenizer.string()};
  }
};

}  // namespace

TEST_CASE("train-gpt takes a tokenizer.json, which the run keeps", "[tokenizer-files]") {
  const WithTokenizer files;
  const Result r = train(files.args(files.folder / "model") + Args{"--verbose"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("vocab_size 401"));
  CHECK(files.file("tokenizer.json") == files.tokenizer_json);
  std::filesystem::remove_all(files.folder / "model");
  check_ended_well(train(resume_run(files.run, 6)));
  const Result sample = run_program(
      "sample-text", {"--model", files.run.string(), "--prompt", "the cat", "--greedy"});
  check_ended_well(sample);
  CHECK_THAT(sample.out, ContainsSubstring("the cat"));
}

TEST_CASE("a tokenizer file that is not usable is refused by name", "[tokenizer-files]") {
  const WithTokenizer files;
  const auto refused = [&](const std::string& text, const std::string& message) {
    const std::string path = files.folder.put("bad.json", text);
    const Result r = train(files.args(path));
    check_error_of("train-gpt", r, 1, message);
    CHECK_THAT(r.err, ContainsSubstring(path));
    CHECK(!std::filesystem::exists(files.run / "config.json"));
  };
  refused("{}", "no object \"model\"");
  refused("{", "not valid JSON");
  auto other = nlohmann::json::parse(files.tokenizer_json);
  other["normalizer"] = {{"type", "Nmt"}};
  refused(other.dump(), "the normalizer is not supported: {\"type\":\"Nmt\"}");
  check_error_of("train-gpt", train(files.args("./nowhere")), 1, "nowhere");
  check_error_of("train-gpt", train(files.args("words")), 2, "the path of a tokenizer.json");
}

TEST_CASE("a run that starts from one with a tokenizer.json has it, too", "[tokenizer-files]") {
  const WithTokenizer files;
  check_ended_well(train(files.args(files.folder / "model")));
  std::filesystem::remove_all(files.folder / "model");
  const auto tuned = files.folder / "tuned";
  check_ended_well(train({"--init-from", files.run, "--corpus", files.corpus, "--out-dir", tuned,
                          "--max-iters", "1", "--eval-iters", "1", "--no-sample"}));
  CHECK(TempFolder::get(tuned / "tokenizer.json") == files.tokenizer_json);
  // The same tokenizer may be named, by any path.
  const auto plan = [&](const std::string& tokenizer) {
    return train(
        {"--init-from", files.run, "--corpus", files.corpus, "--tokenizer", tokenizer, "--summary"},
        files.folder.path());
  };
  for (const std::string path : {"./run", "run/", "run/tokenizer.json", "./run/../run"}) {
    check_ended_well(plan(path));
  }
  check_error_of("train-gpt", plan("../"), 2, "does not fit the model in");
  check_error_of("train-gpt", plan("gpt2"), 2, "does not fit the model in");
  std::filesystem::remove_all(files.run);
  check_ended_well(train(resume_run(tuned, 2)));
}

TEST_CASE("a model learns where documents begin", "[tokenizer-files]") {
  const WithTokenizer files;
  std::string stories;
  for (int i = 0; i < 300; ++i) {
    stories += "{\"text\": \"a cat sat on mat " + std::to_string(i % 10) + ".\"}\n";
  }
  check_ended_well(
      train(tiny_run(files.folder.put("s.jsonl", stories), files.run, 400) +
            Args{"--tokenizer", files.folder / "model", "--eval-interval", "400", "--dropout", "0",
                 "--log-interval", "100", "--lr-decay-iters", "400"}));
  const auto first = [&](const Args& prompt) {
    const Result r = run_program(
        "sample-text",
        Args{"--model", files.run, "--max-new-tokens", "1", "--json", "--logprobs"} + prompt);
    check_ended_well(r);
    return nlohmann::json::parse(r.out).at("tokens").at(0);
  };
  // Nearly certain: behind the token that begins each document, written or not.
  for (const Args& prompt : {Args{}, Args{"--prompt", "<|begin_of_text|>"}}) {
    CHECK(first(prompt).at("text") == "a");
    CHECK(first(prompt).at("logprob") > -0.1);
  }
  CHECK(first({"--prompt", "a cat sat on"}).at("logprob") > -0.1);
}
