#include "tapegrad/run/train/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/number_text.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/train/in_order.h"

namespace tapegrad::run {
namespace {

double batch_loss(const nn::Decoder& gpt, const data::Batch& batch) {
  const BatchTensors t = tensors_of(batch);
  return gpt.loss(t.inputs, t.targets).item();
}

// The mean over so many batches; over fewer, and not valid, if a signal comes to a single process.
template <class Loader>
double mean_loss(const nn::Decoder& gpt, Loader&& loader, std::int64_t batches,
                 Processes* processes) {
  const int ranks = processes == nullptr ? 1 : processes->size();
  const int rank = processes == nullptr ? 0 : processes->rank();
  std::vector<double> losses;
  for (std::int64_t i = 0; i < batches && (ranks > 1 || !interrupted()); ++i) {
    if (i % ranks == rank) {
      losses.push_back(batch_loss(gpt, loader.next()));
    } else {
      loader.skip();
    }
  }
  double mean = 0;
  for (const double loss : in_order(losses, static_cast<std::size_t>(batches), processes))
    mean += loss / static_cast<double>(batches);
  return mean;
}

// The mean over the first batches of a new pass, whose order is drawn from `rng`.
double mean_of_pass(const nn::Decoder& gpt, const data::Tokens& tokens, const BatchPlan& plan,
                    bool training, std::int64_t batches, Rng& rng, Processes* processes) {
  data::EpochLoader loader(tokens, pass_options(plan, training), rng);
  const double mean =
      mean_loss(gpt, loader, std::min(batches, loader.batches_per_epoch()), processes);
  rng = loader.rng();
  return mean;
}

}  // namespace

BatchTensors tensors_of(const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  return {Tensor::from(batch.inputs, shape), Tensor::from(batch.targets, shape)};
}

std::optional<Losses> estimate_losses(const nn::Decoder& gpt, const TextData& data,
                                      const BatchPlan& plan, std::int64_t batches,
                                      const RandomOptions& random, Rng& training_rng,
                                      Processes* processes) {
  // Unless there is one generator for everything: a stream other than that of the training batches,
  // whose seed is `seed` itself.
  Rng own(random.seed + 1, Rng::Kind::philox);
  Losses losses;
  if (plan.kind == BatchKind::epochs) {
    Rng& rng = random.one_generator() ? training_rng : own;
    losses.train = mean_of_pass(gpt, data.train, plan, true, batches, rng, processes);
    losses.val = mean_of_pass(gpt, data.val, plan, false, batches, rng, processes);
  } else {
    const auto mean = [&](const data::Tokens& tokens) {
      return mean_loss(gpt, data::Loader(tokens, plan.batch_size, plan.block_size, own), batches,
                       processes);
    };
    losses.train = mean(data.train);
    losses.val = mean(data.val);
  }
  if (interrupted()) return std::nullopt;
  return losses;
}

std::int64_t evaluation_batches(const TextData& data, const BatchPlan& plan, std::int64_t batches) {
  if (plan.kind != BatchKind::epochs) return 2 * batches;
  const auto of = [&](const data::Tokens& tokens, bool training) {
    const data::EpochLoader loader(tokens, pass_options(plan, training), Rng(0));
    return std::min(batches, loader.batches_per_epoch());
  };
  return of(data.train, true) + of(data.val, false);
}

std::optional<TextLoss> loss_of_tokens(const nn::Decoder& gpt, const data::Tokenizer& tokenizer,
                                       const data::Tokens& tokens, const WindowOptions& o) {
  const data::SequentialBatches batches(tokens, o.batch_size, o.block_size, o.stride, "evaluated");
  std::int64_t chosen = std::min(batches.size(), o.limit.batches.value_or(batches.size()));
  double nats = 0;
  std::int64_t bytes = 0, done = 0;
  TextLoss result;
  std::optional<Comparing> comparing;
  if (o.beside != nullptr) comparing.emplace(gpt, *o.beside);
  const auto begin = std::chrono::steady_clock::now();
  for (; done < chosen && !interrupted(); ++done) {
    const data::Batch batch = batches[done * batches.size() / chosen];
    std::int64_t predicted = 0;
    for (const data::Token target : batch.targets) {
      if (target == data::kIgnoredTarget) continue;
      ++predicted;
      bytes += static_cast<std::int64_t>(tokenizer.token_bytes(target).size());
    }
    nats += batch_loss(gpt, batch) * static_cast<double>(predicted);
    result.tokens += predicted;
    if (comparing) comparing->add(batch);
    const double spent =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    // The first batch tells how many the time is enough for.
    if (done == 0 && o.limit.seconds) {
      const double fitting = std::max(1.0, *o.limit.seconds / spent);
      if (fitting < static_cast<double>(chosen)) chosen = static_cast<std::int64_t>(fitting);
    }
    const double share = static_cast<double>(done + 1) / static_cast<double>(chosen);
    if (o.on_progress) o.on_progress(share, spent / share - spent);
  }
  if (result.tokens == 0) return std::nullopt;
  result.loss = nats / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.loss);
  result.bits_per_byte = nats / std::numbers::ln2 / static_cast<double>(bytes);
  result.share = static_cast<double>(done) / static_cast<double>(batches.size());
  if (comparing) result.beside = comparing->result();
  return result;
}

std::optional<EvaluationLimit> evaluation_limit(const std::string& text, double training_seconds) {
  if (text == "all") return EvaluationLimit{};
  if (text == "none") return std::nullopt;
  if (text == "auto") return EvaluationLimit{.seconds = std::max(2.0, training_seconds / 10)};
  const auto batches = whole_number_of<std::int64_t>(text);
  check(batches && *batches >= 1, "'{}' is not auto, all, none or a number of batches", text);
  return EvaluationLimit{.batches = *batches};
}

std::string progress_text(double share, double seconds_left) {
  return fmt::format("{:.0f} %, {} left", 100 * share, duration_text(seconds_left));
}

}  // namespace tapegrad::run
