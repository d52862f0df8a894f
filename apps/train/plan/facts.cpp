#include "tapegrad/apps/train/plan/facts.h"

#include <algorithm>
#include <utility>

#include "tapegrad/apps/train/objectives.h"
#include "tapegrad/apps/train/plan/init_from.h"
#include "tapegrad/apps/train/plan/presets.h"
#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/run/corpus/chat/chat_tokenizer.h"
#include "tapegrad/run/corpus/internal/token_folder.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/models/formats/export.h"

namespace tapegrad::embedded {
std::string_view tiny_shakespeare();
}

namespace tapegrad::gpt {
namespace {

// The size of the vocabulary: that of the run to resume, or of the tokenizer that the options ask
// for.
std::int64_t vocab_size_of(const Plan& o) {
  if (const auto given = given_tokenizer(o.call.folder, o.models)) return given->vocab_size();
  if (const auto size = data::bpe_size(o.text.tokenizer)) return *size;  // learning takes minutes
  std::optional<run::Text> text;
  const auto read = [&]() -> const run::Text& {
    return text.emplace(run::text_of_new_run(o.text.source(), default_text));
  };
  if (!o.text.chat.empty()) {
    return run::make_chat_tokenizer(o.text.tokenizer, read(),
                                    o.text.val_fraction.value_or(run::kValFraction), o.random.seed)
        .vocab_size();
  }
  return run::make_tokenizer(o.text, o.random.seed, read).vocab_size();
}

}  // namespace

run::Text default_text() {
  return run::text_of_program("tiny shakespeare", embedded::tiny_shakespeare());
}

Product product_of(const Options& o) {
  return {o.optimizer.batch_size * o.text.block_size, o.model.inner(), o.model.n_embd};
}

run::StepOptions step_options(const Plan& o) {
  run::StepOptions options{.recompute = o.extras.recomputes(),
                           .precision = o.optimizer.precision(),
                           .dropout = o.random.rng,
                           .tuning = o.tuning,
                           .optimizer = o.optimizer.rules,
                           .averages = o.optimizer.averages()};
  if (o.tuning.weights) {
    options.params = [&o] { return quantized_params(weight_plan(o), FirstAdapters::left_out); };
  }
  return options;
}

run::MemoryEstimate memory_of(const Plan& o) {
  run::MemoryOptions options{.step = step_options(o),
                             .block_size = o.text.block_size,
                             .other_machine = o.extras.assumes_machine()};
  const auto objective = objective_of(o);
  options.second_model = objective->second_model();
  options.step.loss = [&](const nn::Decoder& gpt, const nn::Decoder* second,
                          const nn::TokenRows& rows, const Tensor& targets, Rng* dropout) {
    return objective->loss_of_rows({gpt, second}, rows, targets, dropout);
  };
  return run::estimate_memory(o.model, o.optimizer.batch_size, options);
}

Facts facts_of(const Arguments& arguments) {
  const run::TextOptions& text = arguments.options.text;
  const auto is_folder = [](const std::string& path) {
    return run::is_token_folder(run::weighted_file(path).path);
  };
  Facts facts;
  cli::as_usage([&] {
    if (!arguments.given.has("--data") && !text.corpus.empty()) {
      facts.corpus_is_tokens = std::all_of(text.corpus.begin(), text.corpus.end(), is_folder);
    }
    facts.is_chat = with_folders(arguments, facts.corpus_is_tokens).learns_chat();
  });
  facts.models = open_models(arguments, facts.is_chat);
  return facts;
}

Facts with_text(Facts facts, const Plan& plan, const run::TextData& data,
                const Processes* processes) {
  TextFacts text{.vocab_size = data.tokenizer.vocab_size(), .train_tokens = data.train.size()};
  if (plan.text.tokenizer.empty()) {
    const std::vector<std::string>& folders = plan.text.data;
    text.tokenizer = run::tokenizer_spec(
        data.tokenizer, folders.empty() ? "" : run::weighted_file(folders.front()).path);
  }
  if (plan.epochs.epochs) {
    text.batches_per_epoch = run::Batches(data, plan.batches(), Rng(0)).per_epoch();
  }
  facts.text = text;
  facts.is_chat = data.chat != nullptr;
  facts.base = fingerprint_of_base(weight_plan(plan));
  facts.teacher = fingerprint_of_teacher(plan, data.tokenizer);
  return with_room(std::move(facts), plan, processes);
}

Facts with_vocabulary(Facts facts, const Plan& plan) {
  facts.text = TextFacts{.vocab_size = vocab_size_of(plan)};
  if (const run::OpenedModel* const teacher = facts.models.teacher.get()) {
    run::check_teacher(*teacher, plan.teaching.teacher, teacher->tokenizer, facts.text->vocab_size,
                       plan.text.block_size);
  }
  return with_room(std::move(facts), plan, nullptr);
}

Facts with_room(Facts facts, const Plan& plan, const Processes* processes) {
  if (plan.extras.recompute != Recompute::automatic) return facts;
  const bool measured = plan.call.max_minutes.has_value();
  const optim::Sharing sharing = plan.optimizer.sharing();
  facts.fits = [measured, processes, sharing](const run::MemoryEstimate& step) {
    return run::memory_fits(step, measured, processes, sharing);
  };
  if (const auto available = available_memory()) facts.room = available->text();
  return facts;
}

std::string export_obstacle(const nn::DecoderConfig& model, std::string_view preset) {
  const std::string obstacle = run::export_obstacle(model);
  const bool chose_parts = !obstacle.empty() && is_sized(preset);
  return obstacle +
         (chose_parts ? "; --preset fast --for gguf takes parts that can be exported" : "");
}

}  // namespace tapegrad::gpt
