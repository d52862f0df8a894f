#include "tapegrad/apps/chart/chart_axis.h"

#include <algorithm>
#include <cmath>

namespace tapegrad::charts {
namespace {

// 1, 2 or 5 times a power of ten, so that about `count` of them fill the range.
double nice_step(double size, int count) {
  const double rough = size / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * 0.999) return factor * power;
  }
  return 10 * power;
}

}  // namespace

bool Axis::shows(double value) const {
  return std::abs(value) < 1e300 && (!logarithmic || value > 0);
}

void Axis::add(double value) {
  if (!shows(value)) return;
  const double place = logarithmic ? std::log10(value) : value;
  low = std::min(low, place);
  high = std::max(high, place);
}

void Axis::widen(double by) {
  const double size = std::max(std::abs(low), std::abs(high));
  if (empty() || high - low > 1e-9 * size) return;
  const double margin = std::max({by, 1e-6 * size, 1e-9});
  low -= margin;
  high += margin;
}

void Axis::widen_to_powers() {
  if (empty()) low = high = 0;
  low = std::ceil(low) - 1;
  high = std::max(low + 1, std::ceil(high));
}

double Axis::share(double value) const {
  if (!shows(value)) return 0;
  return std::clamp(((logarithmic ? std::log10(value) : value) - low) / (high - low), 0.0, 1.0);
}

std::vector<double> Axis::levels(int count, double least_step) const {
  const bool powers = logarithmic && std::floor(high) - std::ceil(low) >= 1;
  const bool bent = logarithmic && !powers;  // even numbers, at uneven distances
  const double first = bent ? std::pow(10, low) : low, last = bent ? std::pow(10, high) : high;
  const double step = powers ? std::ceil((high - low) / (count + 1))
                             : std::max(least_step, nice_step(last - first, count));
  std::vector<double> list;
  for (int i = 0; i < count + 2; ++i) {  // whatever rounding does
    const double level = (std::ceil(first / step) + i) * step;
    if (!(level <= last + 1e-9 * step)) break;
    list.push_back(powers ? std::pow(10, level) : level);
  }
  return list;
}

}  // namespace tapegrad::charts
