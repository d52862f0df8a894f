// Messages name the file or folder that they are about.

#include <nlohmann/json.hpp>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace fs = std::filesystem;
using namespace tapegrad;

namespace {

void change_tensor(const fs::path& path, const std::string& name,
                   const std::function<Tensor(const Tensor&)>& change) {
  SafeTensors file = load_safetensors(path.string());
  file.tensors.at(name) = change(file.tensors.at(name));
  save_safetensors(path.string(), {file.tensors.begin(), file.tensors.end()}, file.metadata);
}

// As large as numbers can be: what comes out is infinite, and the logits are ∞ − ∞.
Tensor huge(const Tensor& t) { return Tensor::full(t.shape(), 3e38); }

}  // namespace

TEST_CASE("a folder without a model is told so by all who open one", "[named-faults]") {
  const TempFolder folder;
  fs::create_directory(folder / "data");
  folder.put("data/train.bin", "12");
  const std::string path = folder / "data", message = path + ": there is no model here";
  check_error_of("sample-text", run_program("sample-text", {"--model", path}), 1, message);
  check_error_of("evaluate", run_program("evaluate", {path, path}), 1, message);
  check_error_of("export", run_program("export", {path, "--format", "hf", "--out", folder / "o"}),
                 1, message);
  check_error_of("translate", run_program("translate", {path, "x"}), 1, message);
  check_error_of("train-gpt", train({"--init-from", path, "--out-dir", folder / "new"}), 1,
                 message);
}

TEST_CASE("logits that are NaN are those of a model that is named", "[named-faults]") {
  const TinyRun tiny(1);
  change_tensor(tiny.run / "model.safetensors", "ln_f.weight", huge);
  const std::string name = tiny.run.string() + ": the ", logits = name + "model's logits are NaN";
  const std::filesystem::path lines = tiny.folder.put("lines", "the\ncat\n");
  for (const Args& how : {Args{"the"}, Args{"the", "--greedy"}, Args{"the", "--top-p", "0.9"},
                          Args{"the", "--lookup", "4"}, Args{"the", "--logprobs"},
                          Args{"--prompts", lines}, Args{"--interactive"}}) {
    const Args args = Args{"--model", tiny.run, "--max-new-tokens", "9"} + how;
    check_error_of("sample-text", Program("sample-text", args, ".", lines).wait(), 1, logits);
  }
  const Result chat = Program("chat", {tiny.run}, ".", lines).wait();
  CHECK(chat.code == 1);
  CHECK_THAT(chat.err, ContainsSubstring("\nchat: error: " + logits));
  check_error_of("bench",
                 run_program("bench", {"generate", tiny.run, "--prompt", "4", "--tokens", "4"}), 1,
                 logits);
  check_error_of("evaluate", run_program("evaluate", {tiny.run, tiny.corpus}), 1,
                 name + "loss is NaN");
  check_error_of("inspect", run_program("inspect", {tiny.run, "the cat"}), 1, name);
}

TEST_CASE("a tensor of whole numbers is named with its file", "[named-faults]") {
  const TinyRun tiny(1);
  change_tensor(tiny.run / "model.safetensors", "wte.weight",
                [](const Tensor& t) { return Tensor::zeros(t.shape(), DType::i32); });
  check_error_of("sample-text", run_program("sample-text", {tiny.run, "the"}), 1,
                 "model.safetensors: tensor 'wte.weight' is stored as i32: a parameter must be of "
                 "floating-point numbers");
}

TEST_CASE("a text that differs in its documents alone is told apart by them", "[named-faults]") {
  const TinyRun tiny(1);
  auto config = nlohmann::ordered_json::parse(tiny.file("config.json"));
  REQUIRE(config.at("text").at("documents") == 1);
  config["text"]["documents"] = 2;
  tiny.folder.put("run/config.json", config.dump());
  check_error_of("train-gpt", train(resume_run(tiny.run, 2)), 1,
                 "of text.txt with 2 documents, while text.txt has 1 document.");
}
