#include "tapegrad/apps/train/train_program.h"

#include <fmt/ranges.h>

#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/train/objectives.h"
#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/apps/train/plan/init_from.h"
#include "tapegrad/apps/train/text_notes.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/corpus/chat/chat_tokenizer.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/models/chat_template_of.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/record/report.h"

namespace tapegrad::gpt {
namespace {

nn::Params make_params(const WeightPlan& o, const run::RunFolder& folder, Rng& rng) {
  if (o.tuning.weights) {
    return quantized_params(o, FirstAdapters::given, folder.resumes() ? &folder : nullptr);
  }
  if (o.folder.starts_from_model()) return initial_params(o);
  return folder.params(rng, o.precision);
}

// For a model that is not new, `rng` draws the adapters.
nn::Decoder make_gpt(const nn::Params& params, const WeightPlan& o, FirstWeights first,
                     bool recompute, Rng& rng) {
  const bool starts = o.folder.starts_from_model();
  nn::DecoderBuildOptions how = o.tuning.build_options(recompute);
  if (starts && !o.models.adapter) how.new_adapters = &rng;
  if (!starts && !o.folder.resumes() && first == FirstWeights::gpt2) how.gpt2_weights = &rng;
  nn::Decoder gpt = nn::make_decoder(params, o.model, how);
  if (starts) check_initial_params(o, params);
  return gpt;
}

run::ModelSettings settings_of(const Plan& plan, const run::TextData& data) {
  run::ModelSettings settings =
      given_settings(plan.call.folder, plan.models, plan.model.block_size);
  if (!data.chat) return settings;
  return run::settings_with_template(settings, data.tokenizer, data.chat->chat_template);
}

// " (1,234 active)", of a model with experts.
std::string active_text(const nn::DecoderConfig& c) {
  if (!c.moe.exist()) return "";
  return fmt::format(" ({} active)", grouped(nn::summary(c).active_parameters()));
}

}  // namespace

Program::Program(Plan plan, run::RunFolder& folder, run::Text text, run::TextData data)
    : plan_(std::move(plan)),
      folder_(folder),
      text_(std::move(text)),
      data_(std::move(data)),
      settings_(settings_of(plan_, data_)),
      prompt_(run::prompt_tokens(data_.tokenizer, plan_.epochs.sample_prompt)),
      memory_(run::checked_memory(memory_of(plan_), plan_.call.max_minutes.has_value(),
                                  folder.processes(), plan_.optimizer.sharing())),
      rng_(plan_.random.seed),
      params_(make_params(weight_plan(plan_), folder, rng_)),
      gpt_(make_gpt(params_, weight_plan(plan_), plan_.init.init, plan_.extras.recomputes(), rng_)),
      objective_(objective_of(plan_)),
      second_(objective_->make_second(gpt_)),
      batches_(data_, plan_.batches(), rng_),
      own_dropout_(plan_.random.seed, Rng::Kind::philox),
      training_(std::make_shared<run::DecoderTraining>(
          run::DecoderTraining::Parts{.objective = *objective_,
                                      .models = {gpt_, second_ ? &*second_ : nullptr},
                                      .data = data_,
                                      .plan = plan_.batches(),
                                      .random = plan_.random,
                                      .eval_iters = plan_.evaluation.eval_iters,
                                      .batches = batches_,
                                      .own_dropout = own_dropout_,
                                      .processes = folder.processes()})) {
  run::rule_out_padding(gpt_, data_.tokenizer);
}

run::Task Program::task() {
  run::Config config = run::config_of(plan_, run::kGPTFormat);
  config.set(run::section_of("model", plan_.model));
  run::keep_identity(config, text_);
  return {
      .params = params_,
      .batches = batches_,
      .objective = training_,
      .dropout = &own_dropout_,
      .config = std::move(config),
      .write_files =
          [this](const std::filesystem::path& folder) {
            run::save_settings(folder, settings_, data_.tokenizer);
            run::keep_text(folder, data_.tokenizer, plan_.text.source(), text_);
          },
      .after_step = [this](run::Report& report, bool made) { after_step(report, made); },
      .after_step_due = [this](std::int64_t step, bool made) { return prints_text(step, made); },
      .finish = [this](run::Report& report) { finish(report); },
      .side_costs = [this] { return side_costs(); },
      .about = about(),
  };
}

run::HeaderLine Program::about_text() const {
  if (data_.chat) {
    return {std::string(objective_->name()),
            fmt::format("{}: {} ({})", text_name(text_), run::about_chat(*data_.chat),
                        plan_.text.tokenizer)};
  }
  std::string text = fmt::format("{}: {} to train, {} to validate ({})", text_name(text_),
                                 amount(data_.train, data_.train_documents),
                                 amount(data_.val, data_.val_documents), plan_.text.tokenizer);
  const std::string shares = run::shares_text(data_.train, text_.mixture);
  if (!shares.empty()) text += "; a pass is " + shares;
  return {"text", std::move(text)};
}

run::RunHeader Program::about() const {
  const nn::DecoderConfig& c = plan_.model;
  const run::OptimizerOptions& o = plan_.optimizer;
  const std::int64_t T = plan_.text.block_size;
  run::RunHeader about{
      .lines = {{"model",
                 fmt::format("{}{}: {}, {}, {}; it sees {} at once{}",
                             c.arch == nn::Architecture::gpt2
                                 ? ""
                                 : fmt::format("{}, ", name_of_enum(c.arch)),
                             counted(params_.total_count(), "parameter") + active_text(c),
                             counted(c.n_layer, "layer"), counted(c.n_head, "head"),
                             counted(c.n_embd, "channel"), counted(c.block_size, "token"),
                             T == c.block_size ? "" : fmt::format(", in training {}", grouped(T))),
                 fmt::format("n_layer {}, n_head {}, n_embd {}, block_size {}, vocab_size {}",
                             c.n_layer, c.n_head, c.n_embd, c.block_size, c.vocab_size)},
                about_text()},
      .step = grouped(o.batch_size * T * o.gradient_accumulation_steps) + " tokens",
      .memory = memory_,
      .product = product_of(plan_),
      .use_command =
          data_.chat ? fmt::format("{} {}", cli::program_path("tapegrad chat"),
                                   cli::quoted(folder_.path().string()))
                     : fmt::format("{} {} --num-samples 3", cli::program_path("tapegrad sample"),
                                   cli::quoted(folder_.path().string()))};
  const auto tuning = about_tuning(weight_plan(plan_), params_);
  about.lines.insert(about.lines.begin() + 1, tuning.begin(), tuning.end());
  for (run::HeaderLine& line : objective_->about()) about.lines.push_back(std::move(line));
  if (!plan_.preset_note.empty()) {
    about.lines.push_back({"recipe", plan_.preset_note});
  }
  if (const std::string obstacle = export_obstacle(plan_.model, plan_.text.preset);
      !obstacle.empty()) {
    about.lines.push_back({"export", "not " + obstacle});
    about.last_note = "This model cannot be exported " + obstacle;
  }
  if (!plan_.recompute_note.empty()) {
    about.lines.push_back({"recompute", plan_.recompute_note});
  }
  return about;
}

void Program::finish(run::Report& report) const {
  const std::string what = "evaluating the validation split";
  report.working(what);
  const run::OptimizerOptions& o = plan_.optimizer;
  const double tokens = static_cast<double>(o.batch_size * plan_.text.block_size);
  const auto limit = run::evaluation_limit(
      plan_.epochs.final_eval,
      run::automatic_batches(
          static_cast<double>(report.iteration() * o.gradient_accumulation_steps),
          tokens * nn::summary(gpt_.config, plan_.text.block_size).flops()));
  if (limit) {
    const run::WindowOptions windows{.batch_size = o.batch_size,
                                     .block_size = plan_.text.block_size,
                                     .limit = *limit,
                                     .on_progress = [&](double share, double left) {
                                       report.progress(what + ": " + progress_text(share, left));
                                     }};
    const auto loss = training_->evaluate_all(windows);
    if (loss) report.result(loss->text, loss->numbers);
  }
  save_adapters(report);
  if (plan_.call.sample) print_samples(report);
  if (!plan_.tuning.lora_rank) return;
  const std::string run = folder_.path().string();
  report.line(fmt::format(
      "\nThe model with its adapters, and the adapters alone, for other programs:\n"
      "  {} {} --out {}\n  {} {} --format peft --out {}",
      cli::program_path("tapegrad merge"), cli::quoted(run), cli::quoted(run + "-merged"),
      cli::program_path("tapegrad export"), cli::quoted(run), cli::quoted(run + "-peft")));
}

// For other programs, beside the checkpoint, whose adapters they are.
void Program::save_adapters(run::Report& report) const {
  const bool writes = folder_.processes() == nullptr || folder_.processes()->rank() == 0;
  if (!plan_.tuning.weights || !writes) return;
  try {
    const auto files =
        run::save_adapters_beside(folder_.path(), run::open_model(folder_.path().string()));
    report.line(fmt::format("adapters: {} in {}", fmt::join(files, ", "), folder_.path().string()));
  } catch (const Error& error) {
    report.line(fmt::format("adapters are not written for other programs: {}", error.what()));
  }
}

}  // namespace tapegrad::gpt
