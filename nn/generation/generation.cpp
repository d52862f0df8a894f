#include "tapegrad/nn/generation/generation.h"

#include <algorithm>

#include "tapegrad/base/parallel.h"
#include "tapegrad/base/seconds_of.h"

namespace tapegrad::nn {
namespace {

Tensor row_of(std::span<const std::int32_t> tokens) {
  return Tensor::from(tokens, {1, std::ssize(tokens)});
}

// What the model sees of a text whose tokens [first, first + dropped) it does not.
Tokens seen_tokens(const Tokens& text, std::int64_t first, std::int64_t dropped) {
  if (dropped == 0) return text;
  Tokens seen(text.begin(), text.begin() + first);
  seen.insert(seen.end(), text.begin() + first + dropped, text.end());
  return seen;
}

void check_prompt(const Tokens& prompt, std::int64_t vocab_size) {
  check(!prompt.empty(), "a prompt needs at least one token");
  for (const std::int32_t token : prompt) {
    check(token >= 0 && token < vocab_size, "the prompt's token {} is not one of the model's {}",
          token, vocab_size);
  }
}

}  // namespace

std::vector<std::span<const std::byte>> read_by_pass(const Decoder& model, const Params& params) {
  std::vector<std::span<const std::byte>> memory;
  for (const auto& [name, matrix] : params.packed_matrices()) {
    if (model.config.tied || matrix != model.wte.packed) memory.push_back(matrix->memory());
  }
  return memory;
}

std::uint64_t bytes_of(const std::vector<std::span<const std::byte>>& memory) {
  std::uint64_t bytes = 0;
  for (const auto& part : memory) bytes += part.size();
  return bytes;
}

std::int64_t cache_bytes_per_position(const DecoderConfig& c) {
  return 2 * c.n_layer * c.kv_heads() * c.channels_per_head() *
         static_cast<std::int64_t>(sizeof(float));
}

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
  const bool slides = prompt_tokens > most && options.context == Context::exact;
  if (!options.kv_cache || (slides && !limits_.prompt_chunk)) return 0;
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
  check(options.context == Context::exact || model_.config.block_size >= kSinks + 2,
        "context shift keeps the first {} tokens and half of the others, for which a block_size of "
        "{} is too small",
        kSinks, model_.config.block_size);
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

// Drops tokens of a text that is longer than the model sees.
void Generation::make_room(Sequence& s) const {
  const std::int64_t most = model_.config.block_size, beyond = s.seen() - most;
  if (beyond <= 0) return;
  const std::int64_t first = s.sinks(), half = s.shifts() ? (most - first + 1) / 2 : 1;
  const std::int64_t count = (beyond + half - 1) / half * half;
  s.dropped += count;
  // Nothing but the newest token is still to be read, unless this is a long prompt.
  if (s.shifts() && s.cache.length() == most && model_.can_move()) {
    model_.drop(s.cache, first, first + count);
  } else {
    s.cache.clear();
  }
}

// How many tokens read_alone() reads.
std::int64_t Generation::piece_of(const Sequence& s) const {
  if (!s.options.kv_cache) return s.seen();
  const std::int64_t unread = s.seen() - s.cache.length();
  return std::min(unread, limits_.prompt_chunk.value_or(unread));
}

// Reads what is to be read of one sequence, or a piece of it. Returns the logits (1, V) of the next
// token, undefined if a part of the prompt is still to be read.
Tensor Generation::read_alone(Sequence& s) const {
  const Tokens window = seen_tokens(s.text, s.sinks(), s.dropped);
  if (!s.options.kv_cache || (s.slides() && !limits_.prompt_chunk)) {
    return model_.last_logits(row_of(window));
  }
  const auto unread = std::span(window).subspan(static_cast<std::size_t>(s.cache.length()));
  const auto piece = static_cast<std::size_t>(piece_of(s));
  const Tensor logits = model_.last_logits(row_of(unread.first(piece)), s.cache);
  return piece == unread.size() ? logits : Tensor();
}

// Tokens to check beside the newest one: no more than there will be, and than the model can see.
void Generation::propose(Sequence& s) const {
  if (s.options.lookup == 0) return;
  const std::int64_t left = s.options.max_new_tokens - (std::ssize(s.text) - s.prompt);
  const std::int64_t room = std::min(left - 1, model_.config.block_size - s.seen());
  s.proposed = s.lookup.propose(s.text, std::min(room, s.options.lookup));
}

// The newest token of each of these sequences, and those that are proposed: logits (rows, V).
Tensor Generation::read_newest(std::span<Sequence* const> sequences) const {
  Tokens tokens;
  std::vector<KVCache*> caches;
  for (Sequence* s : sequences) {
    propose(*s);
    tokens.push_back(s->text.back());
    tokens.insert(tokens.end(), s->proposed.begin(), s->proposed.end());
    caches.insert(caches.end(), 1 + s->proposed.size(), &s->cache);
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

// The same, timed. Adds the logits of those that are to choose a token.
void Generation::read_apart(std::span<Sequence* const> sequences, double& seconds,
                            std::vector<Tensor>& logits, std::vector<Sequence*>& ready) const {
  std::vector<Tensor> next;
  seconds += seconds_of([&] { next = read_apart(sequences); });
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (!next[i].defined()) continue;
    logits.push_back(next[i].to(DType::f32));
    ready.push_back(sequences[i]);
  }
}

// Reads on in all sequences that run. Returns logits (…, V) whose rows, one behind the other, are
// of those in `ready`: one for each, and one for each token that is proposed.
std::vector<Tensor> Generation::read(std::vector<Sequence*>& ready) {
  std::vector<Sequence*> together, prompts, apart;
  for (auto& [id, s] : sequences_) {
    if (s.end) continue;
    make_room(s);
    const bool newest = s.options.kv_cache && !s.slides() && s.seen() == s.cache.length() + 1;
    const bool begins = std::ssize(s.text) == s.prompt;
    (newest ? together : begins ? prompts : apart).push_back(&s);
    if (begins && !newest) cost_.prompt_tokens += piece_of(s);
  }
  std::vector<Tensor> logits;
  read_apart(prompts, cost_.prompt_seconds, logits, ready);
  read_apart(apart, cost_.seconds, logits, ready);
  if (together.empty()) return logits;
  const double seconds =
      seconds_of([&] { logits.push_back(read_newest(together).to(DType::f32)); });
  cost_.seconds += seconds;
  cost_.pass_seconds += seconds;
  ++cost_.passes;
  ready.insert(ready.end(), together.begin(), together.end());
  return logits;
}

// Adds the next token, or ends the text.
void Generation::choose(Sequence& s, std::span<const float> logits) {
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

// The logits behind a proposed token count if it was chosen, and those before it.
void Generation::choose(const Ready& ready) const {
  Sequence& s = *ready.sequence;
  const Tokens proposed = std::exchange(s.proposed, {});
  const auto vocab = static_cast<std::size_t>(model_.config.vocab_size);
  std::size_t right = 0;
  for (;; ++right) {
    choose(s, ready.logits.subspan(right * vocab, vocab));
    if (s.end || right == proposed.size() || s.text.back() != proposed[right]) break;
  }
  if (proposed.empty()) return;
  s.lookup.learn(std::ssize(proposed), static_cast<std::int64_t>(right));
  s.cache.truncate(s.seen() - 1);
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
      for (std::size_t i = 0; i < values.size(); i += ready.back().logits.size()) {
        Sequence* const s = sequences[ready.size()];
        ready.push_back({s, values.subspan(i, (1 + s->proposed.size()) * vocab)});
      }
    }
    const auto beyond_first = [&] {
      std::int64_t tokens = 0;
      for (const Ready& r : ready)
        tokens += std::max(std::ssize(r.sequence->text), r.sequence->prompt + 1);
      return tokens;
    };
    const std::int64_t before = beyond_first();
    // Each draws from a generator of its own.
    parallel_for(std::ssize(ready), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) choose(ready[static_cast<std::size_t>(i)]);
    });
    cost_.tokens += beyond_first() - before;
  } catch (...) {  // some layers may have read on, and others not
    for (auto& [id, s] : sequences_) {
      s.cache.clear();
      s.proposed.clear();
    }
    throw;
  }
  return true;
}

}  // namespace tapegrad::nn
