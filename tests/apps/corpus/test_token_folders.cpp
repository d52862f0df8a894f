// Folders with train.bin and val.bin, as the programs see them. How they are read is tested in
// tests/run/corpus/test_token_folder.cpp.

#include <nlohmann/json.hpp>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad::testing;

namespace {

// Ids from 0 to 6, again and again.
std::string ids(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += {static_cast<char>(i % 7), '\0'};
  return bytes;
}

// nanoGPT's data of 19 characters or, without its meta.pkl, of GPT-2's tokens; and a run on it.
struct TokenRun {
  TempFolder folder;
  std::filesystem::path data = folder / "data", run = folder / "run";
  explicit TokenRun(bool characters) {
    folder.put("data/tales_train.bin", ids(200));
    folder.put("data/tales_val.bin", ids(60));
    if (!characters) return;
    folder.put("data/meta.pkl", TempFolder::get(golden_file("nanogpt/meta_5.pkl")));
  }
  Args args(const Args& more = {}) const {
    Args all = tiny_run(data, run, 2);
    const auto tokenizer = std::find(all.begin(), all.end(), "--tokenizer");
    all.erase(tokenizer, tokenizer + 2);
    return all + more;
  }
  Result train(const Args& more = {}) const { return ::train(args(more)); }
  nlohmann::json config() const {
    return nlohmann::json::parse(TempFolder::get(run / "config.json"));
  }
};

}  // namespace

TEST_CASE("a run on tokens shows and keeps the tokenizer that they have", "[token-folders]") {
  for (const bool characters : {true, false}) {
    const TokenRun tokens(characters);
    const std::string kind = characters ? "char" : "gpt2";
    const Result r = tokens.train();
    check_ended_well(r);
    CHECK_THAT(r.out, ContainsSubstring(kind));
    CHECK(tokens.config()["data"]["tokenizer"] == kind);
    check_ended_well(train(resume_run(tokens.run, 3) + Args{"--no-sample"}));
    CHECK(tokens.config()["data"]["tokenizer"] == kind);
  }
}

TEST_CASE("options of texts are refused for a folder of tokens, by name", "[token-folders]") {
  const TokenRun tokens(true);
  const Args options[] = {{"--val-fraction", "0.1"},
                          {"--separator", "\\n"},
                          {"--encoding", "latin-1"},
                          {"--field", "story"},
                          {"--val", tokens.data}};
  for (const Args& option : options) {
    check_unparsed(tokens.args(option), 2, option[0]);
  }
  for (const std::string other : {"bpe:300", "gpt2"}) {
    check_error_of("train-gpt", tokens.train({"--tokenizer", other}), 1, "tokenizer");
  }
  check_ended_well(tokens.train({"--tokenizer", "char", "--summary"}));
  CHECK(!std::filesystem::exists(tokens.run / "config.json"));
}

TEST_CASE("evaluate names the file that it evaluates", "[token-folders]") {
  const TokenRun tokens(true);
  check_ended_well(tokens.train());
  const auto evaluate = [&](const Args& more) {
    return run_program("evaluate", Args{"--model", tokens.run, tokens.data} + more);
  };
  CHECK(evaluate({}).out.rfind("tales_val.bin: loss", 0) == 0);
  CHECK(nlohmann::json::parse(evaluate({"--json"}).out)["text"] == "tales_val.bin");
  check_error_of("evaluate", evaluate({"--separator", "x"}), 1, "--separator");
  // Another vocabulary: which folder, and what to do.
  const TokenRun other(false);
  check_error_of(
      "evaluate", run_program("evaluate", {"--model", tokens.run, other.data}), 1,
      other.data.string() + ": its ids are those of another tokenizer, of the kind gpt2");
}

TEST_CASE("the programs say that models of other programs are models", "[token-folders]") {
  for (const std::string program : {"sample-text", "evaluate", "gradient-check", "train-gpt"}) {
    INFO(program);
    const std::string help = run_program(program, {"--help", "all"}).out;
    CHECK_THAT(help, ContainsSubstring("PATH") && ContainsSubstring("Hugging Face's"));
  }
  for (const std::string program : {"sample-text", "evaluate", "export"}) {
    check_error_of(program, run_program(program, {}), 2,
                   "--model is needed: a run folder, or a model of another program");
  }
}
