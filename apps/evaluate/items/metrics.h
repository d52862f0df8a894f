#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::evaluation {

// The metric whose values are log-likelihoods of the items.
inline constexpr std::string_view kPerplexity = "perplexity";

// A score over the items of a task.
struct Metric {
  std::string name;
  std::vector<double> values = {};  // one for each item

  bool is_perplexity() const { return name == kPerplexity; }
  double value() const;  // the mean of the values; of a perplexity, e^−mean
  // Of the mean: sqrt(Σ(x − mean)² / (n − 1) / n), which is sqrt(p (1 − p) / (n − 1)) for values 0
  // and 1; of a perplexity, e^−mean times that, by the delta method. None of a single item.
  std::optional<double> error() const;
};

// How much a model is better than another one on the same items (in nats, for perplexities): the
// mean of the differences d of each item, and its standard error sqrt(Σ(d − mean)² / (n − 1) / n).
// Models mostly have the same items right, so that this error is smaller than those of both means
// suggest (Miller, "Adding Error Bars to Evals", 2024, on paired differences).
struct PairedDifference {
  double mean = 0;
  std::optional<double> error = {};
  // Items with a higher value here, and there.
  std::int64_t better = 0, worse = 0;

  // The 95 % interval is mean ± this; it needs some dozens of items that differ.
  std::optional<double> half_interval() const;
  // McNemar's test in its exact form: how probable it is that, of better + worse throws of a coin,
  // one side comes up at most min(better, worse) times; 1 at most. Small: the models differ.
  // (McNemar, "Note on the sampling error of the difference between correlated proportions", 1947.)
  double p() const;
};
// Of the first items, as many as both have; at least one.
PairedDifference paired(const Metric& here, const Metric& there);

}  // namespace tapegrad::evaluation
