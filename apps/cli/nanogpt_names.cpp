#include "tapegrad/apps/cli/nanogpt_names.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/run_main.h"

namespace tapegrad::cli {
namespace {

// The options of nanoGPT's train.py and sample.py that mean nothing here, with the reason.
constexpr std::pair<std::string_view, std::string_view> kNothingHere[] = {
    {"--wandb-log",
     "metrics are in the run folder's metrics.jsonl; --tensorboard writes event files"},
    {"--wandb-project", "metrics are in the run folder's metrics.jsonl"},
    {"--wandb-run-name", "metrics are in the run folder's metrics.jsonl"},
    {"--dataset", "--corpus names the text, or --data the folder of its tokens"},
    {"--always-save-checkpoint", "a checkpoint is saved at each evaluation"},
    {"--device", "everything runs on the CPU"},
    {"--compile", "everything is compiled"},
    {"--backend", "mpirun starts several processes"},
};

// Options of other programs, and ours: of several, the first that a program has.
constexpr std::pair<std::string_view, std::string_view> kHabits[] = {
    // llama.cpp
    {"-t", "--threads"},
    {"-c", "--ctx"},
    {"-c", "--block-size"},
    {"-c", "--context"},
    {"--ctx-size", "--ctx"},
    {"--ctx-size", "--block-size"},
    {"--ctx-size", "--context"},
    {"-n", "--max-new-tokens"},
    {"--predict", "--max-new-tokens"},
    {"--n-predict", "--max-new-tokens"},
    {"-s", "--seed"},
    {"-f", "--prompt-file"},
    {"--file", "--prompt-file"},
    {"-r", "--stop"},
    {"--reverse-prompt", "--stop"},
    {"-i", "--interactive"},
    {"-j", "--json-schema"},
    {"--repeat-penalty", "--repetition-penalty"},
    {"--lora", "--adapter"},
    {"--system-prompt", "--system"},
    {"--cache-type-k", "--cache"},
    {"--draft-max", "--lookup"},
    // nanoGPT, whose sample.py has the folder of the model so
    {"--out-dir", "--out"},
    {"--out-dir", "--model"},
    {"--init-from", "--model"},
    // transformers
    {"--model-name-or-path", "--init-from"},
    {"--model-name-or-path", "--model"},
    {"--max-length", "--max-new-tokens"},
    {"--num-beams", "--beam"},
    {"--num-return-sequences", "--num-samples"},
    {"--stop-strings", "--stop"},
    {"--output-dir", "--out-dir"},
    {"--output-dir", "--out"},
    {"--train-file", "--corpus"},
    {"--validation-file", "--val"},
    {"--max-seq-length", "--block-size"},
    {"--per-device-train-batch-size", "--batch-size"},
    {"--num-train-epochs", "--epochs"},
    {"--max-steps", "--max-iters"},
    {"--warmup-steps", "--warmup-iters"},
    {"--eval-steps", "--eval-interval"},
    {"--logging-steps", "--log-interval"},
    {"--save-steps", "--checkpoint-interval"},
    {"--lr-scheduler-type", "--schedule"},
};

const std::pair<std::string_view, std::string_view>* find_nothing(std::string_view name) {
  const auto* end = std::end(kNothingHere);
  const auto* it = std::find_if(std::begin(kNothingHere), end,
                                [&](const auto& entry) { return entry.first == name; });
  return it == end ? nullptr : it;
}

}  // namespace

std::vector<std::string> meant_by(const std::string& name) {
  std::vector<std::string> meant;
  for (const auto& [theirs, ours] : kHabits) {
    if (theirs == name) meant.emplace_back(ours);
  }
  return meant;
}

bool ignored_of_nanogpt(const std::string& name) {
  return find_nothing(option_name(name)) != nullptr;
}

std::optional<NanoGPTOption> of_nanogpt(const std::string& name,
                                        const std::optional<std::string>& value) {
  const auto* nothing = find_nothing(name);
  if (!value) {
    if (nothing == nullptr && name != "--decay-lr" && name != "--start") return std::nullopt;
    usage_error("{0} is an option of nanoGPT, and needs a value as there: {0}=VALUE", name);
  }
  if (nothing != nullptr) {
    return NanoGPTOption{"", "", fmt::format("{} is not used: {}", name, nothing->second)};
  }
  if (name == "--decay-lr") {
    return NanoGPTOption{"--schedule", parse_switch(name, *value) ? "cosine" : "constant", ""};
  }
  if (name == "--start") {
    const bool file = value->starts_with("FILE:");
    return NanoGPTOption{file ? "--prompt-file" : "--prompt", file ? value->substr(5) : *value, ""};
  }
  if (name == "--dtype") {
    if (*value == "float32") return NanoGPTOption{name, "f32", ""};
    if (*value == "bfloat16") return NanoGPTOption{name, "bf16", ""};
    if (*value == "float16") usage_error("--dtype: there is no float16 here; use bf16 or f32");
  }
  return std::nullopt;
}

}  // namespace tapegrad::cli
