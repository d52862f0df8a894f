#include "tapegrad/apps/train/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/apps/train/plan/fast.h"
#include "tapegrad/apps/train/plan/presets.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::gpt {
namespace {

using cli::GivenOptions;

// What a run needs that starts from no model.
void check_new_chat(const run::TextOptions& text) {
  if (!text.preferences.empty()) {
    cli::usage_error(
        "--preferences needs --init-from PATH, a model that answers already: a run folder, or a "
        "model of another program");
  }
  // A new tokenizer must have tokens beside characters.
  if (text.chat.empty() || text.tokenizer != "char") return;
  cli::usage_error(
      "--chat needs a tokenizer with special tokens: --tokenizer bpe:N (such as bpe:2048), gpt2 or "
      "the path of a tokenizer.json; or a model that has one: --init-from PATH");
}

}  // namespace

void check_arguments(const Arguments& arguments) {
  const Options& o = arguments.options;
  const GivenOptions& given = arguments.given;
  for (const char* option : {"--max-iters", "--max-minutes"}) {
    if (!given.has("--epochs") || !given.has(option)) continue;
    cli::usage_error("--epochs and {} exclude each other", option);
  }
  if (given.has("--gflops") && !is_sized(o.text.preset) && !o.extras.plan) {
    cli::usage_error(
        "--gflops is for --preset fast, which chooses a size by it, and for --plan, which computes "
        "times by it");
  }
  if (given.has("--for") && !is_sized(o.text.preset)) {
    cli::usage_error("--for is for --preset fast, which chooses parts by it");
  }
  for (const char* option : {"--ranks", "--bandwidth", "--latency"}) {
    if (o.extras.plan || !given.has(option)) continue;
    cli::usage_error("{} is for --plan: `mpirun -n 4 {} …` starts four processes", option,
                     cli::program_path("tapegrad train"));
  }
  const run::FolderOptions& folder = o.call.folder;
  if (!folder.resumes() && !folder.starts_from_model()) check_new_chat(o.text);
}

run::TextOptions with_folders(const Arguments& arguments, bool corpus_is_tokens) {
  run::TextOptions text = arguments.options.text;
  // Also in place of those that a run has kept.
  if (corpus_is_tokens) text.data = std::exchange(text.corpus, {});
  const bool free = !arguments.options.call.folder.resumes() && !arguments.given.has("--tokenizer");
  if (!text.data.empty() && free) text.tokenizer.clear();
  return text;
}

namespace {

// Heads and rate for the width of --n-embd, where it alone was given in place of what was chosen.
void take_own_width(Plan& plan, const GivenOptions& given) {
  if (!is_sized(plan.text.preset) || plan.call.folder.resumes() || !given.has("--n-embd")) return;
  const int width = plan.model.n_embd;
  if (!given.has("--n-head")) plan.model.n_head = fast_heads(width).value_or(plan.model.n_head);
  if (!given.has("--learning-rate")) plan.optimizer.learning_rate = fast_rate(width);
}

// How long it trains: by --epochs, --max-iters or --max-minutes, of which one replaces the others.
// A run that is resumed has its steps.
void take_length_of_run(Plan& plan, const GivenOptions& given) {
  const bool resumes = plan.call.folder.resumes(), by_epochs = given.has("--epochs");
  if (by_epochs) {
    plan.call.max_minutes.reset();
    if (!given.has("--batches") && !resumes) plan.text.batches = run::BatchKind::epochs;
  }
  const bool by_time = plan.call.max_minutes || (resumes && !by_epochs);
  if (given.has("--max-iters") || by_time) plan.epochs.epochs.reset();
}

// Batches of conversations are packed, whatever the preset has.
void take_chat(Plan& plan, const GivenOptions& given) {
  if (!plan.is_chat || plan.call.folder.resumes()) return;
  if (!given.has("--batches")) plan.text.batches = run::BatchKind::packed;
  if (!given.has("--stride")) plan.text.stride.reset();
}

// The processes of --plan, which share the batches that were asked for.
void take_ranks(Plan& plan, const Arguments& arguments) {
  const int ranks = static_cast<int>(plan.extras.ranks);
  const bool resumes = plan.call.folder.resumes();
  plan.batches_of_ranks = cli::batches_of_ranks(
      arguments.options.optimizer.gradient_accumulation_steps, resumes, arguments.given, ranks);
  cli::check_batches_of_ranks(plan.batches_of_ranks, resumes, plan.text.corpus, ranks);
}

// The steps of so many epochs, of so many batches each.
std::int64_t steps_of(std::int64_t epochs, std::int64_t batches, std::int64_t batches_of_step) {
  return (epochs * batches + batches_of_step - 1) / batches_of_step;
}

// A preset may read a text only so often. A run that is resumed has its steps already.
std::optional<double> most_epochs(const Plan& plan) {
  const cli::Preset<Options>* const preset = preset_row(plan.text.preset);
  if (preset == nullptr || plan.call.folder.resumes()) return std::nullopt;
  return preset->most_epochs;
}

std::optional<std::int64_t> most_iters(const Plan& plan, std::int64_t tokens) {
  if (!plan.most_epochs || tokens == 0) return std::nullopt;
  const run::OptimizerOptions& o = plan.optimizer;
  const std::int64_t step = o.batch_size * plan.text.block_size * o.gradient_accumulation_steps;
  const double steps = *plan.most_epochs * static_cast<double>(tokens) / static_cast<double>(step);
  return std::max<std::int64_t>(1, std::llround(steps));
}

void take_text(Plan& plan, const TextFacts& text) {
  plan.model.vocab_size = text.vocab_size;
  if (plan.text.tokenizer.empty()) plan.text.tokenizer = text.tokenizer;
  // The folder keeps a text that cannot be read again.
  if (plan.text.source().reads_stdin()) plan.text.corpus.clear();
  if (const auto epochs = plan.epochs.epochs; epochs && text.batches_per_epoch) {
    plan.optimizer.max_iters =
        steps_of(*epochs, *text.batches_per_epoch, plan.optimizer.gradient_accumulation_steps);
    plan.epochs.epochs.reset();
  }
  plan.most_iters = most_iters(plan, text.train_tokens);
}

// The value of --recompute auto, and why it is so. All else of the plan is decided.
void take_room(Plan& plan, const Facts& facts) {
  if (plan.extras.recompute != Recompute::automatic || !facts.fits) return;
  plan.extras.recompute = Recompute::off;
  const run::MemoryEstimate stored = memory_of(plan);
  const bool fits = facts.fits(stored);
  if (!fits) plan.extras.recompute = Recompute::on;
  plan.recompute_note =
      fmt::format("{}: without it, a step takes {}{}", fits ? "off" : "on", size_text(stored.total),
                  facts.room.empty() ? "" : ", and " + facts.room);
}

}  // namespace

Plan resolve(const Arguments& arguments, const Facts& facts) {
  const GivenOptions& given = arguments.given;
  Plan plan(arguments.options);
  cli::resolve_shared<Options>(plan, arguments);
  cli::resolve_dtype(plan.optimizer, facts.faster);
  plan.text = with_folders(arguments, facts.corpus_is_tokens);
  plan.models = facts.models;
  plan.is_chat = facts.is_chat;
  plan.preset_note = arguments.preset_note;
  plan.most_epochs = most_epochs(plan);
  take_own_width(plan, given);
  take_length_of_run(plan, given);
  take_chat(plan, given);
  const run::FolderOptions& folder = plan.call.folder;
  const bool starts = folder.starts_from_model();
  if (!folder.resumes() && !starts) plan.model.block_size = plan.text.block_size;
  if (starts) take_start(plan, given);
  if (facts.models.teacher) plan.teaching.teacher = facts.models.teacher_path;
  // A preset's decay of tables that the model does not have.
  if (plan.model.ngrams == 1 && !given.has("--decay")) {
    std::erase(plan.optimizer.rules.decay, kNgramDecay);
  }
  if (plan.extras.plan) take_ranks(plan, arguments);
  if (facts.text) take_text(plan, *facts.text);
  if (facts.base) plan.tuning.base = *facts.base;
  if (facts.teacher) plan.teaching.base = *facts.teacher;
  take_room(plan, facts);
  return plan;
}

}  // namespace tapegrad::gpt
