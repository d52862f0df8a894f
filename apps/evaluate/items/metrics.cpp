#include "tapegrad/apps/evaluate/items/metrics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tapegrad::evaluation {
namespace {

constexpr double kNormal95 = 1.959963984540054;

double mean_of_values(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::optional<double> error_of_mean(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const double mean = mean_of_values(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / (n - 1) / n);
}

}  // namespace

double Metric::value() const {
  const double mean = mean_of_values(values);
  return is_perplexity() ? std::exp(-mean) : mean;
}

std::optional<double> Metric::error() const {
  const auto error = error_of_mean(values);
  return error && is_perplexity() ? std::optional(*error * value()) : error;
}

std::optional<double> PairedDifference::half_interval() const {
  if (!error) return std::nullopt;
  return kNormal95 * *error;
}

// Each term of the binomial distribution comes from the one before: C(n, k + 1) = C(n, k) (n − k) /
// (k + 1). In logarithms, since 2^−n is 0 for large n.
double PairedDifference::p() const {
  const auto n = static_cast<double>(better + worse);
  double log_term = -n * std::numbers::ln2, sum = 0;
  for (std::int64_t k = 0; k <= std::min(better, worse); ++k) {
    sum += std::exp(log_term);
    log_term += std::log((n - static_cast<double>(k)) / static_cast<double>(k + 1));
  }
  return std::min(1.0, 2 * sum);
}

PairedDifference paired(const Metric& here, const Metric& there) {
  std::vector<double> differences;
  PairedDifference result;
  for (std::size_t i = 0; i < std::min(here.values.size(), there.values.size()); ++i) {
    differences.push_back(here.values[i] - there.values[i]);
    result.better += differences.back() > 0;
    result.worse += differences.back() < 0;
  }
  result.mean = mean_of_values(differences);
  result.error = error_of_mean(differences);
  return result;
}

}  // namespace tapegrad::evaluation
