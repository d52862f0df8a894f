#include "tapegrad/apps/train/plan/init_from.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>

#include "tapegrad/base/file.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/decoder_names.h"
#include "tapegrad/run/corpus/chat/add_chatml.h"
#include "tapegrad/run/folder/run_checkpoint.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/models/tensor_views.h"

namespace tapegrad::gpt {

std::optional<data::Tokenizer> given_tokenizer(const run::FolderOptions& folder,
                                               const OpenedModels& models) {
  if (models.start) return models.start->tokenizer;
  if (folder.resumes()) return run::open_model(folder.out_dir).tokenizer;
  return std::nullopt;
}

run::ModelSettings given_settings(const run::FolderOptions& folder, const OpenedModels& models,
                                  std::int64_t block_size) {
  if (folder.resumes()) return run::load_settings(folder.out_dir);
  if (!models.start) return {};
  const bool is_cut = block_size < models.start->config.block_size;
  return is_cut ? run::cut_settings(models.start->settings, block_size) : models.start->settings;
}

void check_patterns(const Options& o) {
  const optim::GroupRules rules = o.optimizer.rules;
  if (!o.tuning.lora_rank && o.tuning.freeze.empty() && rules.plain()) return;
  const DryRun dry;
  const nn::Params params = nn::Params::shapes_only();
  try {
    nn::make_decoder(params, o.model, o.tuning.build_options(false));
  } catch (const Error& error) {
    fail("{}: {}{}", o.tuning.lora_rank ? "--lora-target" : "--freeze", error.what(),
         o.model.tied
             ? fmt::format(" (the head is {}.weight, too)", nn::decoder_names(o.model).tokens)
             : "");
  }
  optim::make_groups(params.parameters(), rules);
}

WeightPlan weight_plan(const Plan& plan) {
  return {.folder = plan.call.folder,
          .tuning = plan.tuning,
          .model = plan.model,
          .precision = plan.optimizer.precision(),
          .models = plan.models,
          .copies_start = plan.copies_start()};
}

namespace {

std::shared_ptr<const TensorSource> initial_source(const WeightPlan& o) {
  const auto weights = run::first_positions(o.models.start->weights, o.model);
  return o.models.adapter ? run::joined(weights, o.models.adapter->tensors) : weights;
}

}  // namespace

nn::Params initial_params(const WeightPlan& o) {
  return nn::Params(initial_source(o), DType::f32, o.precision);
}

nn::Params quantized_params(const WeightPlan& o, FirstAdapters adapters,
                            const run::RunFolder* folder) {
  const auto source = [&]() -> std::shared_ptr<const TensorSource> {
    const bool given = adapters == FirstAdapters::given;
    if (o.models.start)
      return given ? initial_source(o) : run::first_positions(o.models.start->weights, o.model);
    const run::OpenedModel own = run::open_model(o.folder.out_dir);
    return given && folder != nullptr ? run::with_base(own, folder->weights())
                                      : run::first_positions(own.base, o.model);
  };
  nn::Params params(source(), DType::f32, o.precision);
  params.quantize(run::quantized_type(*o.tuning.weights), /*exact=*/true);
  return params;
}

namespace {

std::shared_ptr<const TensorSource> start_source(const WeightPlan& o) {
  if (o.models.start) return o.models.start->weights;
  run::OpenedModel opened =
      run::open_model(o.tuning.started_from, o.tuning.checkpoint.value_or(std::string(run::kLast)));
  run::add_chatml(opened);
  return opened.weights;
}

}  // namespace

nn::Params start_params(const WeightPlan& o) {
  nn::Params params(run::first_positions(start_source(o), o.model), DType::f32, o.precision);
  params.quantize(nullptr, /*exact=*/true);
  return params;
}

std::optional<std::string> fingerprint_of_base(const WeightPlan& o) {
  if (o.models.start) run::check_base(*o.models.start);
  if (!o.tuning.weights && !o.copies_start) return std::nullopt;
  if (o.models.start) return run::fingerprint_of(*o.models.start->weights);
  if (!o.folder.resumes()) return std::nullopt;
  if (o.tuning.weights) {
    run::check_base(run::open_model(o.folder.out_dir));
    return std::nullopt;
  }
  const std::string now = run::fingerprint_of(*start_source(o));
  check(now == o.tuning.base,
        "{}: this run is compared with {}, whose weights have changed since the run began "
        "(fingerprint {}, now {}): put that model back as it was",
        o.folder.out_dir, o.tuning.started_from, o.tuning.base, now);
  return now;
}

void check_initial_params(const WeightPlan& o, const nn::Params& params) {
  run::check_finite_tensors(o.models.start->weights->name(), params.tensors());
}

namespace {

// "/models/tiny.gguf stays where it is: q8_0 and f32, 1,234 MB in memory"
std::string about_base(const WeightPlan& o, const nn::Params& params) {
  std::vector<std::string_view> types;
  double bytes = 0;
  for (const auto& [name, matrix] : params.quantized_matrices()) {
    const std::string_view type = matrix->type().name;
    if (std::count(types.begin(), types.end(), type) == 0) types.push_back(type);
    bytes += static_cast<double>(matrix->bytes());
  }
  return fmt::format("{} stays where it is: {}, {:.0f} MB in memory", o.tuning.started_from,
                     fmt::join(types, " and "), bytes / 1e6);
}

}  // namespace

std::vector<run::HeaderLine> about_tuning(const WeightPlan& o, const nn::Params& params) {
  std::vector<run::HeaderLine> lines;
  if (o.folder.starts_from_model()) {
    const std::string& start = o.folder.init_from;
    const bool is_run = path_exists(std::filesystem::path(start) / run::kTrainerFile);
    lines.push_back(
        {"start",
         is_run ? fmt::format("{}, its checkpoint {}", start, *o.tuning.checkpoint) : start});
    if (const std::int64_t own = o.models.start->config.block_size; o.model.block_size < own) {
      lines.push_back(
          {"cut", fmt::format("the model keeps the first {} of its {} learned positions",
                              grouped(o.model.block_size), grouped(own))});
    }
  }
  if (!o.tuning.lora_rank && o.tuning.freeze.empty()) return lines;
  const nn::LoraOptions lora = o.tuning.adapters();
  if (o.tuning.weights) lines.push_back({"base", about_base(o, params)});
  const std::string what = lora.rank > 0
                               ? fmt::format("LoRA of rank {} and alpha {:g} at {}", lora.rank,
                                             lora.alpha, fmt::join(lora.targets, ", "))
                               : fmt::format("all but {}", fmt::join(o.tuning.frozen(), ", "));
  lines.push_back({"trained", fmt::format("{} of {} parameters: {}", grouped(params.count()),
                                          grouped(params.total_count()), what)});
  return lines;
}

}  // namespace tapegrad::gpt
