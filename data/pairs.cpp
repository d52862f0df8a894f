#include "tapegrad/data/pairs.h"

#include <algorithm>
#include <unordered_set>

#include "tapegrad/base/error.h"

namespace tapegrad::data {

namespace {

Pair parse_line(std::string_view line, std::string_view name, std::int64_t number) {
  const std::size_t tab = line.find('\t');
  check(tab != std::string_view::npos,
        "[pairs] {}: line {} has no tab; a line is a source, a tab and a target", name, number);
  const std::size_t second = line.find('\t', tab + 1);
  check(second == std::string_view::npos,
        "[pairs] {}: line {} has more than one tab; a line is a source, a tab and a target", name,
        number);
  const Pair pair{line.substr(0, tab), line.substr(tab + 1), number};
  check(!pair.source.empty() && !pair.target.empty(), "[pairs] {}: line {} has an empty {}", name,
        number, pair.source.empty() ? "source" : "target");
  return pair;
}

std::vector<Token> encode_side(std::string_view side, std::string_view text, const Pair& pair,
                               const Tokenizer& tokenizer, std::string_view name) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    fail("[pairs] {}: line {}, {}: {}", name, pair.line, side, error.what());
  }
}

void check_length(std::string_view side, std::size_t length, std::int64_t most, const Pair& pair,
                  std::string_view name) {
  check(static_cast<std::int64_t>(length) <= most,
        "[pairs] {}: the {} of line {} has {} tokens, and the model's longest has {}", name, side,
        pair.line, length, most);
}

}  // namespace

std::vector<Pair> parse_pairs(std::string_view text, std::string_view name) {
  std::vector<Pair> pairs;
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) pairs.push_back(parse_line(line, name, number));
  }
  check(!pairs.empty(), "[pairs] {} has no pairs; a line is a source, a tab and a target", name);
  return pairs;
}

PairSplit hold_out(const std::vector<Pair>& pairs, std::int64_t count) {
  const auto all = static_cast<std::int64_t>(pairs.size());
  check(count >= 1 && count < all,
        "[pairs] {} of {} pairs cannot be held out: at least one must be, and one must be left",
        count, all);
  const std::vector<std::int64_t> order = Rng(0).randperm(all);
  std::vector<bool> held(pairs.size());
  std::unordered_set<std::string_view> sources;
  for (const std::int64_t i : std::span(order).first(static_cast<std::size_t>(count))) {
    held[static_cast<std::size_t>(i)] = true;
    sources.insert(pairs[static_cast<std::size_t>(i)].source);
  }
  PairSplit split;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (held[i]) {
      split.held_out.push_back(pairs[i]);
    } else if (!sources.contains(pairs[i].source)) {
      split.train.push_back(pairs[i]);
    }
  }
  check(!split.train.empty(),
        "[pairs] all {} pairs have a source that is held out: none is left to train on", all);
  return split;
}

std::vector<TokenPair> encode_pairs(std::span<const Pair> pairs, const Tokenizer& tokenizer,
                                    std::int64_t block_size, std::string_view name) {
  std::vector<TokenPair> encoded;
  encoded.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    TokenPair tokens{encode_side("source", pair.source, pair, tokenizer, name),
                     encode_side("target", pair.target, pair, tokenizer, name)};
    check_length("source", tokens.source.size(), block_size, pair, name);
    check_length("target", tokens.target.size(), block_size - 1, pair, name);
    encoded.push_back(std::move(tokens));
  }
  return encoded;
}

PairBatch make_batch(std::span<const TokenPair* const> rows, const SpecialTokens& special) {
  PairBatch batch;
  batch.B = static_cast<std::int64_t>(rows.size());
  for (const TokenPair* row : rows) {
    batch.S = std::max(batch.S, static_cast<std::int64_t>(row->source.size()));
    batch.T = std::max(batch.T, static_cast<std::int64_t>(row->target.size()) + 1);
  }
  batch.sources.assign(static_cast<std::size_t>(batch.B * batch.S), special.padding);
  batch.inputs.assign(static_cast<std::size_t>(batch.B * batch.T), special.padding);
  batch.labels.assign(static_cast<std::size_t>(batch.B * batch.T), kIgnoredLabel);
  for (std::int64_t b = 0; b < batch.B; ++b) {
    const auto& [source, target] = *rows[static_cast<std::size_t>(b)];
    std::copy(source.begin(), source.end(), batch.sources.begin() + b * batch.S);
    const auto input = batch.inputs.begin() + b * batch.T;
    const auto label = batch.labels.begin() + b * batch.T;
    *input = special.start;
    std::copy(target.begin(), target.end(), input + 1);
    *std::copy(target.begin(), target.end(), label) = special.end;
  }
  return batch;
}

PairBatch make_batch(std::span<const TokenPair> pairs, const SpecialTokens& special) {
  std::vector<const TokenPair*> rows;
  for (const TokenPair& pair : pairs) rows.push_back(&pair);
  return make_batch(rows, special);
}

PairLoader::PairLoader(std::span<const TokenPair> pairs, std::int64_t batch_size,
                       SpecialTokens special, Rng rng)
    : batch_size_(batch_size), special_(special), rng_(std::move(rng)) {
  check(!pairs.empty() && batch_size >= 1,
        "[pairs] batches of {} of {} pairs: both numbers must be at least 1", batch_size,
        pairs.size());
  for (const TokenPair& pair : pairs) by_length_.push_back(&pair);
  std::stable_sort(by_length_.begin(), by_length_.end(), [](const auto* a, const auto* b) {
    return std::pair(a->source.size(), a->target.size()) <
           std::pair(b->source.size(), b->target.size());
  });
}

PairBatch PairLoader::next() {
  auto at = static_cast<std::size_t>(rng_.randint(static_cast<std::int64_t>(by_length_.size())));
  std::vector<const TokenPair*> rows;
  for (std::int64_t i = 0; i < batch_size_; ++i, at = (at + 1) % by_length_.size()) {
    rows.push_back(by_length_[at]);
  }
  return make_batch(rows, special_);
}

}  // namespace tapegrad::data
