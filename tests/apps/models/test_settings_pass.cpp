// Chat templates, special tokens and settings of a model on their way through the programs.

#include "tapegrad/run/models/model_settings.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/run/models/settings_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

Args tune(const fs::path& from, const fs::path& corpus, const fs::path& run, int iters) {
  return {"--init-from",
          from,
          "--corpus",
          corpus,
          "--out-dir",
          run,
          "--max-iters",
          std::to_string(iters),
          "--block-size",
          "8",
          "--batch-size",
          "2",
          "--eval-iters",
          "1",
          "--no-sample",
          "--lora-rank",
          "2",
          "--eval-interval",
          "2"};
}

void run_export(const fs::path& model, const std::string& format, const fs::path& out) {
  check_ended_well(
      run_program("export", {"--model", model, "--format", format, "--out", out, "--overwrite"}));
}

void check_settings(const fs::path& folder, const Files& settings = kSettings) {
  for (const auto& [name, bytes] : settings) {
    INFO(folder.string() << " " << name);
    CHECK(TempFolder::get(folder / name) == bytes);
  }
}

}  // namespace

TEST_CASE("a run keeps the settings of the model that it starts from, and exports them",
          "[settings]") {
  const TempFolder folder;
  const fs::path in = put_hf_model(folder), run = folder / "run", out = folder / "out";
  const fs::path corpus = folder.put("text.txt", tiny_text());
  check_ended_well(train(tune(in, corpus, run, 2)));
  check_settings(run);
  fs::remove_all(in);
  check_ended_well(train(resume_run(run, 4)));
  check_settings(run);
  run_export(run, "hf", out);
  check_settings(out);
  check_ended_well(run_program("merge", {"--model", run, "--out-dir", folder / "merged"}));
  check_settings(folder / "merged");
  run_export(folder / "merged", "hf", out);
  check_settings(out);
  run_export(run, "gguf", folder / "out.gguf");
  CHECK(GgufFile(folder / "out.gguf").keys().at("tokenizer.chat_template") ==
        GgufValue(kSettings.at("chat_template.jinja")));
  // A run of another model leaves none of them.
  check_ended_well(train(tiny_run(corpus, run, 1) + Args{"--overwrite"}));
  for (const auto& [name, bytes] : kSettings) CHECK_FALSE(fs::exists(run / name));
}

TEST_CASE("a run keeps the keys of the GGUF that it starts from, and exports them", "[settings]") {
  const TempFolder folder;
  const fs::path in = put_gguf_model(folder), run = folder / "run", out = folder / "out.gguf";
  const fs::path corpus = folder.put("text.txt", tiny_text());
  check_ended_well(train(tune(in, corpus, run, 2)));
  check_ended_well(train(resume_run(run, 3)));
  run_export(run, "gguf", out);
  const GgufFile before(in), after(out);
  for (const auto& [key, value] : before.keys()) {
    INFO(key);
    if (key == "quantize.imatrix.file") continue;
    REQUIRE(after.keys().count(key) == 1);
    CHECK(before.stored_value(key) == after.stored_value(key));
  }
  check_ended_well(train(tune(in, corpus, folder / "other", 1)));
  fs::create_symlink(in, folder / "link");
  fs::rename(folder / "link", run / run::kSettingsKeysFile);
  check_error_of("sample-text", run_program("sample-text", {"--model", run}), 1, "link");
}

TEST_CASE("only what cutting positions changes is changed in the settings", "[settings]") {
  const TempFolder folder;
  fs::copy(golden_file("hf_gpt2"), folder / "in");
  folder.put("in/tokenizer_config.json", R"({"odd": 1e3, "model_max_length": 24, "x": [null]})");
  const fs::path corpus = folder.put("text.txt", tiny_text());
  const Args args = tune(folder / "in", corpus, folder / "run", 1);
  check_ended_well(train(args));
  CHECK(nlohmann::json::parse(TempFolder::get(folder / "run/tokenizer_config.json")) ==
        nlohmann::json::parse(R"({"odd": 1e3, "model_max_length": 8, "x": [null]})"));
  check_ended_well(train(args + Args{"--block-size", "24", "--overwrite"}));
  CHECK(TempFolder::get(folder / "run/tokenizer_config.json") ==
        TempFolder::get(folder / "in/tokenizer_config.json"));
}

TEST_CASE("settings with Python's Infinity pass as they are, and stay so when they change",
          "[settings]") {
  const TempFolder folder;
  const Files settings = {
      {"tokenizer_config.json",
       R"({"model_max_length": 24, "x": Infinity, "pad_token": "<tool>"})"},
      {"special_tokens_map.json", R"({"mask_token": "<tool>", "x": NaN})"},
      {"generation_config.json", R"({"length_penalty": -Infinity, "top_k": 20})"}};
  const fs::path in = put_hf_model(folder, settings);
  run::save_model(folder / "kept", run::load(in));
  const run::TextModel model = run::load(folder / "kept");
  export_as("hf", model, folder / "out");
  export_as("gguf", model, folder / "out.gguf");
  check_settings(folder / "kept", settings);
  check_settings(folder / "out", settings);
  const std::vector<std::int64_t> ends = {0, 400};
  const data::Tokenizer ending = model.tokenizer.ending_at(ends);
  const auto said = [&](const run::ModelSettings& changed, const char* file) {
    return changed.files.at(file);
  };
  const run::ModelSettings changed = run::with_ends(run::cut_settings(model.settings, 8), ending);
  CHECK_THAT(said(changed, "tokenizer_config.json"),
             ContainsSubstring("\"model_max_length\": 8,\n  \"x\": Infinity"));
  CHECK_THAT(said(changed, "generation_config.json"),
             ContainsSubstring("\"length_penalty\": -Infinity") && ContainsSubstring("400"));
  CHECK_THAT(run::generation_config_of(changed, model.tokenizer.ending_at({&ends[1], 1})),
             ContainsSubstring("-Infinity") && ContainsSubstring("\"eos_token_id\": 400"));
}

TEST_CASE("settings of strangers are bounded, and need not make sense", "[settings]") {
  const std::string name =
      GENERATE("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja");
  const std::string bytes =
      GENERATE("", "[", "[]", "null", "{\"chat_template\": 3, \"pad_token\": {\"content\": [7]}}",
               "{\"chat_template\": [1, {\"name\": 2}, {}], \"bos_token\": \"none of them\"}",
               "{\"a\": 1, \"a\": 2}", "\xFF\xFE\x00zz", "deep");
  const TempFolder folder;
  const std::string deep = std::string(100'000, '[');
  const fs::path in = put_hf_model(folder, {{name, bytes == "deep" ? deep : bytes}});
  const run::TextModel model = run::load(in);
  CHECK(model.settings.files.at(name) == (bytes == "deep" ? deep : bytes));
  for (const std::string format : {"hf", "gguf"}) {
    try {
      export_as(format, model, folder / format);
      run::load(folder / format);
    } catch (const Error& error) {  // what is no object has no meaning that could be written
      CHECK_THAT(error.what(), ContainsSubstring(name));
      CHECK_FALSE(fs::exists(folder / format));
    }
  }
}

TEST_CASE("a file of settings that is too large is refused by name", "[settings]") {
  const TempFolder folder;
  const fs::path in =
      put_hf_model(folder, {{"chat_template.jinja", std::string((16 << 20) + 1, ' ')}});
  CHECK_THROWS_WITH(run::load(in), ContainsSubstring("chat_template.jinja"));
}

TEST_CASE("a generation config gains no key, and says no other ends of texts", "[settings]") {
  const TempFolder folder;
  const auto tokenizer = data::Tokenizer::from_hf(golden_file("hf_llama"));
  const auto kept = [&](const std::string& bytes, const std::vector<std::int64_t>& ends) {
    run::ModelSettings settings;
    settings.files["generation_config.json"] = bytes;
    const auto ending = tokenizer.ending_at(ends);
    run::save_settings(folder.path(), settings, ending);
    ending.save(folder / "tokenizer.json");
    const auto again = data::Tokenizer::load(folder / "tokenizer.json");
    CHECK(again.ends() == ending.ends());
    return TempFolder::get(folder / "generation_config.json");
  };
  const std::string odd = "{\"top_k\" :3,\n\"eos_token_id\":  400}";
  CHECK(kept(odd, {400}) == odd);
  CHECK(kept("{ }", {}) == "{ }");
  CHECK(kept("{\"top_k\" :3}", {400}) == "{\"top_k\" :3}");
  CHECK(kept("{\"top_k\" :3}", {400, 0}) == "{\"top_k\" :3}");
  CHECK(nlohmann::json::parse(kept(odd, {400, 0})) ==
        nlohmann::json::parse("{\"top_k\":3, \"eos_token_id\":[400, 0]}"));
}
