// The first program, which has what `train` and `sample` run before the rest is compiled: see
// cmake/first.cmake.

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tapegrad/tests/apps/tiny_args.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

namespace {

// Links to the build's folder of it.
constexpr const char* kProgram = "first/tapegrad";
const std::filesystem::path kFolder = std::filesystem::path(tapegrad::places::kPrograms) / "first";

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::istringstream text(TempFolder::get(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

Result first(const Args& args) { return run_program(kProgram, args); }

}  // namespace

TEST_CASE("the first program trains by each optimizer, resumes, and samples", "[first_program]") {
  const TempFolder folder;
  folder.put("corpus.txt", tiny_text());
  const auto trained = [&](const std::string& name, const Args& more) {
    const std::filesystem::path run = folder / name;
    const Result r = first(Args{"train"} + tiny_run(folder / "corpus.txt", run, 6) + more);
    INFO(name << "\n" << r.out << r.err);
    REQUIRE(r.code == 0);
    return run;
  };
  for (const char* optimizer :
       {"adamw", "adam", "adagrad", "lion", "muon", "nadam", "rmsprop", "sgd", "soap"}) {
    trained(optimizer, {"--optimizer", optimizer});
  }
  for (const char* preset : {"char-fast", "llama-char", "quickstart"}) {
    trained(preset, {"--preset", preset, "--n-layer", "1"});
  }
  trained("bpe", {"--tokenizer", "bpe:270"});
  trained("gpt2", {"--tokenizer", "gpt2", "--n-embd", "4"});
  trained("bf16", {"--dtype", "bf16"});
  trained("shown", {"--verbose", "--layer-stats", "2"});
  const auto run = trained("run", {});
  CHECK(first(Args{"train"} + resume_run(run, 8)).code == 0);
  const Result sample = first({"sample", run, "the cat", "--max-new-tokens", "10", "--top-k", "5"});
  INFO(sample.err);
  CHECK(sample.code == 0);
  CHECK(sample.out.starts_with("the cat"));
}

TEST_CASE("the first program says how what it lacks is built, with exit code 2",
          "[first_program]") {
  const TempFolder folder;
  folder.put("corpus.txt", tiny_text());
  folder.put("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"},)"
                            R"({"role": "assistant", "content": "b"}]})"
                            "\n");
  folder.put("model.gguf", "GGUF");
  const std::filesystem::path run = folder / "run", model = folder / "model.gguf";
  REQUIRE(first(Args{"train"} + tiny_run(folder / "corpus.txt", run, 1)).code == 0);
  for (const Args& args : {
           Args{"chat", run},
           Args{"serve", "--help"},
           Args{"help", "watch"},
           Args{"train"} + tiny_chat_run(folder / "chats.jsonl", folder / "chats", 1) +
               Args{"--tokenizer", "gpt2"},
           Args{"train"} + tiny_run(folder / "corpus.txt", folder / "plan", 1) + Args{"--plan"},
           Args{"sample", run, "--json-object"},
           Args{"sample", model},
       }) {
    const Result r = first(args);
    INFO(args[0] << " " << args.back() << "\n" << r.out << r.err);
    CHECK(r.code == 2);
    CHECK_THAT(r.err, ContainsSubstring(" not built yet; build the rest by: cmake --build "));
    CHECK_THAT(r.err, ContainsSubstring(" --target programs\n"));
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  }
}

// A new door is right where only a command or an option that is not there leads to the function.
// Else the function's source is one of the first: see tapegrad_later() in its folder's
// CMakeLists.txt.
TEST_CASE(
    "what the first program calls and does not have belongs to commands and options that wait",
    "[first_program]") {
  const std::vector<std::string> doors = {
      // Quantised weights, and models of other programs.
      "quantized::", "read_rate", "GgufFile::", "write_gguf",
      "data::HfFile::", "data::HfTokenizer::", "data::characters_of_hf", "data::hf_",
      "run::check_outside_runs", "run::is_foreign", "run::meaning_of_gguf", "run::open_adapter",
      "run::open_foreign", "run::passed_keys", "run::read_nanogpt_meta", "run::refuse_peft_folder",
      "run::save_adapters_beside",
      // Conversations, pairs of answers, teachers, JSON, pairs of texts, experts.
      "data::ChatSet::", "data::ChatTemplate::", "data::counted_targets", "data::is_special",
      "run::about_chat", "run::add_chatml", "run::chat_data_of", "run::make_chat_tokenizer",
      "run::read_chat", "run::settings_with_template", "run::estimate_preferences",
      "run::loss_of_pairs", "run::margins_of", "run::pair_rows", "run::preference_loss",
      "run::check_teacher", "run::teacher_params", "nn::distillation_loss", "kl_div",
      "run::JsonMasks::", "nn::Transformer", "nn::translate",
      "nn::Experts::", "nn::GatedDeltaNet::", "nn::Mamba2::", "nn::ShortConv::",
      "nn::RouterLosses::", "clamped_swiglu", "grouped_linear",
      // Rows of ops for graphs of ONNX.
      "OnnxAttribute::", "OnnxCall::", "index_select",
      // Several processes, --meet, --ema, --plan, --eval-only, --interactive, --watch.
      "detail::mpi_carrier", "optim::make_local_steps", "optim::make_shared_weights",
      "optim::group_names", "optim::meet_by_files", "run::batches_of_group", "optim::with_averages",
      "gpt::print_forecast", "run::assumed_step",
      "bench::", "sampling::Evaluated::", "sampling::evaluate_",
      "sampling::LineEditor::", "watch::Server::"};
  for (const std::string& line : lines_of(kFolder / "doors")) {
    const auto begin = line.find("_Z"), end = line.rfind('=');
    REQUIRE(begin < end);
    const std::string symbol = line.substr(begin, end - begin);
    const std::unique_ptr<char, void (*)(void*)> readable(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), std::free);
    REQUIRE(readable != nullptr);
    const std::string name = readable.get();
    INFO(name);
    CHECK(std::any_of(doors.begin(), doors.end(), [&](const std::string& door) {
      return name.starts_with("tapegrad::" + door);
    }));
  }
}

TEST_CASE("the first program stays small", "[first_program]") {
  const std::vector<std::string> objects = lines_of(kFolder / "doors.objects");
  const bool joined = std::any_of(objects.begin(), objects.end(), [](const std::string& object) {
    return object.find("/joined/") != std::string::npos;
  });
  CHECK(objects.size() <= (joined ? 131 : 268));  // without TAPEGRAD_JOIN, each source is one
}

TEST_CASE("the first program lists all commands", "[first_program]") {
  const Result r = first({"help"});
  CHECK(r.code == 0);
  for (const char* command : {"train", "sample", "chat", "serve", "watch", "bench"}) {
    CHECK_THAT(r.out, ContainsSubstring(std::string("\n  ") + command + " "));
  }
}
