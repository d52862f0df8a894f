#include "tapegrad/apps/evaluate/likelihoods.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/data/jinja/internal/characters.h"
#include "tapegrad/nn/generation/log_probabilities.h"

namespace tapegrad::evaluation {
namespace {

using data::Token;

// Logits are made for so many tokens at once: there may be 150,000 for each.
constexpr std::int64_t kLogitRows = 128;
// Fewer tokens that an item shares with the one before it are read again, so that its numbers do
// not depend on its place in the file.
constexpr std::size_t kLeastExamples = 64;

std::size_t common_prefix(const std::vector<Token>& a, const std::vector<Token>& b) {
  const std::size_t most = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(most);
  return static_cast<std::size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

// The end that the model sees: its inputs are all tokens but the last.
void cut(ScoredTokens& row, std::int64_t block_size) {
  const auto scored = std::ssize(row.tokens) - static_cast<std::int64_t>(row.begin);
  check(scored <= block_size, "a choice has {} tokens, and the model sees {} at once", scored,
        block_size);
  const auto left_out = std::max<std::int64_t>(std::ssize(row.tokens) - 1 - block_size, 0);
  row.tokens.erase(row.tokens.begin(), row.tokens.begin() + left_out);
  row.begin -= static_cast<std::size_t>(left_out);
}

std::vector<ScoredTokens> rows_of(const run::TextModel& model, const Item& item) {
  std::vector<ScoredTokens> rows;
  for (std::size_t i = 0; i < item.choices.size(); ++i) {
    rows.push_back(scored_tokens(model.tokenizer, item.context(i), item.delimiter + item.choices[i],
                                 item.chat, item.letters_of(i)));
    cut(rows.back(), model.gpt.config.block_size);
  }
  return rows;
}

// How many tokens at the beginning of all rows are inputs alone, whose logits nobody needs.
std::size_t shared_length(const std::vector<ScoredTokens>& rows) {
  std::size_t shared = rows.front().begin - 1;
  for (const ScoredTokens& row : rows) {
    shared = std::min({shared, row.begin - 1, common_prefix(row.tokens, rows.front().tokens)});
  }
  return shared;
}

struct TokenScore {
  double logprob = 0;
  bool likeliest = false;
};

// Of each of these tokens under a row of states (N, C) each.
std::vector<TokenScore> token_scores(const nn::Decoder& gpt, const Tensor& states,
                                     const std::vector<Token>& tokens) {
  std::vector<TokenScore> scores(tokens.size());
  const std::int64_t count = std::ssize(tokens);
  const auto vocab = static_cast<std::size_t>(gpt.config.vocab_size);
  for (std::int64_t begin = 0; begin < count; begin += kLogitRows) {
    const std::int64_t end = std::min(begin + kLogitRows, count);
    const Tensor logits = gpt.head(slice(states, 1, begin, end)).to(DType::f32);
    const std::span<const float> values = logits.values<float>();
    parallel_for(end - begin, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        const auto row = values.subspan(static_cast<std::size_t>(i) * vocab, vocab);
        const auto at = static_cast<std::size_t>(begin + i);
        const auto best = std::max_element(row.begin(), row.end()) - row.begin();
        scores[at] = {nn::LogProbabilities(row)[tokens[at]], best == tokens[at]};
      }
    });
  }
  return scores;
}

}  // namespace

std::vector<Token> context_tokens(const data::Tokenizer& tokenizer, const std::string& context,
                                  bool chat, std::span<const std::size_t> letters) {
  const std::vector<Token> tokens = tokenizer.encode_with_letters(context, letters);
  if (tokens.empty()) return run::default_prompt(tokenizer);
  std::vector<Token> all;
  if (!chat) all.assign(tokenizer.begin().begin(), tokenizer.begin().end());
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

ScoredTokens scored_tokens(const data::Tokenizer& tokenizer, const std::string& context,
                           const std::string& continuation, bool chat,
                           std::span<const std::size_t> letters) {
  const std::string head(data::jinja::strip_right(context));
  const std::vector<Token> whole = tokenizer.encode_with_letters(context + continuation, letters);
  const std::size_t of_head = tokenizer.encode_with_letters(head, letters).size();
  check(of_head < whole.size(),
        "the context and a choice have {} tokens, no more than the context alone", whole.size());
  ScoredTokens scored{.tokens = context_tokens(tokenizer, head, chat, letters), .begin = 0};
  scored.begin = scored.tokens.size();
  scored.tokens.resize(scored.begin - of_head);  // what stands before them
  scored.tokens.insert(scored.tokens.end(), whole.begin(), whole.end());
  return scored;
}

// Goes on behind what was kept of the item before.
void LikelihoodScorer::read_shared(const std::vector<Token>& shared, std::int64_t most) {
  std::size_t known = common_prefix(kept_tokens_, shared);
  const bool same_angles = model_.gpt.config.same_angles(kept_.most(), most);
  if (known < kLeastExamples || !same_angles) known = 0;
  if (known == 0) kept_ = nn::KVCache(most, type_);
  kept_tokens_.clear();  // until all is read
  kept_.truncate(static_cast<std::int64_t>(known));
  known = static_cast<std::size_t>(kept_.length());  // fewer, if a layer is recurrent
  if (known < shared.size()) {
    const std::vector<Token> fresh(shared.begin() + static_cast<std::ptrdiff_t>(known),
                                   shared.end());
    model_.gpt.states(Tensor::from(fresh, {1, std::ssize(fresh)}), kept_);
    tokens_ += std::ssize(fresh);
  }
  kept_tokens_ = shared;
}

ItemOutput LikelihoodScorer::score(const Item& item) try {
  const std::vector<ScoredTokens> rows = rows_of(model_, item);
  const std::size_t shared = shared_length(rows);
  const std::vector<Token>& first = rows.front().tokens;
  std::size_t longest = 0;
  for (const ScoredTokens& row : rows) longest = std::max(longest, row.tokens.size() - 1 - shared);
  read_shared({first.begin(), first.begin() + static_cast<std::ptrdiff_t>(shared)},
              static_cast<std::int64_t>(shared + longest));

  // The rest of each choice is a row of one pass. What fills shorter rows stands behind them.
  std::vector<Token> inputs;
  std::vector<nn::KVCache> caches;
  for (const ScoredTokens& row : rows) {
    const auto begin = row.tokens.begin() + static_cast<std::ptrdiff_t>(shared);
    inputs.insert(inputs.end(), begin, row.tokens.end() - 1);
    inputs.resize(longest * (caches.size() + 1));
    caches.push_back(kept_.first(kept_.length(), static_cast<std::int64_t>(shared + longest)));
  }
  tokens_ += std::ssize(inputs);
  const std::vector<nn::KVCache*> pointers = nn::pointers_to(caches);
  const Tensor hidden = model_.gpt.hidden(
      Tensor::from(inputs, {std::ssize(rows), static_cast<std::int64_t>(longest)}), pointers);

  std::vector<Tensor> parts;
  std::vector<Token> scored;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ScoredTokens& row = rows[i];
    const auto at = static_cast<std::int64_t>(i);
    const auto from = static_cast<std::int64_t>(row.begin - 1 - shared);
    const auto to = static_cast<std::int64_t>(row.tokens.size() - 1 - shared);
    parts.push_back(slice(slice(hidden, 0, at, at + 1), 1, from, to));
    scored.insert(scored.end(), row.tokens.begin() + static_cast<std::ptrdiff_t>(row.begin),
                  row.tokens.end());
  }
  const std::vector<TokenScore> scores = token_scores(model_.gpt, concat(parts, 1), scored);
  ItemOutput output;
  auto next = scores.begin();
  for (const ScoredTokens& row : rows) {
    double& sum = output.logprobs.emplace_back(0);
    bool greedy = true;
    for (std::size_t t = row.begin; t < row.tokens.size(); ++t, ++next) {
      sum += next->logprob;
      greedy = greedy && next->likeliest;
    }
    if (output.logprobs.size() == 1) output.greedy = greedy;
    check(std::isfinite(sum),
          "the log-likelihood of a choice is {}: the model's weights are broken", sum);
  }
  return output;
} catch (const Error& error) {
  fail("{}: {}", item.where, error.what());
}

}  // namespace tapegrad::evaluation
