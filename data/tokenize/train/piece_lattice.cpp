#include "tapegrad/data/tokenize/train/internal/piece_lattice.h"

#include <cmath>
#include <limits>

namespace tapegrad::data {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b)).
double log_sum(double a, double b) {
  if (a == kImpossible) return b;
  if (b == kImpossible) return a;
  return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
}

}  // namespace

void PieceLattice::set_word(std::string_view word) {
  size_ = word.size();
  edges_.clear();
  for (std::size_t begin = 0; begin < size_; ++begin) {
    if ((static_cast<unsigned char>(word[begin]) & 0xC0) == 0x80) continue;
    TextTree::Node node = TextTree::kRoot;
    for (std::size_t end = begin; end < size_;) {
      node = tree_.child(node, word[end++]);
      if (node == TextTree::kNoNode) break;
      if (tree_.number(node) >= 0) edges_.push_back({begin, end, tree_.number(node)});
    }
  }
}

double PieceLattice::add_expected(double weight, std::span<double> expected) {
  before_.assign(size_ + 1, kImpossible);
  behind_.assign(size_ + 1, kImpossible);
  before_[0] = behind_[size_] = 0;
  for (const Edge& edge : edges_) {
    before_[edge.end] = log_sum(before_[edge.end], before_[edge.begin] + score(edge));
  }
  for (std::size_t i = edges_.size(); i-- > 0;) {
    const Edge& edge = edges_[i];
    behind_[edge.begin] = log_sum(behind_[edge.begin], behind_[edge.end] + score(edge));
  }
  const double all = before_[size_];
  for (const Edge& edge : edges_) {
    expected[static_cast<std::size_t>(edge.piece)] +=
        weight * std::exp(before_[edge.begin] + score(edge) + behind_[edge.end] - all);
  }
  return all;
}

const std::vector<std::int32_t>& PieceLattice::best(std::int32_t but) {
  before_.assign(size_ + 1, kImpossible);
  std::vector<const Edge*> last(size_ + 1, nullptr);
  before_[0] = 0;
  for (const Edge& edge : edges_) {
    const double sum = before_[edge.begin] + score(edge);
    if (edge.piece == but || !(sum > before_[edge.end])) continue;
    before_[edge.end] = sum, last[edge.end] = &edge;
  }
  way_.clear();
  for (std::size_t at = size_; at > 0 && last[at] != nullptr; at = last[at]->begin) {
    way_.push_back(last[at]->piece);
  }
  return way_;
}

}  // namespace tapegrad::data
