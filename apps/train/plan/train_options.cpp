#include "tapegrad/apps/train/plan/train_options.h"

#include <algorithm>

#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/run/train/internal/train_plan.h"

namespace tapegrad::gpt {

void Options::validate() const {
  text.validate();
  tuning.validate();
  check_rules(*this);
  optimizer.validate();
  // Otherwise the number of steps is not known yet.
  if (!epochs.epochs && !call.max_minutes) run::check_meetings(optimizer);
  evaluation.validate();
  model.validate();
  check(text.block_size <= model.block_size,
        "--block-size {} is more than the {} tokens that the model sees at once", text.block_size,
        model.block_size);
  const std::vector<optim::OptimizerId> used = optimizer.rules.used();
  check(std::count(used.begin(), used.end(), optim::optimizer_named("muon")) == 0 ||
            model.projects_apart() || model.n_head * model.channels_per_head() == model.n_embd,
        "--optimizer muon needs --separate-qkv with --head-size {}: heads are as wide as the model "
        "otherwise",
        model.channels_per_head());
  const auto check_text = [](std::string_view option, const auto& parse) {
    try {
      parse();
    } catch (const Error& error) {
      fail("{}: {}", option, error.what());
    }
  };
  check_text("--final-eval", [&] { run::evaluation_limit(epochs.final_eval, 1); });
  check_text("--bandwidth", [&] { run::parse_bandwidth(extras.bandwidth); });
  check_text("--latency", [&] { run::parse_latency(extras.latency); });
  const run::PreferenceOptions usual;
  check(prefers() || preference.loss == usual.loss, "--preference-loss needs --preferences");
  check(prefers() || preference.beta == usual.beta, "--beta needs --preferences");
  check(
      !prefers() || !preference.has_reference() || !tuning.adapter,
      "--adapter: the reference of --preferences would be the model without these adapters. Merge "
      "them into it first (tapegrad merge --adapter), or take --preference-loss orpo, which has "
      "no reference");
  check(!prefers() || text.block_size >= 4, "--block-size {} has no room for a pair of answers",
        text.block_size);
  const bool taught = !teaching.teacher.empty();
  check(taught || teaching.weight == run::TeacherOptions().weight,
        "--teacher-weight needs --teacher");
  check(taught || teaching.temperature == run::TeacherOptions().temperature,
        "--teacher-temperature needs --teacher");
  check(!taught || !prefers(), "--teacher and --preferences exclude each other");
  const bool in_epochs = text.in_epochs();
  check(in_epochs || !epochs.epochs, "--epochs needs --batches epochs");
  check(in_epochs || epochs.sample_interval || epochs.sample_prompt.empty(),
        "--sample-prompt needs --sample-interval or --batches epochs");
}

Options Options::with_defaults() const {
  Options o = *this;
  o.model = model.with_defaults();
  o.text.val_fraction = text.val_fraction.value_or(run::kValFraction);
  o.text.stride = batches().stride;
  if (tuning.lora_rank) {
    const nn::LoraOptions adapters = tuning.adapters();
    o.tuning.lora_alpha = adapters.alpha;
    o.tuning.lora_target = adapters.targets;
  }
  return o;
}

}  // namespace tapegrad::gpt
