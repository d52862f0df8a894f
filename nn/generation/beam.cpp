#include "tapegrad/nn/generation/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tapegrad/nn/generation/internal/broken_logits.h"

namespace tapegrad::nn {
namespace {

// A target in the making, or finished.
struct Hypothesis {
  std::vector<std::int32_t> tokens;
  double log_probability = 0;
};

// The tokens that a hypothesis may go on with.
struct Candidate {
  double log_probability;
  std::size_t from;  // the hypothesis
  std::int32_t token;
};

// The search for one source's target.
struct Search {
  std::vector<Hypothesis> live{{}}, finished;
  bool done = false;
};

double score(double log_probability, std::size_t length, double penalty) {
  return log_probability / std::pow((5 + static_cast<double>(length)) / 6, penalty);
}

bool better(const Candidate& a, const Candidate& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return std::pair(a.from, a.token) < std::pair(b.from, b.token);
}

// Logits (rows, V) in f32, and the log-sum-exp of each row.
struct Scores {
  explicit Scores(const Tensor& of) : logits(of), log_sums(log_sum_exp(of)) {}
  Tensor logits, log_sums;
};

// The likeliest continuations, best first: twice as many as hypotheses, since as many may end. The
// first hypothesis has row `first` of the scores. There is one for each hypothesis and token, and
// so only the best so far are kept, in a heap whose front is the worst of them.
std::vector<Candidate> candidates(const Search& search, const Scores& scores, std::int64_t first,
                                  int beam) {
  const auto most = 2 * static_cast<std::size_t>(beam);
  const auto vocab = static_cast<std::int32_t>(scores.logits.dim(1));
  std::vector<Candidate> best;
  for (std::size_t h = 0; h < search.live.size(); ++h) {
    const std::int64_t row = first + static_cast<std::int64_t>(h);
    const float* logits = scores.logits.data<float>() + row * vocab;
    const float log_sum = scores.log_sums.data<float>()[row];
    if (!std::isfinite(log_sum)) throw BrokenLogits();
    for (std::int32_t token = 0; token < vocab; ++token) {
      const auto log_probability = static_cast<double>(logits[token] - log_sum);
      const Candidate c{search.live[h].log_probability + log_probability, h, token};
      if (best.size() == most) {
        if (!better(c, best.front())) continue;
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
      best.push_back(c);
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

// Moves on by one token. Returns, for each of the `beam` rows of the source, which begin at row
// `first`, the one that it goes on from; rows without a hypothesis repeat that of the first.
std::vector<std::int32_t> advance(Search& search, const Scores& scores, std::int32_t first,
                                  const TranslateOptions& options) {
  std::vector<Hypothesis> next;
  std::vector<std::int32_t> from;
  const auto beam = static_cast<std::size_t>(options.beam);
  for (const Candidate& c : candidates(search, scores, first, options.beam)) {
    if (next.size() == beam) break;
    Hypothesis h{search.live[c.from].tokens, c.log_probability};
    if (c.token == options.end) {
      search.finished.push_back(std::move(h));
      continue;
    }
    h.tokens.push_back(c.token);
    next.push_back(std::move(h));
    from.push_back(first + static_cast<std::int32_t>(c.from));
  }
  search.live = std::move(next);
  search.done = search.finished.size() >= beam;
  from.resize(beam, from.empty() ? first : from.front());
  return from;
}

// The best of the finished hypotheses, or the best unfinished one if there is none.
Translation best_of(const Search& search, double penalty) {
  const bool complete = !search.finished.empty();
  const auto& list = complete ? search.finished : search.live;
  const auto best = std::max_element(list.begin(), list.end(), [&](const auto& a, const auto& b) {
    return score(a.log_probability, a.tokens.size(), penalty) <
           score(b.log_probability, b.tokens.size(), penalty);
  });
  return {best->tokens, best->log_probability, complete};
}

// Takes these rows of x (B, …), in this order.
Tensor rows_of(const Tensor& x, const std::vector<std::int32_t>& rows) {
  if (std::ssize(rows) == x.dim(0)) return x;  // one copy of each
  std::vector<Tensor> parts;
  for (const std::int32_t row : rows) parts.push_back(x.rows(row, row + 1));
  return concat(parts, 0);
}

}  // namespace

void TranslateOptions::validate() const {
  check(beam >= 1 && beam <= 1024, "beam must be from 1 to 1024, not {}", beam);
  check(std::isfinite(length_penalty) && length_penalty >= 0,
        "length_penalty must not be negative, as {} is", length_penalty);
}

DecoderState::DecoderState(const Transformer& model, const Tensor& source, const Tensor& padding,
                           int copies)
    : model_(model), copies_(copies) {
  std::vector<std::int32_t> rows;
  for (std::int32_t b = 0; b < source.dim(0); ++b)
    rows.insert(rows.end(), static_cast<std::size_t>(copies), b);
  seen_.resize(rows.size());
  const Tensor memory = model.encode(source, padding);
  for (const DecoderLayer& layer : model.decoder.h) {
    const CrossCache kept = layer.cross_attn.cache_keys_values(memory);
    memory_.push_back({rows_of(kept.keys, rows), rows_of(kept.values, rows)});
  }
  if (!padding.defined()) return;
  padding_ = Tensor::empty({std::ssize(rows), padding.dim(1)}, DType::u8);
  const std::int64_t S = padding.dim(1);
  auto* to = padding_.mutable_data<std::uint8_t>();
  for (const std::int32_t row : rows) {
    to = std::copy_n(padding.data<std::uint8_t>() + row * S, S, to);
  }
}

Tensor DecoderState::step(const Tensor& tokens) {
  const std::vector<KVCache*> seen = pointers_to(seen_);
  Tensor x = model_.embed(tokens, nullptr, length());
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    x = model_.decoder.h[i].step(x, CachedLayer(seen, i), memory_[i], padding_);
  }
  return reshape(logits_of(model_.lm_head, model_.decoder.ln_f(x)),
                 {tokens.dim(0), model_.config.vocab_size});
}

void DecoderState::select(const std::vector<std::int32_t>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto source = static_cast<std::int32_t>(i) / copies_;
    check(rows[i] >= 0 && rows[i] / copies_ == source,
          "[translate] row {} of source {} cannot go on from row {}, of another source", i, source,
          rows[i]);
  }
  nn::select(seen_, rows);
}

std::vector<Translation> translate(const Transformer& model, const Tensor& source,
                                   const Tensor& padding, const TranslateOptions& options) {
  options.validate();
  const TapePause pause;
  const std::int64_t B = source.dim(0);
  const auto beam = static_cast<std::size_t>(options.beam);
  std::vector<Search> searches(static_cast<std::size_t>(B));
  DecoderState state(model, source, padding, options.beam);
  std::vector<std::int32_t> tokens(searches.size() * beam, options.start);
  const auto all_done = [&] {
    return std::all_of(searches.begin(), searches.end(), [](const Search& s) { return s.done; });
  };
  while (state.length() < model.config.block_size && !all_done()) {
    if (options.interrupted && options.interrupted()) break;
    const Tensor logits = state.step(Tensor::from(tokens, {B * options.beam, 1}));
    const Scores scores(logits.dtype() == DType::f32 ? logits : logits.to(DType::f32));
    std::vector<std::int32_t> rows;
    for (std::size_t b = 0; b < searches.size(); ++b) {
      const auto first = static_cast<std::int32_t>(b * beam);
      if (searches[b].done) {
        rows.insert(rows.end(), beam, first);
        continue;
      }
      const auto from = advance(searches[b], scores, first, options);
      rows.insert(rows.end(), from.begin(), from.end());
      for (std::size_t i = 0; i < searches[b].live.size(); ++i) {
        tokens[b * beam + i] = searches[b].live[i].tokens.back();
      }
    }
    if (beam > 1) state.select(rows);
  }
  std::vector<Translation> best;
  for (const Search& search : searches) best.push_back(best_of(search, options.length_penalty));
  return best;
}

}  // namespace tapegrad::nn
