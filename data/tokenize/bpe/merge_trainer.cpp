#include "tapegrad/data/tokenize/bpe/internal/merge_trainer.h"

#include <algorithm>
#include <utility>

namespace tapegrad::data {

void MergeTrainer::reserve(std::size_t tokens) {
  chain_.reserve(tokens);
  weight_.reserve(tokens);
}

void MergeTrainer::append(Token token, bool begins_word, std::int64_t weight) {
  chain_.append(token, begins_word);
  weight_.push_back(weight);
}

void MergeTrainer::count() {
  for (Position p = 0; p < chain_.size(); ++p) {
    if (chain_.next(p) != TokenChain::kNone) add(p);
  }
  for (const auto& [key, occurrences] : pairs_) {
    enqueue(chain_.pair(occurrences.positions[0]), occurrences.count);
  }
}

void MergeTrainer::add(Position p) {
  Occurrences& occurrences = pairs_[pair_key(chain_.pair(p))];
  occurrences.count += weight_[p];
  occurrences.positions.push_back(p);
}

void MergeTrainer::remove(Position p) { pairs_[pair_key(chain_.pair(p))].count -= weight_[p]; }

void MergeTrainer::enqueue(Merge pair, std::int64_t count) {
  if (count > 1 && merged_size(pair) <= most_bytes_) queue_.push({count, pair});
}

std::optional<Merge> MergeTrainer::take_best() {
  while (!queue_.empty()) {
    const Candidate candidate = queue_.top();
    queue_.pop();
    const std::int64_t count = pairs_[pair_key(candidate.pair)].count;
    if (candidate.count == count) return candidate.pair;
    enqueue(candidate.pair, count);
  }
  return std::nullopt;
}

Token MergeTrainer::merge(Merge pair) {
  const auto token = static_cast<Token>(tokens());
  token_size_.push_back(merged_size(pair));
  merge_into(pair, token);
  return token;
}

void MergeTrainer::merge_into(Merge pair, Token token) {
  std::vector<Position> positions = std::move(pairs_[pair_key(pair)].positions);
  if (!std::is_sorted(positions.begin(), positions.end())) {
    std::sort(positions.begin(), positions.end());
  }
  std::vector<Merge> made;
  const auto add_new = [&](Position p) {
    add(p);
    made.push_back(chain_.pair(p));
  };
  for (const Position p : positions) {
    if (!chain_.holds(p, pair)) continue;
    const Position left = chain_.prev(p);
    const Position right = chain_.next(chain_.next(p));
    remove(p);
    if (left != TokenChain::kNone) remove(left);
    if (right != TokenChain::kNone) remove(chain_.next(p));
    chain_.merge(p, token);
    if (left != TokenChain::kNone) add_new(left);
    if (right != TokenChain::kNone) add_new(p);
  }
  pairs_.erase(pair_key(pair));
  std::sort(made.begin(), made.end());
  made.erase(std::unique(made.begin(), made.end()), made.end());
  for (const Merge& fresh : made) enqueue(fresh, pairs_[pair_key(fresh)].count);
}

}  // namespace tapegrad::data
