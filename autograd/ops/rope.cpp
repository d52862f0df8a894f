#include <cmath>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

struct Turn {
  std::int64_t head_size, channels;
  std::int64_t first;
  double base;
  double sign;  // −1 turns back
};

// cos and sin of the angle of each pair at each of `rows` positions, (rows, D/2, 2). Angles are
// taken in double, since f32 has lost a thousandth of a turn at position 10⁵.
template <class T>
Tensor angles(const Turn& turn, std::int64_t rows) {
  const std::int64_t pairs = turn.head_size / 2;
  Tensor table = Tensor::empty({rows, pairs, 2}, dtype_of<T>());
  T* out = table.template mutable_data<T>();
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(turn.head_size);
    const double frequency = turn.sign * std::pow(turn.base, exponent);
    for (std::int64_t t = 0; t < rows; ++t) {
      const double angle = static_cast<double>(turn.first + t) * frequency;
      out[2 * (t * pairs + i)] = static_cast<T>(std::cos(angle));
      out[2 * (t * pairs + i) + 1] = static_cast<T>(std::sin(angle));
    }
  }
  return table;
}

template <class T>
void turn_row(const Turn& turn, const T* x, const T* angles, std::int64_t width, T* y) {
  const std::int64_t pairs = turn.head_size / 2;
  for (std::int64_t head = 0; head < turn.channels; head += turn.head_size) {
    const T *low = x + head, *high = low + pairs;
    T *y_low = y + head, *y_high = y_low + pairs;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const T cos = angles[2 * i], sin = angles[2 * i + 1];
      y_low[i] = low[i] * cos - high[i] * sin;
      y_high[i] = high[i] * cos + low[i] * sin;
    }
  }
  std::copy(x + turn.channels, x + width, y + turn.channels);
}

Tensor turned_rows(const Tensor& x, const Turn& turn) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  if (x.numel() == 0) return y;
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t rows = x.dim(-2), width = x.dim(-1);
    const Tensor table = angles<T>(turn, rows);
    const T *in = x.data<T>(), *angle = table.data<T>();
    T* out = y.mutable_data<T>();
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / width);
    parallel_for(x.numel() / width, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        turn_row(turn, in + r * width, angle + r % rows * turn.head_size, width, out + r * width);
      }
    });
  });
  return y;
}

// Linear in x, and its transpose turns back, so that its gradient is the same op again.
Tensor apply_turn(const Tensor& x, const Turn& turn) {
  return apply(
      "rope", {x}, [turn](Inputs in, Saved&) { return turned_rows(in[0], turn); },
      [turn](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        Turn back = turn;
        back.sign = -turn.sign;
        return {apply_turn(dy, back)};
      });
}

}  // namespace

Tensor rope(const Tensor& x, std::int64_t head_size, const RopeOptions& options) {
  check(x.rank() >= 2, "[rope] x must be (…, T, C), not {}", x.shape());
  check(head_size > 0 && head_size % 2 == 0,
        "[rope] channels are turned in pairs, so head_size must be even and above 0, not {}",
        head_size);
  const std::int64_t channels = options.channels.value_or(x.dim(-1));
  check(channels >= 0 && channels <= x.dim(-1) && channels % head_size == 0,
        "[rope] {} channels of x {} are not heads of {}", channels, x.shape(), head_size);
  check(options.first >= 0, "[rope] the first position must not be negative, as {} is",
        options.first);
  check(options.base > 0 && std::isfinite(options.base),
        "[rope] base must be finite and above 0, not {}", options.base);
  return apply_turn(x, {head_size, channels, options.first, options.base, 1});
}

}  // namespace tapegrad
