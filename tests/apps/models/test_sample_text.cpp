#include "tapegrad/base/text/utf8.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

namespace fs = std::filesystem;

namespace {

Result sample(const Args& args) { return run_program("sample-text", args); }

// A model of a few steps, made once for each tokenizer.
struct Model {
  TempFolder folder;
  fs::path run = folder / "run";
  explicit Model(const std::string& tokenizer, const std::string& text = tiny_text()) {
    const Result r = run_program("train-gpt", tiny_run(folder.put("text.txt", text), run, 20) +
                                                  Args{"--tokenizer", tokenizer});
    INFO(r.out << r.err);
    REQUIRE(r.code == 0);
  }
  Result sample(const Args& args) const { return ::sample(Args{"--model", run} + args); }
};

const Model& char_model() {
  static const Model model("char");
  return model;
}

void check_error(const Result& r, int code, const std::string& text) {
  check_error_of("sample-text", r, code, text);
}

}  // namespace

TEST_CASE("a text goes on from its prompt for as many tokens as asked", "[sample-text]") {
  const Result r = char_model().sample({"--prompt", "the cat", "--max-new-tokens", "40"});
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(r.out.rfind("the cat", 0) == 0);
  CHECK(r.out.size() == 7 + 40 + 1);
  CHECK(char_model().sample({"--prompt", "the cat", "--max-new-tokens", "0"}).out == "the cat\n");
}

TEST_CASE("equal seeds give equal texts, other seeds others", "[sample-text]") {
  const auto with_seed = [](const char* seed, const char* threads) {
    return char_model().sample({"--seed", seed, "--threads", threads}).out;
  };
  CHECK(with_seed("1", "1") == with_seed("1", "2"));
  CHECK(with_seed("1", "1") != with_seed("2", "1"));
}

TEST_CASE("several samples differ and are set apart", "[sample-text]") {
  const Result r = char_model().sample({"--num-samples", "2", "--max-new-tokens", "50"});
  CHECK(r.code == 0);
  const size_t second = r.out.find("\n--- sample 2 ---\n");
  REQUIRE(r.out.rfind("--- sample 1 ---\n", 0) == 0);
  REQUIRE(second != std::string::npos);
  CHECK(r.out.substr(17, 50) != r.out.substr(second + 18, 50));
}

TEST_CASE("top-k 1 is greedy, and a top-k above the vocabulary is all of it", "[sample-text]") {
  const Args prompt = {"--prompt", "the", "--max-new-tokens", "60"};
  const auto out = [&](const Args& args) { return char_model().sample(prompt + args).out; };
  CHECK(out({"--top-k", "1"}) == out({"--greedy", "--seed", "5"}));
  CHECK(out({"--top-k", "1"}) != out({"--temperature", "1.5"}));
  CHECK(out({"--top-k", "1000000"}) == out({"--top-k", "30"}));
}

TEST_CASE("a prompt may come from a file, with any bytes for a byte-pair model", "[sample-text]") {
  const Model model("bpe:270");
  const TempFolder folder;
  const std::string bytes("\xff\0the\n\xc3", 7);
  const Result r = model.sample({"--prompt-file", folder.put("p", bytes)});
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(r.out.rfind(bytes, 0) == 0);
  check_error(model.sample({"--prompt-file", folder.put("empty", "")}), 1, "nothing to continue");
  check_error(model.sample({"--prompt-file", folder / "none"}), 1, "none");
}

TEST_CASE("what is printed is UTF-8, whatever the tokens are", "[sample-text]") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += i % 3 ? "\u65e5\u672c\u8a9e " : "\u00e9\u00e8 \U0001f44d ";
  const Model model("bpe:258", text);
  const Result r = model.sample({"--temperature", "3", "--max-new-tokens", "300"});
  CHECK(r.code == 0);
  CHECK_FALSE(tapegrad::find_invalid_utf8(r.out).has_value());
  CHECK_THAT(r.out, ContainsSubstring("\ufffd"));
}

TEST_CASE("a prompt that the tokenizer cannot encode is an error", "[sample-text]") {
  check_error(char_model().sample({"--prompt", "the \u20ac"}), 1, "U+20AC");
}

TEST_CASE("wrong usage of sample-text has exit code 2", "[sample-text]") {
  check_error(sample({}), 2, "--model is needed: a run folder, or a model of another program");
  check_error(char_model().sample({"--temperature", "-1"}), 2,
              "--temperature: must be at least 0, not -1");
  check_error(char_model().sample({"--top-k", "-2"}), 2,
              "--top-k: must be from -1 to 2147483647, not -2");
  check_error(char_model().sample({"--threads", "99999"}), 2, "--threads must be at most");
  check_error(char_model().sample({"--max-new-tokens", "-5"}), 2, "--max-new-tokens");
  check_error(char_model().sample({"--num-samples", "0"}), 2, "--num-samples");
  check_error(char_model().sample({"--prompt", ""}), 2, "nothing to continue");
  check_error(char_model().sample({"--prompt", "a", "--prompt-file", "b"}), 2, "exclude");
  check_error(char_model().sample({"--topk", "3"}), 2, "did you mean --top-k?");
}

TEST_CASE("models that are missing, broken or mixed up are refused", "[sample-text]") {
  check_error(sample({"--model", "/none"}), 1,
              "/none does not exist: a model is a run folder of train-gpt, or a model of");
  const TempFolder other_files;
  check_error(sample({"--model", other_files.put("README.md", "# No model\n")}), 1,
              "README.md is no model that is known, which is a run folder of train-gpt, or a model "
              "of Hugging Face's, GGUF, llm.c or nanoGPT");
  const Model model("char"), other("bpe:270");
  const auto attempt = [&] { return model.sample({"--max-new-tokens", "1"}); };
  SECTION("an empty folder") {
    const TempFolder empty;
    check_error(sample({"--model", empty.path()}), 1, "there is no model here");
  }
  SECTION("no weights") {
    fs::remove(model.run / "model.safetensors");
    check_error(attempt(), 1, "model.safetensors");
  }
  SECTION("truncated weights") {
    fs::resize_file(model.run / "model.safetensors", 1000);
    check_error(attempt(), 1, "model.safetensors");
  }
  SECTION("weights of another model") {
    fs::copy(other.run / "model.safetensors", model.run, fs::copy_options::overwrite_existing);
    check_error(attempt(), 1, "has shape");
  }
  SECTION("another tokenizer") {
    fs::copy(other.run / "tokenizer.json", model.run, fs::copy_options::overwrite_existing);
    check_error(attempt(), 1, "do not belong together");
  }
  SECTION("a config of another format") {
    std::ofstream(model.run / "config.json") << R"({"type": "gpt2"})";
    check_error(attempt(), 1, "config.json: 'format' is missing");
  }
}

TEST_CASE("output that cannot be written is an error", "[sample-text]") {
  const std::string command = quoted_program("sample-text") + " --model " +
                              quoted(char_model().run) + " >/dev/full 2>/dev/null";
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 1);
}
