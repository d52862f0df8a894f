// The programs with a model folder of Hugging Face's.

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/golden/golden.h"

namespace {

const std::string kModel = tapegrad::testing::golden_file("hf_gpt2").string();

Result sample(const std::string& model, const Args& more = {}) {
  return run_program(
      "sample-text",
      Args{"--model", model, "--prompt", "Hello", "--greedy", "--max-new-tokens", "5"} + more);
}

}  // namespace

TEST_CASE("models of Hugging Face's are sampled from, evaluated and checked", "[hf-models]") {
  const TempFolder folder;
  const std::string text = folder.put("text.txt", tiny_text());
  for (const char* name : {"hf_gpt2", "hf_llama", "hf_qwen2", "hf_qwen3"}) {
    const std::string model = tapegrad::testing::golden_file(name).string();
    INFO(name);
    const Result r = sample(model);
    check_ended_well(r);
    CHECK_THAT(r.out, ContainsSubstring("Hello"));
    const Result e = run_program("evaluate", {"--model", model, text, "--json"});
    check_ended_well(e);
    CHECK_THAT(e.out, ContainsSubstring("\"perplexity\""));
    const Result g = run_program("gradient-check", {"--model", model});
    check_ended_well(g);
    CHECK_THAT(g.out, ContainsSubstring("all right"));
  }
  check_error_of("sample-text", sample(kModel, {"--checkpoint", "best"}), 1,
                 "has one checkpoint, not 'best'");
}

TEST_CASE("a GPT-2 of Hugging Face's is trained further, and the run stands alone", "[hf-models]") {
  const TempFolder folder;
  std::filesystem::copy(kModel, folder / "model");
  const std::string text = folder.put("text.txt", tiny_text());
  const Args args = {"--init-from", folder / "model",  "--corpus",    text,
                     "--out-dir",   folder / "run",    "--max-iters", "6",
                     "--no-sample", "--eval-interval", "3",           "--batch-size",
                     "4",           "--block-size",    "16",          "--eval-iters",
                     "1",           "--log-interval",  "1",           "--warmup-iters",
                     "0",           "--learning-rate", "0.01"};
  const Result r = train(args + Args{"--verbose"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("vocab_size 404") && ContainsSubstring("block_size 16"));
  std::filesystem::remove_all(folder / "model");
  check_ended_well(train(resume_run(folder / "run", 8)));
  check_ended_well(sample((folder / "run").string()));
  using tapegrad::load_safetensors;
  const auto before = load_safetensors(kModel + "/model.safetensors");
  const auto after = load_safetensors((folder / "run/model.safetensors").string());
  // The weights were those of the folder: eight small steps away, and linears lie (out, in).
  const auto& theirs = before.at("transformer.h.0.attn.c_proj.weight");
  const auto& ours = after.at("h.0.attn.c_proj.weight");
  for (const auto& [i, j] : {std::pair(0, 1), std::pair(3, 2), std::pair(15, 7)}) {
    CHECK(ours.at(i * 16 + j) == Approx(theirs.at(j * 16 + i)).margin(0.1));
  }
}

TEST_CASE("a folder of another architecture is refused by name", "[hf-models]") {
  const TempFolder folder;
  folder.put("config.json", R"({"model_type": "mamba"})");
  check_error_of("sample-text", sample((folder / "").string()), 1,
                 "model_type 'mamba' is not supported, only falcon_h1, gemma2, gemma3_text, gemma");
  check_error_of("train-gpt", train({"--init-from", (folder / "").string()}), 1,
                 "model_type 'mamba'");
}

TEST_CASE("no run replaces a model that is not of a run", "[hf-models]") {
  const TempFolder folder;
  std::filesystem::copy(kModel, folder / "model");
  const std::string text = folder.put("text.txt", tiny_text());
  for (const Args& more : {Args{}, Args{"--overwrite"}}) {
    check_error_of("train-gpt", train(tiny_run(text, folder / "model", 2) + more), 1,
                   "holds a model that is not of a run");
  }
  CHECK(TempFolder::get(folder / "model/config.json") == TempFolder::get(kModel + "/config.json"));
  CHECK(std::filesystem::exists(folder / "model/model.safetensors"));
}

TEST_CASE("a config that claims a huge vocabulary takes no memory for it", "[hf-models]") {
  const TempFolder folder;
  std::filesystem::copy(kModel, folder / "model");
  auto config = TempFolder::get(kModel + "/config.json");
  config.replace(config.find("\"vocab_size\": 404"), 17, "\"vocab_size\": 16777216");
  folder.put("model/config.json", config);
  check_error_of("sample-text", sample((folder / "model").string()), 1, "wte.weight");
  config.replace(config.find("\"n_embd\": 16"), 12, "\"n_embd\": 4611686018427387904");
  folder.put("model/config.json", config);
  check_error_of("sample-text", sample((folder / "model").string()), 1, "n_embd");
}
