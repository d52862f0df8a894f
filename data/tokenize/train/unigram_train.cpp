#include "tapegrad/data/tokenize/train/internal/unigram_train.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/data/tokenize/train/internal/piece_lattice.h"
#include "tapegrad/data/tokenize/train/internal/unigram_seeds.h"

namespace tapegrad::data {
namespace {

// Sums over words are made in so many fixed parts, one after the other, so that they do not depend
// on the threads.
constexpr std::size_t kParts = 16;
constexpr int kRoundsOfEm = 2;
constexpr double kKeptShare = 0.75, kLeastExpected = 0.5;
constexpr std::size_t kFewestSeeds = 100'000, kMostSeeds = 1'000'000, kSeedsPerPiece = 10;

// The derivative of log Γ, by its recurrence and asymptotic series (Abramowitz, Stegun 6.3).
double digamma(double x) {
  double sum = 0;
  for (; x < 7; ++x) sum -= 1 / x;
  x -= 0.5;
  const double r = 1 / x, rr = r * r;
  return sum + std::log(x) +
         rr * (1.0 / 24 - rr * (7.0 / 960 - rr * (31.0 / 8064 - rr * (127.0 / 30720))));
}

class UnigramTrainer {
 public:
  UnigramTrainer(const CountedWords& words, std::span<const std::string> characters,
                 const std::unordered_set<std::string>& taken, std::size_t wanted)
      : words_(words), characters_(characters.begin(), characters.end()) {
    const std::size_t most = std::clamp(kSeedsPerPiece * wanted, kFewestSeeds, kMostSeeds);
    double all = 0;
    for (SeedPiece& seed : frequent_substrings(words, most)) {
      if (taken.count(seed.text) > 0) continue;
      const auto count = static_cast<double>(seed.count);
      pieces_.push_back({std::move(seed.text), count});
      all += count;
    }
    for (const std::string& character : characters) {
      pieces_.push_back({character, 1});
      all += 1;
    }
    for (ScoredPiece& piece : pieces_) piece.score = std::log(piece.score) - std::log(all);
    cut_into_parts();
  }

  std::size_t size() const { return pieces_.size(); }

  void maximize() {
    for (int round = 0; round < kRoundsOfEm; ++round) {
      const std::vector<double> expected = expected_counts();
      std::vector<ScoredPiece> kept;
      double all = 0;
      for (std::size_t i = 0; i < pieces_.size(); ++i) {
        const bool stays = is_character(pieces_[i]);
        if (expected[i] < kLeastExpected && !stays) continue;
        const double count = std::max(expected[i], kLeastExpected);
        kept.push_back({std::move(pieces_[i].text), count});
        all += count;
      }
      for (ScoredPiece& piece : kept) piece.score = digamma(piece.score) - digamma(all);
      pieces_ = std::move(kept);
    }
  }

  void prune(std::size_t least);

  // By falling score, the characters among them.
  std::vector<ScoredPiece> best(std::size_t wanted) {
    std::stable_sort(pieces_.begin(), pieces_.end(), [&](const auto& a, const auto& b) {
      const bool first = is_character(a), second = is_character(b);
      if (first != second) return first;
      return a.score != b.score ? a.score > b.score : a.text < b.text;
    });
    pieces_.resize(wanted);
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const auto& a, const auto& b) {
      return a.score != b.score ? a.score > b.score : a.text < b.text;
    });
    return std::move(pieces_);
  }

 private:
  bool is_character(const ScoredPiece& piece) const { return characters_.count(piece.text) > 0; }

  // Parts of about the same number of bytes.
  void cut_into_parts() {
    std::size_t all = 0, done = 0;
    for (const auto& [word, count] : words_) all += word.size();
    for (std::size_t i = 0; i < words_.size(); ++i) {
      while (begins_.size() < kParts && done * kParts >= begins_.size() * all) begins_.push_back(i);
      done += words_[i].first.size();
    }
    begins_.resize(kParts + 1, words_.size());
  }

  TextTree tree() const {
    TextTree tree;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      tree.add(pieces_[i].text, static_cast<std::int32_t>(i));
    }
    return tree;
  }

  // Calls body(part, lattice, word, count) for all words, the parts side by side.
  template <class Body>
  void each_word(const TextTree& tree, const Body& body) const {
    parallel_for(static_cast<std::int64_t>(kParts), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto part = static_cast<std::size_t>(begin); part < static_cast<std::size_t>(end);
           ++part) {
        PieceLattice lattice(tree, pieces_);
        for (std::size_t i = begins_[part]; i < begins_[part + 1]; ++i) {
          lattice.set_word(words_[i].first);
          body(part, lattice, words_[i].second);
        }
      }
    });
  }

  std::vector<double> expected_counts() const {
    std::vector<std::vector<double>> sums(kParts, std::vector<double>(pieces_.size()));
    each_word(tree(), [&](std::size_t part, PieceLattice& lattice, std::int64_t count) {
      lattice.add_expected(static_cast<double>(count), sums[part]);
    });
    for (std::size_t part = 1; part < kParts; ++part) {
      for (std::size_t i = 0; i < pieces_.size(); ++i) sums[0][i] += sums[part][i];
    }
    return std::move(sums[0]);
  }

  // Of each piece: how often it occurs in the likeliest ways, and in words of which weight.
  struct Uses {
    std::vector<std::int64_t> count, in_words;
  };
  Uses uses(const TextTree& tree) const;
  std::vector<double> losses(std::vector<bool>& is_needed) const;

  const CountedWords& words_;
  const std::unordered_set<std::string> characters_;
  std::vector<ScoredPiece> pieces_;
  std::vector<std::size_t> begins_;  // of the parts
};

UnigramTrainer::Uses UnigramTrainer::uses(const TextTree& tree) const {
  std::vector<Uses> sums(kParts);
  for (Uses& sum : sums) sum.count.resize(pieces_.size()), sum.in_words.resize(pieces_.size());
  each_word(tree, [&](std::size_t part, PieceLattice& lattice, std::int64_t count) {
    std::vector<std::int32_t> way = lattice.best();
    for (const std::int32_t piece : way) {
      sums[part].count[static_cast<std::size_t>(piece)] += count;
    }
    std::sort(way.begin(), way.end());
    way.erase(std::unique(way.begin(), way.end()), way.end());
    for (const std::int32_t piece : way) {
      sums[part].in_words[static_cast<std::size_t>(piece)] += count;
    }
  });
  for (std::size_t part = 1; part < kParts; ++part) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      sums[0].count[i] += sums[part].count[i];
      sums[0].in_words[i] += sums[part].in_words[i];
    }
  }
  return std::move(sums[0]);
}

// How much likelihood is lost without each piece, where the likeliest way to write the piece with
// others takes its place. Negative: none. `is_needed`: those that nothing can take the place of.
std::vector<double> UnigramTrainer::losses(std::vector<bool>& is_needed) const {
  const TextTree all = tree();
  const Uses used = uses(all);
  double pieces = 0, words = 0;
  for (const std::int64_t count : used.count) pieces += static_cast<double>(count);
  for (const auto& [word, count] : words_) words += static_cast<double>(count);
  std::vector<double> losses(pieces_.size(), -1);
  is_needed.assign(pieces_.size(), false);
  PieceLattice lattice(all, pieces_);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (is_character(pieces_[i])) {
      is_needed[i] = true;
      continue;
    }
    const auto count = static_cast<double>(used.count[i]);
    if (count == 0) continue;
    lattice.set_word(pieces_[i].text);
    const auto& other = lattice.best(static_cast<std::int32_t>(i));
    const double all_other = std::log(pieces + count * (static_cast<double>(other.size()) - 1));
    double with_others = 0;
    for (const std::int32_t piece : other) {
      const auto own = static_cast<double>(used.count[static_cast<std::size_t>(piece)]);
      with_others += std::log(own + count) - all_other;
    }
    const double share = static_cast<double>(used.in_words[i]) / words;
    losses[i] = std::max(0.0, share * (std::log(count) - std::log(pieces) - with_others));
  }
  return losses;
}

void UnigramTrainer::prune(std::size_t least) {
  std::vector<bool> is_needed;
  const std::vector<double> loss = losses(is_needed);
  const auto share = static_cast<std::size_t>(kKeptShare * static_cast<double>(pieces_.size()));
  std::vector<std::size_t> order(pieces_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (is_needed[a] != is_needed[b]) return static_cast<bool>(is_needed[a]);
    return loss[a] != loss[b] ? loss[a] > loss[b] : pieces_[a].text < pieces_[b].text;
  });
  order.resize(std::max(least, share));
  std::sort(order.begin(), order.end());
  std::vector<ScoredPiece> kept;
  for (const std::size_t i : order) kept.push_back(std::move(pieces_[i]));
  pieces_ = std::move(kept);
}

}  // namespace

std::vector<ScoredPiece> train_unigram(const CountedWords& words,
                                       std::span<const std::string> characters,
                                       const std::unordered_set<std::string>& taken,
                                       std::size_t wanted, std::size_t offset,
                                       const std::function<void(std::size_t)>& on_round) {
  UnigramTrainer trainer(words, characters, taken, wanted);
  const auto enough = static_cast<std::size_t>(1.1 * static_cast<double>(wanted));
  for (;;) {
    if (on_round) on_round(trainer.size());
    trainer.maximize();
    if (trainer.size() <= enough) break;
    trainer.prune(enough);
  }
  check(trainer.size() >= wanted,
        "[tokenizer] the corpus is too short for a Unigram vocabulary of {} tokens: it gives {}; "
        "choose {} or less",
        wanted + offset, trainer.size() + offset, trainer.size() + offset);
  return trainer.best(wanted);
}

}  // namespace tapegrad::data
