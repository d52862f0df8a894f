#include "tapegrad/nn/generation/generation.h"

#include <algorithm>

#include "tapegrad/base/parallel.h"

namespace tapegrad::nn {
namespace {

Tensor row_of(std::span<const std::int32_t> tokens) {
  return Tensor::from(tokens, {1, std::ssize(tokens)});
}

void check_prompt(const Tokens& prompt, std::int64_t vocab_size) {
  check(!prompt.empty(), "a prompt needs at least one token");
  for (const std::int32_t token : prompt) {
    check(token >= 0 && token < vocab_size, "the prompt's token {} is not one of the model's {}",
          token, vocab_size);
  }
}

}  // namespace

Generation::Generation(const Decoder& model, const GenerationLimits& limits)
    : model_(model), limits_(limits) {
  check(limits.max_sequences >= 1, "max_sequences must be at least 1, not {}",
        limits.max_sequences);
  check(limits.max_positions.value_or(0) >= 0, "max_positions must not be negative, as {} is",
        limits.max_positions.value_or(0));
  check(limits.prompt_chunk.value_or(1) >= 1, "prompt_chunk must be at least 1, not {}",
        limits.prompt_chunk.value_or(1));
}

std::int64_t Generation::position_limit() const {
  return limits_.max_positions.value_or(limits_.max_sequences * model_.config.block_size);
}

std::int64_t Generation::positions_for(std::int64_t prompt_tokens,
                                       const GenerateOptions& options) const {
  const std::int64_t most = model_.config.block_size;
  if (!options.kv_cache || (prompt_tokens > most && !limits_.prompt_chunk)) return 0;
  // Nothing follows the last token, so that nobody needs its keys.
  const std::int64_t further = std::clamp<std::int64_t>(options.max_new_tokens - 1, 0, most);
  return std::min(most, prompt_tokens + further);
}

bool Generation::has_room(std::int64_t prompt_tokens, const GenerateOptions& options) const {
  return sequences() < limits_.max_sequences &&
         positions_for(prompt_tokens, options) <= position_limit() - positions_;
}

Generation::Id Generation::add(Tokens prompt, const GenerateOptions& options, Rng rng) {
  options.validate();
  check_prompt(prompt, model_.config.vocab_size);
  check(sequences() < limits_.max_sequences,
        "[generation] {} sequences are running, which is max_sequences", sequences());
  const std::int64_t tokens = std::ssize(prompt), needed = positions_for(tokens, options);
  check(needed <= position_limit() - positions_,
        "[generation] {} tokens and {} new ones need {} positions in the cache, of which {} of {} "
        "are free",
        tokens, options.max_new_tokens, needed, position_limit() - positions_, position_limit());
  Sequence s{std::move(prompt), options, std::move(rng), KVCache(needed), tokens, needed};
  if (options.max_new_tokens == 0) s.end = TextEnd::length;
  sequences_.emplace(next_id_, std::move(s));
  positions_ += needed;
  return next_id_++;
}

const Generation::Sequence& Generation::find(Id id) const {
  const auto found = sequences_.find(id);
  check(found != sequences_.end(), "[generation] there is no sequence {}", id);
  return found->second;
}

void Generation::remove(Id id) {
  positions_ -= find(id).positions;
  sequences_.erase(id);
}

Generation::Taken Generation::take(Id id) {
  find(id);
  Sequence& s = sequences_.at(id);
  return {std::exchange(s.fresh, {}), s.end};
}

// Reads what is to be read of one sequence, or a piece of it. Returns the logits (1, V) of the next
// token, undefined if a part of the prompt is still to be read.
Tensor Generation::read_alone(Sequence& s) const {
  const std::span<const std::int32_t> text = s.text;
  const auto most = static_cast<std::size_t>(model_.config.block_size);
  const auto window = text.last(std::min(most, text.size()));
  const bool moves = text.size() > most;  // with each token
  if (moves && s.window_end != text.size()) {
    s.cache.clear();
    s.window_end = text.size();
  }
  if (!s.options.kv_cache || (moves && !limits_.prompt_chunk)) {
    return model_.last_logits(row_of(window));
  }
  const auto unread = window.subspan(static_cast<std::size_t>(s.cache.length()));
  const auto piece = std::min(
      unread.size(), static_cast<std::size_t>(limits_.prompt_chunk.value_or(std::ssize(unread))));
  const Tensor logits = model_.last_logits(row_of(unread.first(piece)), s.cache);
  return piece == unread.size() ? logits : Tensor();
}

// The newest token of each of these sequences: logits (B, V).
Tensor Generation::read_newest(std::span<Sequence* const> sequences) const {
  Tokens tokens;
  std::vector<KVCache*> caches;
  for (Sequence* s : sequences) {
    tokens.push_back(s->text.back());
    caches.push_back(&s->cache);
  }
  return model_.last_logits(Tensor::from(tokens, {std::ssize(tokens), 1}), caches);
}

// read_alone() of each of these sequences. Enough of them keep all threads busy with one each,
// which is faster than sharing out the loops of small products.
std::vector<Tensor> Generation::read_apart(std::span<Sequence* const> sequences) const {
  std::vector<Tensor> logits(sequences.size());
  const auto n = std::ssize(sequences);
  const auto read_some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      logits[at] = read_alone(*sequences[at]);
    }
  };
  n >= num_threads() ? parallel_for(n, 1, read_some) : read_some(0, n);
  return logits;
}

// Reads on in all sequences that run. Returns logits (…, V) whose rows, one behind the other, are
// of the next tokens of those in `ready`.
std::vector<Tensor> Generation::read(std::vector<Sequence*>& ready) {
  std::vector<Sequence*> together, apart;
  for (auto& [id, s] : sequences_) {
    if (s.end) continue;
    const bool fits = std::ssize(s.text) <= model_.config.block_size;
    const bool newest = s.options.kv_cache && fits && std::ssize(s.text) == s.cache.length() + 1;
    (newest ? together : apart).push_back(&s);
  }
  std::vector<Tensor> logits;
  const std::vector<Tensor> next = read_apart(apart);
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (!next[i].defined()) continue;
    logits.push_back(next[i].to(DType::f32));
    ready.push_back(apart[i]);
  }
  if (together.empty()) return logits;
  logits.push_back(read_newest(together).to(DType::f32));
  ready.insert(ready.end(), together.begin(), together.end());
  return logits;
}

void Generation::choose(const Ready& ready) {
  Sequence& s = *ready.sequence;
  const auto& logits = ready.logits;
  const std::int32_t token = pick_token({logits.begin(), logits.end()}, s.options, s.rng, s.text);
  const Tokens& stops = s.options.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    s.end = TextEnd::stop_token;
    return;
  }
  s.fresh.push_back({token, s.options.logprobs ? log_probability(logits, token) : 0});
  s.text.push_back(token);
  if (std::ssize(s.text) - s.prompt >= s.options.max_new_tokens) s.end = TextEnd::length;
}

bool Generation::step() {
  const bool runs = std::any_of(sequences_.begin(), sequences_.end(),
                                [](const auto& entry) { return !entry.second.end; });
  if (!runs) return false;
  const TapePause pause;
  std::vector<Sequence*> sequences;
  std::vector<Ready> ready;
  try {
    const std::vector<Tensor> logits = read(sequences);
    for (const Tensor& part : logits) {
      const auto vocab = static_cast<std::size_t>(part.dim(1));
      const auto values = part.values<float>();
      for (std::size_t i = 0; i < values.size(); i += vocab) {
        ready.push_back({sequences[ready.size()], values.subspan(i, vocab)});
      }
    }
    // Each draws from a generator of its own.
    parallel_for(std::ssize(ready), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) choose(ready[static_cast<std::size_t>(i)]);
    });
  } catch (...) {  // some layers may have read on, and others not
    for (auto& [id, s] : sequences_) s.cache.clear();
    throw;
  }
  return true;
}

}  // namespace tapegrad::nn
