#include <algorithm>
#include <iterator>

#include "tapegrad/apps/train/samples.h"
#include "tapegrad/apps/train/train_program.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/nn/generation/generate.h"

namespace tapegrad::gpt {
namespace {

// Measures what a token of generated text takes.
class TextCosts {
 public:
  // For texts of at most so many tokens, of a prompt of one or block_size, which ids do not matter.
  TextCosts(const nn::Decoder& gpt, std::int64_t longest) : block_size_(gpt.config.block_size) {
    const auto measure = [&](std::int64_t prompt, std::int64_t count) {
      const nn::Tokens tokens(static_cast<std::size_t>(prompt));
      return seconds_of([&] { nn::generate(gpt, {tokens}, {.max_new_tokens = count}); }) /
             static_cast<double>(count);
    };
    constexpr std::int64_t few = 8;
    cached_ = measure(1, std::min(few, block_size_));
    if (longest > block_size_) moved_ = measure(block_size_, 2);
  }
  // Seconds for `count` tokens after a short prompt. Beyond block_size, the cache no longer helps.
  double seconds(std::int64_t count) const {
    const std::int64_t cached = std::min(count, block_size_);
    return static_cast<double>(cached) * cached_ + static_cast<double>(count - cached) * moved_;
  }

 private:
  std::int64_t block_size_;
  double cached_ = 0, moved_ = 0;
};

}  // namespace

run::SideCosts Program::side_costs() const {
  const run::BatchPlan plan = plan_.batches();
  const double minutes = plan_.call.max_minutes.value_or(0);
  const TextCosts text(gpt_, std::max(kSampleTokens, kContinuationTokens));
  const double batch = seconds_of([&] {
                         Rng unused(0);
                         training_->evaluate(1, unused);
                       }) /
                       2;  // one of each part
  const std::int64_t all =
      data_.chat ? run::packed_batches(data_.chat->val, plan, false, Rng(0)).batches_per_epoch()
                 : data::SequentialBatches(data_.val, plan.batch_size, plan.block_size).size();
  run::SideCosts costs;
  const int ranks = folder_.processes() == nullptr ? 1 : folder_.processes()->size();
  costs.evaluation =
      batch / ranks *
      static_cast<double>(run::evaluation_batches(data_, plan, plan_.evaluation.eval_iters));
  if (const auto limit = run::evaluation_limit(plan_.epochs.final_eval, all)) {
    costs.end = batch * static_cast<double>(std::min(all, limit->batches.value_or(all)));
    // See automatic_batches: how many steps there will be is not known yet.
    if (plan_.epochs.final_eval == "auto")
      costs.end = std::min(costs.end, std::max(2.0, 6 * minutes));
  }
  if (plan_.call.sample) {
    costs.end += static_cast<double>(std::size(kSampleHeadings)) * text.seconds(kSampleTokens);
  }
  if (const auto interval = plan_.epochs.sample_interval) {
    costs.each_step = text.seconds(kSampleTokens) / static_cast<double>(*interval);
  }
  if (continues_prompt() && batches_.per_epoch() > 0) {
    costs.each_step += text.seconds(kContinuationTokens) *
                       static_cast<double>(plan_.optimizer.gradient_accumulation_steps) /
                       static_cast<double>(batches_.per_epoch());
  }
  return costs;
}

}  // namespace tapegrad::gpt
