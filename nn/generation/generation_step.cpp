#include <algorithm>
#include <utility>

#include "tapegrad/base/parallel.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/lora/row_adapters.h"

namespace tapegrad::nn {
namespace {

constexpr std::int64_t kScoredRows = 64;  // whose logits are there at once
// Texts side by side that propose tokens, and the rows of a pass that they share, their newest
// tokens included. A pass over few rows takes the time of reading the weights; beyond these, a row
// costs what it may save (docs/serving.md).
constexpr std::int64_t kProposingTexts = 3, kProposalRows = 8;
// The longest piece of a prompt that is read in one pass with others and with the newest tokens of
// texts, and the most keys that its tokens read in all. A longer one keeps the processor busy by
// itself; and attention, which reads keys once for many rows of a sequence, reads them here for
// each (docs/serving.md).
constexpr std::int64_t kSharedPiece = 32, kSharedKeys = 4096;

// The most tokens that one of so many texts proposes at a time.
std::int64_t most_proposed(std::int64_t texts) {
  if (texts <= 1) return INT64_MAX;
  return texts <= kProposingTexts ? kProposalRows / texts - 1 : 0;
}

Tensor row_of(std::span<const std::int32_t> tokens) {
  return Tensor::from(tokens, {1, std::ssize(tokens)});
}

// The part that the model sees of a text whose tokens [first, first + dropped) it does not.
Tokens seen_tokens(const Tokens& text, std::int64_t first, std::int64_t dropped) {
  if (dropped == 0) return text;
  Tokens seen(text.begin(), text.begin() + first);
  seen.insert(seen.end(), text.begin() + first + dropped, text.end());
  return seen;
}

}  // namespace

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

// How many tokens a sequence has still to read alone, as far as they can be cut.
std::int64_t Generation::unread(const Sequence& s) const {
  return s.seen() - (s.text.options().kv_cache ? s.cache.length() : 0);
}

// Those whose turn it is to read, and how much. `others`: whether there are texts that go on.
std::vector<Generation::Sequence*> Generation::next_to_read(bool others) {
  const std::int64_t chunk = others ? kPrefillChunkBeside : kPrefillChunk;
  std::int64_t left = limits_.prompt_chunk.value_or(batch_invariant_ ? chunk : INT64_MAX);
  std::vector<Sequence*> next;
  const auto take = [&](auto begin, auto end) {
    for (auto at = begin; at != end && left > 0; ++at) {
      Sequence& s = at->second;
      if (s.text.end() || s.piece == 0) continue;
      const bool whole = !s.text.options().kv_cache || (s.slides() && !in_pieces());
      s.piece = whole ? s.piece : std::min(s.piece, left);
      left -= std::min(left, s.piece);
      next.push_back(&s);
      read_last_ = at->first;
    }
  };
  const auto first = sequences_.upper_bound(read_last_);
  take(first, sequences_.end());
  take(sequences_.begin(), first);
  return next;
}

// Scores tokens of a prompt by the states (1, T, C) of its positions from `first` on.
void Generation::score_prompt(RunningText& text, const Tensor& states, std::int64_t first) const {
  const PositionRange range = text.to_score({first, first + states.dim(1)});
  for (std::int64_t begin = range.begin; begin < range.end; begin += kScoredRows) {
    const std::int64_t end = std::min(begin + kScoredRows, range.end);
    const BatchInvariant apart;
    const Tensor logits =
        model_.logits_of(slice(states, 1, begin - first, end - first)).to(DType::f32);
    text.score_prompt(logits.values<float>(), model_.config.vocab_size);
  }
}

// The logits (1, V) of the token behind a window, all of which is computed. LongRoPE's angles are
// those of the whole text, as where it has a cache.
Tensor Generation::read_whole(const Sequence& s, const Tokens& window) const {
  const std::int64_t most = longest(s.text.prompt_tokens(), s.text.options());
  if (model_.config.same_angles(most, std::ssize(window))) {
    return model_.last_logits(row_of(window));
  }
  KVCache cache(most);
  return model_.last_logits(row_of(window), cache);
}

// Reads what is to be read of one sequence, or a piece of it. Returns the logits (1, V) of the next
// token, undefined if a part of the prompt is still to be read.
Tensor Generation::read_alone(Sequence& s) const {
  const Tokens window = seen_tokens(s.text.tokens(), s.sinks(), s.dropped);
  const RowAdapters chosen({s.text.options().adapter});
  if (!s.text.options().kv_cache || (s.slides() && !in_pieces())) {
    return read_whole(s, window);
  }
  const std::int64_t first = s.cache.length();
  const auto unread = std::span(window).subspan(static_cast<std::size_t>(first));
  const auto piece = static_cast<std::size_t>(s.piece);
  const Tensor states = model_.states(row_of(unread.first(piece)), s.cache);
  score_prompt(s.text, states, first);
  const BatchInvariant apart;  // as where the newest token is read beside those of other texts
  return piece == unread.size() ? model_.logits_of(last_position(states)) : Tensor();
}

// Tokens to check beside the newest ones, no more than the model can see. It goes by the number of
// texts alone, so that nothing depends on a clock.
void Generation::propose(std::span<Sequence* const> sequences) const {
  const std::int64_t most = most_proposed(std::ssize(sequences));
  for (Sequence* s : sequences)
    s->text.propose(std::min(most, model_.config.block_size - s->seen()));
}

// True if what a sequence reads of its prompt may be rows of a pass over those of others.
bool Generation::may_join(const Sequence& s) const {
  const GenerateOptions& o = s.text.options();
  return batch_invariant_ && s.piece <= kSharedPiece && s.piece * s.cache.length() <= kSharedKeys &&
         o.kv_cache && !s.slides() && !o.prompt_logprobs;
}

// What a sequence reads next: a piece of its prompt, or its newest token and those proposed.
Tokens Generation::next_tokens(const Sequence& s) const {
  if (s.piece > 0) {
    const Tokens window = seen_tokens(s.text.tokens(), s.sinks(), s.dropped);
    const auto begin = window.begin() + s.cache.length();
    return {begin, begin + s.piece};
  }
  Tokens tokens = {s.text.tokens().back()};
  const Tokens& proposed = s.text.proposed();
  tokens.insert(tokens.end(), proposed.begin(), proposed.end());
  return tokens;
}

// One pass over the next_tokens() of these sequences. Returns the logits (rows, V) of those in
// `ready`, to which it adds whoever is to choose a token; undefined if nobody is.
Tensor Generation::read_together(std::span<Sequence* const> sequences,
                                 std::vector<Sequence*>& ready) const {
  Tokens tokens;
  std::vector<KVCache*> caches;
  std::vector<RowAdapters::Choice> adapters;
  std::vector<std::int32_t> choosing;  // rows behind which a token is chosen
  for (Sequence* s : sequences) {
    const Tokens next = next_tokens(*s);
    s->cache.expect_cuts(s->piece == 0);
    const auto behind = std::ssize(tokens) + std::ssize(next);
    auto row = s->piece == 0 ? std::ssize(tokens) : s->piece == unread(*s) ? behind - 1 : behind;
    if (row < behind) ready.push_back(s);
    for (; row < behind; ++row) choosing.push_back(static_cast<std::int32_t>(row));
    tokens.insert(tokens.end(), next.begin(), next.end());
    caches.insert(caches.end(), next.size(), &s->cache);
    adapters.insert(adapters.end(), next.size(), s->text.options().adapter);
  }
  const RowAdapters chosen(std::move(adapters));
  Tensor states = model_.states(Tensor::from(tokens, {std::ssize(tokens), 1}), caches);
  if (choosing.empty()) return {};
  if (choosing.size() < tokens.size()) {
    states = gather_rows(states, Tensor::from(choosing, {std::ssize(choosing)}));
  }
  const BatchInvariant apart;
  return model_.logits_of(last_position(states)).to(DType::f32);
}

// The same, timed. A pass that prefills, too, counts for both by the rows of each.
void Generation::read_together(std::vector<Sequence*>& sequences, std::vector<Tensor>& logits,
                               std::vector<Sequence*>& ready) {
  if (sequences.empty()) return;
  // Those of one adapter side by side share its products.
  std::stable_sort(sequences.begin(), sequences.end(), [](const Sequence* a, const Sequence* b) {
    return a->text.options().adapter < b->text.options().adapter;
  });
  std::int64_t rows = 0, read = 0, of_prompts = 0;
  for (const Sequence* s : sequences) {
    rows += s->piece > 0 ? s->piece : 1 + std::ssize(s->text.proposed());
    read += s->piece;
    if (s->text.new_tokens() == 0) of_prompts += s->piece;
  }
  Tensor next;
  const double seconds = seconds_of([&] { next = read_together(sequences, ready); });
  if (next.defined()) logits.push_back(next);
  const double prefill = seconds * static_cast<double>(of_prompts) / static_cast<double>(rows);
  cost_.prefill_seconds += prefill;
  cost_.seconds += seconds - prefill;
  if (read > 0) return;
  cost_.pass_seconds += seconds;
  ++cost_.passes;
}

// read_alone() of each of these sequences. Enough of them keep all threads busy with one each,
// which is faster than sharing out the loops of small products.
std::vector<Tensor> Generation::prefill_apart(std::span<Sequence* const> sequences) const {
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
void Generation::prefill_apart(std::span<Sequence* const> sequences, double& seconds,
                               std::vector<Tensor>& logits, std::vector<Sequence*>& ready) const {
  std::vector<Tensor> next;
  seconds += seconds_of([&] { next = prefill_apart(sequences); });
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
    if (s.text.end()) continue;
    make_room(s);
    s.piece = 0;
    if (!s.begun) {
      share(id, s);
      if (waits(id, s)) continue;
      s.begun = true;
    }
    const bool cached = s.text.options().kv_cache && !s.slides();
    if (cached && unread(s) == 1) {
      together.push_back(&s);
    } else {
      s.piece = unread(s);
    }
  }
  propose(together);
  const std::vector<Sequence*> next = next_to_read(!together.empty());
  const bool alone = together.empty() && next.size() == 1;
  for (Sequence* s : next) {
    const bool begins = s->text.new_tokens() == 0;
    (may_join(*s) && !alone ? together : begins ? prompts : apart).push_back(s);
    if (begins) cost_.prompt_tokens += s->piece;
  }
  std::vector<Tensor> logits;
  prefill_apart(prompts, cost_.prefill_seconds, logits, ready);
  prefill_apart(apart, cost_.seconds, logits, ready);
  read_together(together, logits, ready);
  return logits;
}

void Generation::choose(Ready& ready) const {
  Sequence& s = *ready.sequence;
  const bool proposed = !s.text.proposed().empty();
  ready.accepted = s.text.choose(ready.logits, model_.config.vocab_size);
  if (proposed) s.cache.truncate(s.seen() - 1);
}

bool Generation::step() {
  const bool runs = std::any_of(sequences_.begin(), sequences_.end(),
                                [](const auto& entry) { return !entry.second.text.end(); });
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
        const std::size_t proposed = s->text.proposed().size();
        ready.push_back({s, values.subspan(i, (1 + proposed) * vocab)});
        cost_.proposed_tokens += static_cast<std::int64_t>(proposed);
      }
    }
    const auto beyond_first = [&] {
      std::int64_t tokens = 0;
      for (const Ready& r : ready)
        tokens += std::max<std::int64_t>(r.sequence->text.new_tokens(), 1);
      return tokens;
    };
    const std::int64_t before = beyond_first();
    // Each draws from a generator of its own.
    parallel_for(std::ssize(ready), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) choose(ready[static_cast<std::size_t>(i)]);
    });
    cost_.tokens += beyond_first() - before;
    for (const Ready& r : ready) cost_.accepted_tokens += r.accepted;
  } catch (...) {  // some layers may have read on, and others not
    for (auto& [id, s] : sequences_) {
      s.cache.clear();
      s.text.forget_proposed();
    }
    throw;
  }
  return true;
}

}  // namespace tapegrad::nn
