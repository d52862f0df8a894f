#include "tapegrad/run/run_options.h"

#include <algorithm>

#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::apps {
namespace {

// What can be said of a tokenizer before there is a text.
void check_tokenizer(const std::string& spec) {
  if (spec == "char" || spec == "gpt2") return;
  const std::optional<int64_t> size = data::bpe_size(spec);
  check(size && *size >= 257 && *size <= data::Bpe::kMaxSize,
        "--tokenizer: '{}' is not char, gpt2 or bpe:N with N tokens from 257 to {}, such as "
        "bpe:1024",
        spec, +data::Bpe::kMaxSize);
}

}  // namespace

void check_threads(const std::optional<int>& threads) {
  check(!threads || *threads <= kMaxThreads, "--threads must be at most {}", +kMaxThreads);
}

optim::AdamWOptions RunOptions::adamw_options() const {
  return {.beta1 = beta1, .beta2 = beta2, .weight_decay = weight_decay, .decay_all = decay_all};
}

bool RunOptions::evaluates_at(int64_t iteration) const {
  return iteration >= eval_offset && (iteration - eval_offset) % eval_interval == 0;
}

bool RunOptions::saves_at(int64_t iteration) const {
  return checkpoint_interval ? iteration % *checkpoint_interval == 0 : evaluates_at(iteration);
}

void RunOptions::settle() {
  if (!lr_decay_iters) lr_decay_iters = std::max(max_iters, warmup_iters);
}

optim::Schedule RunOptions::lr_schedule() const {
  return {.kind = optim::schedule_from(schedule),
          .learning_rate = learning_rate,
          .min_lr = min_lr,
          .warmup_iters = warmup_iters,
          .lr_decay_iters = lr_decay_iters.value_or(std::max(max_iters, warmup_iters))};
}

void RunOptions::check_values() const {
  check_tokenizer(tokenizer);
  lr_schedule().validate();
  optim::AdamW(NamedTensors{}, adamw_options());
  constexpr int64_t most_batches = 1'000'000;
  check(eval_iters <= most_batches, "--eval-iters must be at most {}", most_batches);
  check_threads(threads);
  constexpr int64_t most_steps = int64_t{1} << 40, most_rows = int64_t{1} << 18;
  check(max_iters <= most_steps, "--max-iters must be at most {}", most_steps);
  check(batch_size <= most_rows && gradient_accumulation_steps <= most_rows,
        "--batch-size and --gradient-accumulation-steps must be at most {}", most_rows);
}

}  // namespace tapegrad::apps
