// The part of a plan that goes by the model that the run starts from.

#include <algorithm>
#include <iterator>

#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/train/plan/plan.h"
#include "tapegrad/run/folder/config.h"

namespace tapegrad::gpt {
namespace {

constexpr std::int64_t kMostTokens = 1024;  // of a training sequence, unless --block-size asks
// Options that weights do not depend on.
constexpr std::string_view kFree[] = {"dropout", "ff_dropout", "attn_out_dropout"};

// Sets each member of a model's config to that of the start, or checks that they agree.
class ConfigFromCheckpoint : public OptionTable {
 public:
  ConfigFromCheckpoint(const nn::DecoderConfig& start, const std::string& folder,
                       const cli::GivenOptions& given)
      : start_(run::section_of("model", start)),
        whole_(start_.with_defaults(start_)),
        folder_(folder),
        given_(given) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    const std::string option = cli::option_name(name);
    if (rule.option && given_.has(option)) {
      if (std::count(std::begin(kFree), std::end(kFree), name) > 0) return;
      const std::string now = run::value_text(member.value());
      const std::string before = run::value_text(*whole_.find(name));
      if (now != before) {
        cli::usage_error("{} {} does not fit the model in {}, which has {}", option, now, folder_,
                         before);
      }
    }
    run::set_member(name, member, *start_.find(name));
  }

  const run::Section start_, whole_;
  const std::string& folder_;
  const cli::GivenOptions& given_;
};

// The length of the sequences to train on. The model goes on seeing what it saw, but for learned
// positions: steps would change the weights of those that no sequence reaches, so these are cut.
void take_length(Plan& plan, const cli::GivenOptions& given) {
  const run::OpenedModel& start = *plan.models.start;
  const std::int64_t own = start.config.block_size;
  const bool learned = plan.model.position_kind() == nn::Positions::learned;
  std::int64_t& length = plan.text.block_size;
  if (!given.has("--block-size")) {
    length = learned ? own : start.training_length.value_or(std::min(own, kMostTokens));
  }
  if (learned && length > own) {
    cli::usage_error(
        "--block-size {} is more than the {} positions of the model in {}: it has learnt no "
        "weights for the others",
        length, own, plan.call.folder.init_from);
  }
  plan.model.block_size = learned ? length : std::max(own, length);
}

// The adapters of --adapter, which say what they are.
void take_adapter(run::TuningOptions& tuning, const OpenedModels& models,
                  const cli::GivenOptions& given) {
  if (!models.adapter) return;
  for (const char* option : {"--lora-rank", "--lora-alpha", "--lora-target", "--lora-scaling"}) {
    if (given.has(option) && given.file_of(option).empty()) {
      cli::usage_error("{} and --adapter exclude each other: the file says what its adapters are",
                       option);
    }
  }
  tuning.adapter = models.adapter_path;
  tuning.take(models.adapter->options);
}

}  // namespace

void take_start(Plan& plan, const cli::GivenOptions& given) {
  const OpenedModels& models = plan.models;
  const std::string& folder = plan.call.folder.init_from;
  plan.text.tokenizer = models.tokenizer;
  ConfigFromCheckpoint from_checkpoint(models.start->config, folder, given);
  OptionSchema(plan.model).describe(from_checkpoint);
  take_length(plan, given);
  plan.tuning.checkpoint = models.checkpoint;
  plan.tuning.started_from = models.start_path;
  take_adapter(plan.tuning, models, given);
}

}  // namespace tapegrad::gpt
