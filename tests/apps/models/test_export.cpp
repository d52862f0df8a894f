// The command export. What the files hold is tested in tests/run/models.

#include "tapegrad/base/file.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

namespace fs = std::filesystem;

Result export_to(const fs::path& model, const fs::path& out,
                 const Args& more = {"--format", "hf"}) {
  return run_program("export", Args{"--model", model, "--out", out} + more);
}

std::string greedy(const fs::path& model, const Args& more = {}) {
  const Result r = run_program(
      "sample-text",
      Args{"--model", model, "--prompt", "the", "--greedy", "--max-new-tokens", "12"} + more);
  check_ended_well(r);
  return r.out;
}

const TinyRun& tiny() {
  static const TinyRun run(12, {"--tied", "--keep", "best,last,2"});
  return run;
}

}  // namespace

TEST_CASE("an export that fails while it writes leaves an earlier one as it was", "[export]") {
  using namespace tapegrad;
  const TempFolder folder;
  folder.put("out/first", "old");
  folder.put("out/mark", "old");
  const run::TextModel model = run::load(tiny().run);
  const auto write_first = [](const run::TextModel&, const fs::path& out, const StoredType&) {
    fs::create_directories(out);
    write_file_atomically(out / "first", "new");
    return run::Exported{};
  };
  run::ExportFormat format{
      "test",
      "a test",
      {&stored_type("f32")},
      {"first", "second", "mark"},
      [](const run::TextModel&, const fs::path& out, const StoredType&) -> run::Exported {
        fs::create_directories(out);
        write_file_atomically(out / "first", "new");
        fail("the disk is full");
      }};
  CHECK_THROWS_WITH(run::export_model(model, format, folder / "out", stored_type("f32"), true),
                    "the disk is full");
  CHECK(TempFolder::get(folder / "out/first") == "old");
  CHECK(TempFolder::get(folder / "out/mark") == "old");
  CHECK(folder.entries() == 1);
  format.write = write_first;
  run::export_model(model, format, folder / "out", stored_type("f32"), true);
  CHECK(TempFolder::get(folder / "out/first") == "new");
  CHECK(!fs::exists(folder / "out/mark"));
  CHECK(folder.entries() == 1);
}

TEST_CASE("an export replaces what it alone had, and follows a link to its folder", "[export]") {
  const TempFolder folder;
  const TinyRun exact(2, {"--tied", "--activation", "gelu-erf"});
  check_ended_well(export_to(exact.run, folder / "out", {"--format", "nanogpt"}));
  REQUIRE(fs::exists(folder / "out/meta.pkl"));
  fs::create_directory_symlink(folder / "out", folder / "link");
  const TinyRun tokens(2, {"--tied", "--activation", "gelu-erf", "--tokenizer", "gpt2"});
  check_ended_well(export_to(tokens.run, folder / "link", {"--format", "nanogpt", "--overwrite"}));
  CHECK(!fs::exists(folder / "out/meta.pkl"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(greedy(folder / "link") == greedy(tokens.run));
  CHECK(folder.entries() == 2);
}

TEST_CASE("a run is exported, and what was written continues as the run does", "[export]") {
  const TempFolder folder;
  for (const std::string format : {"hf", "llm.c", "gguf"}) {
    const Result r = export_to(tiny().run, folder / format, {"--format", format});
    check_ended_well(r);
    CHECK_THAT(r.out, ContainsSubstring((folder / format).string()) && ContainsSubstring("f32") &&
                          ContainsSubstring("open: "));
    CHECK(greedy(folder / format) == greedy(tiny().run));
  }
}

TEST_CASE("export says how to open what it has written", "[export]") {
  const TempFolder folder;
  const auto said = [&](const std::string& format, const Args& more = {}) {
    const Result r = export_to(tiny().run, folder / format, Args{"--format", format} + more);
    check_ended_well(r);
    return r.out;
  };
  CHECK_THAT(said("llm.c"), ContainsSubstring("to the folder of llm.c, where train_gpt2 looks"));
  CHECK_THAT(said("llm.c", {"--dtype", "bf16", "--overwrite"}),
             ContainsSubstring("for train_gpt2cu: train_gpt2 reads f32 alone"));
  CHECK_THAT(said("gguf"), ContainsSubstring("-m " + (folder / "gguf").string() + " "));
  const Result named = export_to(tiny().run, folder / "x.gguf", {});  // the name says the format
  check_ended_well(named);
  CHECK_THAT(named.out, ContainsSubstring("wrote GGUF, f32"));
}

TEST_CASE("the checkpoint that is asked for is exported", "[export]") {
  const TempFolder folder;
  check_ended_well(export_to(tiny().run, folder / "10", {"--format", "hf", "--checkpoint", "10"}));
  CHECK(greedy(folder / "10") == greedy(tiny().run, {"--checkpoint", "10"}));
  check_error_of("export",
                 export_to(tiny().run, folder / "7", {"--format", "hf", "--checkpoint", "7"}), 1,
                 "7");
  CHECK(!fs::exists(folder / "7"));
}

TEST_CASE("adapters are merged on the way", "[export]") {
  const TempFolder folder;
  check_ended_well(train({"--init-from", tiny().run, "--corpus", tiny().corpus, "--out-dir",
                          folder / "lora", "--lora-rank", "2", "--max-iters", "5", "--no-sample",
                          "--learning-rate", "0.05", "--warmup-iters", "0", "--eval-iters", "1"}));
  check_ended_well(export_to(folder / "lora", folder / "out"));
  CHECK(greedy(folder / "out") == greedy(folder / "lora"));
}

TEST_CASE("files that are there stay, unless --overwrite says otherwise", "[export]") {
  const TempFolder folder;
  check_ended_well(export_to(tiny().run, folder / "out"));
  const std::string before = TempFolder::get(folder / "out/model.safetensors");
  const Args bf16 = {"--format", "hf", "--dtype", "bf16"};
  check_error_of("export", export_to(tiny().run, folder / "out", bf16), 1,
                 "has a file generation_config.json already");
  CHECK(TempFolder::get(folder / "out/model.safetensors") == before);
  check_ended_well(export_to(tiny().run, folder / "out", bf16 + Args{"--overwrite"}));
  CHECK(TempFolder::get(folder / "out/model.safetensors").size() < before.size() * 3 / 4);
  // What was exported can be the model that is exported, over itself, too.
  check_ended_well(export_to(folder / "out", folder / "out", {"--format", "hf", "--overwrite"}));
  greedy(folder / "out");
}

TEST_CASE("an export that fails on the way takes away what it has written", "[export]") {
  const TempFolder folder;
  fs::create_directories(folder / "out/tokenizer_config.json");  // no file can have this name
  const Args overwrite = {"--format", "hf", "--overwrite"};
  check_error_of("export", export_to(tiny().run, folder / "out", overwrite), 1,
                 "tokenizer_config.json");
  CHECK(!fs::exists(folder / "out/model.safetensors"));
  CHECK(fs::exists(folder / "out/tokenizer_config.json"));
  CHECK(folder.entries() == 1);
}

TEST_CASE("nothing is exported over a run", "[export]") {
  const std::string before = tiny().file("config.json");
  for (const Args& more : {Args{}, Args{"--overwrite"}}) {
    for (const std::string format : {"hf", "llm.c"}) {
      check_error_of("export", export_to(tiny().run, tiny().run, Args{"--format", format} + more),
                     1, "is the folder of a run");
    }
  }
  // Nor a file into one.
  const std::string model = tiny().file("model.safetensors");
  for (const std::string file : {"config.json", "model.safetensors", "x.gguf"}) {
    const Args gguf = {"--format", "gguf", "--overwrite"};
    check_error_of("export", export_to(tiny().run, tiny().run / file, gguf), 1,
                   "is the folder of a run");
    const Result inside =
        run_program("export", Args{"--model", ".", "--out", file} + gguf, tiny().run);
    check_error_of("export", inside, 1, "is the folder of a run");
  }
  check_error_of("export", export_to(tiny().run, tiny().run / "deep/er", {"--format", "hf"}), 1,
                 "the folder of a run or a model: choose another place");
  CHECK(!fs::exists(tiny().run / "deep"));
  CHECK(!fs::exists(tiny().run / "x.gguf"));
  CHECK(tiny().file("model.safetensors") == model);
  CHECK(tiny().file("config.json") == before);
}

TEST_CASE("a model that a format cannot express leaves nothing behind", "[export]") {
  const TinyRun run(2, {"--positions", "rotary", "--norm", "unbiased", "--tied"});
  const TempFolder folder;
  for (const std::string format : {"hf", "llm.c"}) {
    check_error_of("export", export_to(run.run, folder / "out", {"--format", format}), 1,
                   "positions rotary");
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("an encoder-decoder is exported to ONNX, and to nothing else", "[export]") {
  const TempFolder folder;
  const TinyPairRun pairs(1);
  const fs::path out = folder / "out";
  const Args onnx = {"--format", "onnx"};
  const Result r = export_to(pairs.run, out, onnx);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("onnx/encoder_model.onnx, onnx/decoder_model_merged.onnx") &&
                        ContainsSubstring("await pipeline(\"text2text-generation\", \"out\")") &&
                        ContainsSubstring("{max_new_tokens: 8}"));
  const auto refused = [&](const Args& more, const std::string& message) {
    check_error_of("export", export_to(pairs.run, out, more), 1, message);
  };
  refused(onnx, "has a file onnx/encoder_model.onnx already");
  refused(onnx + Args{"--overwrite", "--adapter", "x"}, "an encoder-decoder has no adapters");
  refused(onnx + Args{"--overwrite", "--checkpoint", "7"}, "keeps no checkpoint of step 7");
  refused(onnx + Args{"--dtype", "bf16"}, "--format onnx cannot store bf16: choose f32, f16, q8_0");
  refused({"--format", "hf", "--overwrite"}, "of another --format");
  check_error_of("export", export_to(pairs.run, folder / "y", {"--format", "gguf"}), 1,
                 "--format gguf cannot express an encoder-decoder: choose onnx");
  check_error_of("export", export_to(pairs.run, pairs.run, onnx), 1, "is the folder of a run");
  // What was written is no model that is opened here.
  check_error_of("export", export_to(out, folder / "z", onnx), 1, "bart");
  CHECK(folder.entries() == 1);
}

TEST_CASE("export says what is wrong with its arguments", "[export]") {
  const auto usage = [](const Args& args, const std::string& message) {
    check_error_of("export", run_program("export", args), 2, message);
  };
  usage({}, "--model is needed");
  usage({"--model", "x"}, "--format is needed: hf");
  usage({"--model", "x", "--format", "hf"}, "--out is needed");
  usage({"--model", "x", "--format", "coreml", "--out", "y"}, "coreml");
  usage({"--model", "x", "--format", "hf", "--dtype", "f8", "--out", "y"}, "f8");
  const TempFolder folder;
  check_error_of("export", export_to(folder / "missing", folder / "out"), 1, "does not exist");
  check_error_of("export", export_to(tiny().run, folder.put("file", "x")), 1, "is not a folder");
  check_error_of("export",
                 export_to(tiny().run, folder / "out", {"--format", "hf", "--dtype", "q8_0"}), 1,
                 "--format hf cannot store q8_0: choose f32, f16, bf16");
  const Result help = run_program("export", {"--help"});
  CHECK_THAT(help.out, ContainsSubstring("Hugging Face's layout: f32, f16, bf16") &&
                           ContainsSubstring("llm.c"));
}
