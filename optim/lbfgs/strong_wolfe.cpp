#include "tapegrad/optim/lbfgs/internal/strong_wolfe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>

namespace tapegrad::optim {
namespace {

using Ends = std::array<LinePoint, 2>;  // of a bracket, in no order

// Where the cubic through two points with their slopes is smallest, inside the bounds; their middle
// if there is no such place (equation 3.59).
double cubic_minimum(const LinePoint& a, const LinePoint& b, double least, double most) {
  const auto& [first, second] = a.t <= b.t ? std::tie(a, b) : std::tie(b, a);
  const double d1 =
      first.slope + second.slope - 3 * (first.loss - second.loss) / (first.t - second.t);
  const double square = d1 * d1 - first.slope * second.slope;
  if (!(square >= 0)) return (least + most) / 2;
  const double d2 = std::sqrt(square);
  const double place = second.t - (second.t - first.t) * ((second.slope + d2 - d1) /
                                                          (second.slope - first.slope + 2 * d2));
  return std::isnan(place) ? (least + most) / 2 : std::min(std::max(place, least), most);
}

// Not too close to an end twice in a row, which `close` is for: the bracket would hardly shrink.
double kept_inside(double t, double least, double most, bool& close) {
  const double margin = 0.1 * (most - least);
  const bool is_close = std::min(most - t, t - least) < margin;
  const bool moved = is_close && (close || t >= most || t <= least);
  close = is_close && !moved;
  if (!moved) return t;
  return std::abs(t - most) < std::abs(t - least) ? most - margin : least + margin;
}

std::size_t lower(const Ends& ends) {
  return ends[0].loss <= ends[1].loss || std::isnan(ends[1].loss) ? 0 : 1;
}

// The conditions; a loss that is NaN is too high.
struct Wolfe {
  const LinePoint& start;
  bool low_enough(const LinePoint& p) const {
    return p.loss <= start.loss + 1e-4 * p.t * start.slope;
  }
  bool flat_enough(const LinePoint& p) const { return std::abs(p.slope) <= -0.9 * start.slope; }
};

// Shrinks a bracket around a point that satisfies the conditions.
LinePoint zoom(const std::function<LinePoint(double t)>& at, const Wolfe& wolfe, Ends ends,
               std::int64_t iterations, const LineSearchLimits& limits) {
  std::size_t low = lower(ends);
  bool close = false;
  for (; iterations < limits.max_iter; ++iterations) {
    const auto [least, most] = std::minmax(ends[0].t, ends[1].t);
    if ((most - least) * limits.largest < limits.tolerance_change) break;
    const double t = cubic_minimum(ends[0], ends[1], least, most);
    LinePoint found = at(kept_inside(t, least, most, close));
    LinePoint& high = ends[1 - low];
    if (!wolfe.low_enough(found) || !(found.loss < ends[low].loss)) {
      high = std::move(found);
      low = lower(ends);
      continue;
    }
    if (wolfe.flat_enough(found)) return found;
    if (found.slope * (high.t - ends[low].t) >= 0) high = ends[low];
    ends[low] = std::move(found);
  }
  return ends[low];
}

}  // namespace

LinePoint strong_wolfe(const std::function<LinePoint(double t)>& at, const LinePoint& start,
                       double t, const LineSearchLimits& limits) {
  const Wolfe wolfe{start};
  LinePoint previous = start, point = at(t);
  for (std::int64_t i = 0; i < limits.max_iter; ++i) {
    const bool high = !wolfe.low_enough(point) || (i > 1 && point.loss >= previous.loss);
    if (!high && wolfe.flat_enough(point)) return point;
    if (high || point.slope >= 0) {
      return zoom(at, wolfe, {std::move(previous), std::move(point)}, i, limits);
    }
    const double least = point.t + 0.01 * (point.t - previous.t), most = point.t * 10;
    const double next = cubic_minimum(previous, point, least, most);
    previous = std::move(point);
    point = at(next);
  }
  return point.loss < start.loss ? point : start;
}

}  // namespace tapegrad::optim
