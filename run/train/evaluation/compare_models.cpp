#include "tapegrad/run/train/evaluation/compare_models.h"

#include <cmath>

#include "tapegrad/data/loader.h"

namespace tapegrad::run {

Tensor hidden_of(const nn::Decoder& model, const nn::TokenRows& windows, CacheType cache) {
  if (cache == CacheType::f32) return model.hidden(windows);
  check(!windows.document_starts.defined(), "documents that are kept apart have no common cache");
  std::vector<nn::KVCache> caches;
  for (std::int64_t i = 0; i < windows.ids.dim(0); ++i) {
    caches.emplace_back(windows.ids.dim(1), cache);
  }
  return model.hidden(windows.ids, nn::pointers_to(caches));
}

// Some rows at a time: the logits of a whole batch may take gigabytes.
void Comparing::add(const nn::TokenRows& inputs, const Tensor& targets, const Tensor& hidden) {
  const Shape rows{inputs.ids.numel(), model_.config.n_embd};
  const Tensor ours = hidden.view(rows);
  const Tensor theirs = hidden_of(other_, inputs, CacheType::f32).view(rows);
  const Tensor all = targets.view({-1});
  for (std::int64_t first = 0; first < ours.dim(0); first += kLossChunk) {
    const std::int64_t end = std::min(first + kLossChunk, ours.dim(0));
    add_rows(model_.head(ours.rows(first, end)), other_.head(theirs.rows(first, end)),
             all.rows(first, end));
  }
}

// Logits (rows, V) of both models.
void Comparing::add_rows(const Tensor& ours, const Tensor& theirs, const Tensor& targets) {
  const Tensor log_q = log_softmax(ours, -1), log_p = log_softmax(theirs, -1);
  const Tensor divergence = sum(exp(log_p) * (log_p - log_q), {-1});
  const Tensor best_of_ours = argmax(ours, -1), best_of_theirs = argmax(theirs, -1);
  for (std::int64_t i = 0; i < targets.numel(); ++i) {
    const std::int32_t target = targets.data<std::int32_t>()[i];
    if (target == data::kIgnoredTarget) continue;
    ++tokens_;
    nats_ -= log_p.at({i, target});
    divergence_ += divergence.at(i);
    same_ += best_of_ours.at(i) == best_of_theirs.at(i) ? 1 : 0;
  }
}

Comparison Comparing::result() const {
  const auto n = static_cast<double>(tokens_);
  return {.loss = nats_ / n,
          .perplexity = std::exp(nats_ / n),
          .divergence = divergence_ / n,
          .same_choice = static_cast<double>(same_) / n};
}

}  // namespace tapegrad::run
