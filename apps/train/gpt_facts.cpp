#include "tapegrad/apps/train/gpt_facts.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/apps/train/gpt_preferences.h"
#include "tapegrad/apps/train/gpt_teacher.h"
#include "tapegrad/apps/train/init_from.h"
#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/corpus/chat/chat_tokenizer.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/models/formats/export.h"

namespace tapegrad::embedded {
std::string_view tiny_shakespeare();
}

namespace tapegrad::gpt {
namespace {

// The size of the vocabulary: that of the run to resume, or of the tokenizer that the options ask
// for.
std::int64_t vocab_size_of(const Options& o) {
  if (const auto given = given_tokenizer(o)) return given->vocab_size();
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

void add_room(const Options& o, const Processes* processes, Facts& facts) {
  if (o.extras.recompute != Recompute::automatic) return;
  const bool measured = o.call.max_minutes.has_value();
  facts.fits = [measured, processes](const run::MemoryEstimate& step) {
    return run::memory_fits(step, measured, processes);
  };
  if (const auto available = available_memory()) facts.room = available->text();
}

// The value of --recompute auto, and why it is so. `plan` is settled but for this.
void settle_recompute(Options& plan, const Facts& facts) {
  if (plan.extras.recompute != Recompute::automatic) return;
  plan.extras.recompute = Recompute::off;
  const run::MemoryEstimate stored = memory_of(plan);
  const bool fits = facts.fits(stored);
  if (!fits) plan.extras.recompute = Recompute::on;
  plan.extras.recompute_note =
      fmt::format("{}: without it, a step takes {}{}", fits ? "off" : "on", size_text(stored.total),
                  facts.room.empty() ? "" : ", and " + facts.room);
}

}  // namespace

run::Text default_text() {
  return run::text_of_program("tiny shakespeare", embedded::tiny_shakespeare());
}

Product product_of(const Options& o) {
  return {o.optimizer.batch_size * o.text.block_size, o.model.inner(), o.model.n_embd};
}

run::MemoryEstimate memory_of(const Options& o) {
  run::MemoryOptions options{.block_size = o.text.block_size,
                             .recompute = o.extras.recomputes(),
                             .stored_masks = o.random.one_generator(),
                             .precision = o.optimizer.precision(),
                             .tuning = o.tuning,
                             .optimizer = o.optimizer.rules()};
  add_preference_memory(o, options);
  add_teacher_memory(o, options);
  if (o.tuning.weights)
    options.quantized = [&o] { return quantized_params(o, FirstAdapters::left_out); };
  return run::estimate_memory(o.model, o.optimizer.batch_size, options);
}

Facts facts_of(const Options& o, const run::TextData& data, const Processes* processes) {
  Facts facts{.vocab_size = data.tokenizer.vocab_size(), .train_tokens = data.train.size()};
  if (o.text.tokenizer.empty()) {
    facts.tokenizer = run::tokenizer_spec(
        data.tokenizer, o.text.data.empty() ? "" : run::weighted_file(o.text.data.front()).path);
  }
  if (o.passes.epochs) {
    facts.batches_per_epoch = run::Batches(data, o.batches(), Rng(0)).per_pass();
  }
  facts.base = fingerprint_of_base(o);
  facts.teacher = fingerprint_of_teacher(o, data.tokenizer);
  add_room(o, processes, facts);
  return facts;
}

Facts facts_without_text(const Options& o) {
  Facts facts{.vocab_size = vocab_size_of(o)};
  if (o.teacher) {
    run::check_teacher(*o.teacher, o.teaching.teacher, o.teacher->tokenizer, facts.vocab_size,
                       o.text.block_size);
  }
  add_room(o, nullptr, facts);
  return facts;
}

Options resolve(const Options& said, const Facts& facts) {
  Options plan = said;
  plan.model.vocab_size = facts.vocab_size;
  if (plan.text.tokenizer.empty()) plan.text.tokenizer = facts.tokenizer;
  // The folder keeps a text that cannot be read again.
  if (plan.text.source().reads_stdin()) plan.text.corpus.clear();
  if (said.passes.epochs && facts.batches_per_epoch) {
    const std::int64_t parts = said.optimizer.gradient_accumulation_steps;
    plan.optimizer.max_iters = (*said.passes.epochs * *facts.batches_per_epoch + parts - 1) / parts;
    plan.passes.epochs.reset();
  }
  if (said.call.most_epochs && facts.train_tokens > 0) {
    const std::int64_t step = said.optimizer.batch_size * said.text.block_size *
                              said.optimizer.gradient_accumulation_steps;
    const double steps = *said.call.most_epochs * static_cast<double>(facts.train_tokens) /
                         static_cast<double>(step);
    plan.call.most_iters = std::max<std::int64_t>(1, std::llround(steps));
  }
  if (facts.base) plan.tuning.base = *facts.base;
  if (facts.teacher) plan.teaching.base = *facts.teacher;
  settle_recompute(plan, facts);
  return plan;
}

std::string export_obstacle(const Options& o) {
  const std::string obstacle = run::export_obstacle(o.model);
  const bool chose_parts = !obstacle.empty() && o.text.preset == "fast";
  return obstacle +
         (chose_parts ? "; --preset fast --for gguf takes parts that can be exported" : "");
}

}  // namespace tapegrad::gpt
