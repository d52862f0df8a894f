#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/attention_checks.h"
#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad {
namespace {

struct Turn {
  std::int64_t head_size, channels;
  std::int64_t turned;               // of the channels of a head
  std::vector<std::int64_t> firsts;  // of each sequence; one serves all
  double base;
  std::optional<RopeScaling> scaling;
  std::vector<std::int64_t> lengths = {};  // see RopeOptions
  double magnitude = 1;                    // of turned channels, after by before
  double sign = 1;                         // −1 turns back
  Tensor document_starts = {};             // (B, T) i32, or undefined

  bool is(RopeScaling::Kind kind) const { return scaling && scaling->kind == kind; }
  // True if longrope takes a text of so many tokens for a long one.
  bool is_long(std::int64_t length) const {
    return is(RopeScaling::Kind::longrope) && length > scaling->original_positions;
  }
};

// Frequencies and angles are rounded to T as transformers rounds them: a model that was trained
// with f32's angles, which are off by a thousandth at position 10⁴, goes on with the same ones.

template <class T>
T llama3(T frequency, const RopeScaling& s) {
  const auto positions = static_cast<T>(s.original_positions);
  const T wave = static_cast<T>(2 * std::numbers::pi) / frequency;
  if (wave < positions / static_cast<T>(s.high_freq_factor)) return frequency;
  const auto factor = static_cast<T>(s.factor), low = static_cast<T>(s.low_freq_factor);
  if (wave > positions / low) return frequency / factor;
  const T smooth =
      (positions / wave - low) / static_cast<T>(s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// Between these pairs, YaRN goes over from turning as before to turning slower.
struct Ramp {
  double low, high;
};
Ramp yarn_ramp(const Turn& turn) {
  const RopeScaling& s = *turn.scaling;
  const auto size = static_cast<double>(turn.turned);
  const auto pair_that_turns = [&](double times) {  // in the original positions
    const double wave = static_cast<double>(s.original_positions) / times;
    return size * std::log(wave / (2 * std::numbers::pi)) / (2 * std::log(turn.base));
  };
  double low = pair_that_turns(s.beta_fast), high = pair_that_turns(s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, size - 1);
  return {low, low == high ? high + 0.001 : high};
}

// `power`: the base to the power of the pair's exponent, 1 / its frequency.
template <class T>
T yarn(T power, std::int64_t pair, const Ramp& ramp, const RopeScaling& s) {
  const T at =
      (static_cast<T>(pair) - static_cast<T>(ramp.low)) / static_cast<T>(ramp.high - ramp.low);
  const T kept = 1 - std::clamp(at, T{0}, T{1});
  return 1 / (static_cast<T>(s.factor) * power) * (1 - kept) + 1 / power * kept;
}

// How far each pair turns from one position to the next, in radians. `is_long`: see Turn.
template <class T>
std::vector<double> frequencies(const Turn& turn, bool is_long) {
  using Kind = RopeScaling::Kind;
  const Ramp ramp = turn.is(Kind::yarn) ? yarn_ramp(turn) : Ramp{};
  std::vector<double> result;
  for (std::int64_t i = 0; i < turn.turned / 2; ++i) {
    const T exponent = static_cast<T>(2 * i) / static_cast<T>(turn.turned);
    const T power = static_cast<T>(std::pow(turn.base, static_cast<double>(exponent)));
    T frequency = 1 / power;
    if (turn.is(Kind::linear)) frequency /= static_cast<T>(turn.scaling->factor);
    if (turn.is(Kind::llama3)) frequency = llama3(frequency, *turn.scaling);
    if (turn.is(Kind::yarn)) frequency = yarn(power, i, ramp, *turn.scaling);
    if (turn.is(Kind::longrope)) {
      const auto& factors = is_long ? turn.scaling->long_factors : turn.scaling->short_factors;
      frequency = 1 / (static_cast<T>(factors[static_cast<std::size_t>(i)]) * power);
    }
    result.push_back(frequency);
  }
  return result;
}

struct Unit {
  double cos, sin;
};
Unit unit(double angle) { return {std::cos(angle), std::sin(angle)}; }
Unit operator*(Unit a, Unit b) {  // by the sum of both angles
  return {a.cos * b.cos - a.sin * b.sin, a.sin * b.cos + a.cos * b.sin};
}

// The change of an angle by rounding to T, as a turn by so little that two terms of its series do.
template <class T>
Unit rounding(double angle) {
  const double added = static_cast<double>(static_cast<T>(angle)) - angle;
  return {1 - added * added / 2, added};
}

// cos and sin, times the magnitude, of the angle of each pair at each of `rows` positions from
// `first` on, (rows, 2, R/2). Position 64·n + k is turned by 64·n and then by k: most places then
// take no sine or cosine of their own, and each depends on its position alone.
template <class T>
void angles(const std::vector<double>& frequency, const Turn& turn, std::int64_t first,
            std::int64_t rows, T* out) {
  constexpr std::int64_t kBlock = 64;
  const auto pairs = static_cast<std::int64_t>(frequency.size());
  const std::int64_t last = first + rows, first_block = first / kBlock;
  const bool one_block = (last - 1) / kBlock == first_block;
  const std::int64_t low = one_block ? first % kBlock : 0;
  const std::int64_t high = one_block ? low + rows : kBlock;
  std::vector<Unit> steps;  // (high − low, pairs)
  for (std::int64_t k = low; k < high; ++k) {
    for (const double f : frequency) steps.push_back(unit(static_cast<double>(k) * f));
  }
  std::vector<Unit> block(frequency.size());
  const T magnitude = static_cast<T>(turn.magnitude);
  for (std::int64_t t = first; t < last; ++t) {
    const std::int64_t k = t % kBlock;
    for (std::size_t i = 0; (k == 0 || t == first) && i < block.size(); ++i) {
      block[i] = unit(static_cast<double>(t - k) * frequency[i]);
    }
    const Unit* step = steps.data() + (k - low) * pairs;
    T* __restrict cos = out + (t - first) * 2 * pairs, * __restrict sin = cos + pairs;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const Unit angle = block[at] * step[i] * rounding<T>(static_cast<double>(t) * frequency[at]);
      cos[i] = static_cast<T>(angle.cos) * magnitude;
      sin[i] = static_cast<T>(turn.sign * angle.sin) * magnitude;
    }
  }
}

// The angles of all sequences: (sequences, rows, 2, R/2). Sequence i is of the length
// lengths[i], and begins at firsts[i]; where there is one of them, it is that of all.
template <class T>
Tensor angles_of(const Turn& turn, std::int64_t rows, const std::vector<std::int64_t>& lengths) {
  const auto of = [](const std::vector<std::int64_t>& all, std::size_t i) {
    return all.size() == 1 ? all.front() : all[i];
  };
  const std::vector<double> usual = frequencies<T>(turn, false);
  const bool some_long = std::any_of(lengths.begin(), lengths.end(),
                                     [&](std::int64_t length) { return turn.is_long(length); });
  const std::vector<double> of_long = some_long ? frequencies<T>(turn, true) : usual;
  const std::size_t sequences = std::max(turn.firsts.size(), lengths.size());
  Tensor table =
      Tensor::empty({static_cast<std::int64_t>(sequences), rows, turn.turned}, dtype_of<T>());
  T* out = table.template mutable_data<T>();
  for (std::size_t i = 0; i < sequences; ++i) {
    const auto& frequency = turn.is_long(of(lengths, i)) ? of_long : usual;
    angles(frequency, turn, of(turn.firsts, i), rows, out);
    out += rows * turn.turned;
  }
  return table;
}

// The length of the document of each token (B, T), of which document_starts has the beginnings.
std::vector<std::int64_t> document_lengths(const Tensor& document_starts) {
  const std::int64_t T = document_starts.dim(1);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(document_starts.numel()));
  for (std::int64_t b = 0; b < document_starts.dim(0); ++b) {
    const std::int32_t* const starts = document_starts.data<std::int32_t>() + b * T;
    for (std::int64_t t = T, end = T; t-- > 0;) {
      lengths[static_cast<std::size_t>(b * T + t)] = end - starts[t];
      if (t == starts[t]) end = t;
    }
  }
  return lengths;
}

template <class T>
void turn_row(const Turn& turn, const T* x, const T* cos, std::int64_t width, T* y) {
  const std::int64_t pairs = turn.turned / 2;
  const T* sin = cos + pairs;
  for (std::int64_t head = 0; head < turn.channels; head += turn.head_size) {
    const T *low = x + head, *high = low + pairs;
    T* __restrict y_low = y + head, * __restrict y_high = y_low + pairs;
    for (std::int64_t i = 0; i < pairs; ++i) {
      y_low[i] = low[i] * cos[i] - high[i] * sin[i];
      y_high[i] = high[i] * cos[i] + low[i] * sin[i];
    }
    std::copy(low + turn.turned, low + turn.head_size, y_low + turn.turned);
  }
  std::copy(x + turn.channels, x + width, y + turn.channels);
}

Tensor turned_rows(const Tensor& x, const Turn& turn) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  if (x.numel() == 0) return y;
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t rows = x.dim(-2), width = x.dim(-1);
    const bool by_document = turn.document_starts.defined() && turn.lengths.empty() &&
                             turn.is_long(rows);  // whose lengths choose then
    const std::vector<std::int64_t> documents =
        by_document ? document_lengths(turn.document_starts) : std::vector<std::int64_t>();
    const std::vector<std::int64_t> lengths =
        by_document ? std::vector<std::int64_t>{0} : turn.lengths;
    const Tensor table = angles_of<T>(turn, rows, lengths.empty() ? std::vector{rows} : lengths);
    const Tensor of_long = by_document ? angles_of<T>(turn, rows, {rows}) : table;
    const std::int64_t angle_rows = table.dim(0) * rows;
    const auto* start =
        turn.document_starts.defined() ? turn.document_starts.data<std::int32_t>() : nullptr;
    const T *in = x.data<T>(), *angle = table.data<T>(), *long_angle = of_long.data<T>();
    T* out = y.mutable_data<T>();
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / width);
    parallel_for(x.numel() / width, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t place = r % angle_rows - (start == nullptr ? 0 : start[r]);
        const bool is_long = by_document && turn.is_long(documents[static_cast<std::size_t>(r)]);
        const T* const of = (is_long ? long_angle : angle) + place * turn.turned;
        turn_row(turn, in + r * width, of, width, out + r * width);
      }
    });
  });
  return y;
}

// The same as ops, x·cos + partner·(±sin). The factors of all elements come from turning ones in
// the place of each pair's low channel.
Tensor turned_by_ops(const Tensor& x, const Turn& turn) {
  const std::int64_t width = x.dim(-1), pairs = turn.turned / 2;
  std::vector<std::int32_t> low, high, partner;
  std::vector<double> ones, signs;
  for (std::int64_t i = 0; i < width; ++i) {
    const std::int64_t place = i % turn.head_size;
    const bool turns = i < turn.channels && place < turn.turned, is_low = place < pairs;
    low.push_back(static_cast<std::int32_t>(turns && !is_low ? i - pairs : i));
    high.push_back(static_cast<std::int32_t>(turns && is_low ? i + pairs : i));
    partner.push_back(turns ? (is_low ? high.back() : low.back()) : low.back());
    ones.push_back(!turns || is_low ? 1 : 0);
    signs.push_back(!turns ? 0 : is_low ? -1 : 1);
  }
  const auto at = [&](const Tensor& t, const std::vector<std::int32_t>& channels) {
    return index_select(t, -1, Tensor::from(channels, {width}));
  };
  const auto row = [&](const std::vector<double>& values) {
    return Tensor::from(values, {width}).to(x.dtype());
  };
  const Tensor units = turned_rows(broadcast_to(row(ones), x.shape()), turn);
  return x * at(units, low) + at(x, partner) * (at(units, high) * row(signs));
}

// Linear in x, and its transpose turns back by the same magnitude, so that its gradient is the same
// op again.
Tensor apply_turn(const Tensor& x, const Turn& turn) {
  return apply(
      "rope", {x}, [turn](Inputs in, Saved&) { return turned_rows(in[0], turn); },
      [turn](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        Turn back = turn;
        back.sign = -turn.sign;
        return {apply_turn(dy, back)};
      },
      {.onnx = [turn](OnnxCall& c) {
        return c.composed([&](Inputs in) { return turned_by_ops(in[0], turn); });
      }});
}

void check_longrope(const RopeScaling& s, std::int64_t pairs) {
  check_numbers("RopeScaling", {{"attention_factor", s.attention_factor, above(0)}});
  for (const auto* factors : {&s.short_factors, &s.long_factors}) {
    check(std::ssize(*factors) == pairs,
          "[RopeScaling] longrope needs a short and a long factor for each of {} pairs, not {}",
          pairs, factors->size());
    for (const double factor : *factors)
      check_numbers("RopeScaling", {{"factor", factor, above(0)}});
  }
}

void check_scaling(const RopeScaling& s, std::int64_t pairs) {
  check_numbers("RopeScaling",
                {{"factor", s.factor, above(0)},
                 {"original_positions", static_cast<double>(s.original_positions), above(0)}});
  if (s.kind == RopeScaling::Kind::longrope) return check_longrope(s, pairs);
  if (s.kind == RopeScaling::Kind::linear) return;
  if (s.kind == RopeScaling::Kind::yarn) {
    check_numbers("RopeScaling", {{"beta_fast", s.beta_fast, above(0)},
                                  {"beta_slow", s.beta_slow, above(0)},
                                  {"attention_factor", s.attention_factor, above(0)}});
    check(s.beta_slow <= s.beta_fast,
          "[RopeScaling] beta_slow must not be above beta_fast, as {} and {} are", s.beta_slow,
          s.beta_fast);
    return;
  }
  check_numbers("RopeScaling", {{"high_freq_factor", s.high_freq_factor, above(0)},
                                {"low_freq_factor", s.low_freq_factor, above(0)}});
  check(s.low_freq_factor < s.high_freq_factor,
        "[RopeScaling] low_freq_factor must be below high_freq_factor, not {} and {}",
        s.low_freq_factor, s.high_freq_factor);
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
  const std::int64_t turned = options.turned.value_or(head_size);
  check(turned > 0 && turned % 2 == 0 && turned <= head_size,
        "[rope] of heads of {} channels, an even number turns, not {}", head_size, turned);
  std::vector<std::int64_t> firsts = options.firsts;
  if (firsts.empty()) firsts = {options.first};
  check(options.firsts.empty() || (x.rank() == 3 && std::ssize(firsts) == x.dim(0)),
        "[rope] x {} is not {} sequences, one for each of the first positions", x.shape(),
        firsts.size());
  for (const std::int64_t first : firsts) {
    check(first >= 0, "[rope] the first position must not be negative, as {} is", first);
  }
  Tensor documents = options.document_starts;
  if (documents.defined()) {
    check(x.rank() == 3, "[rope] x {} with document_starts is not (B, T, C)", x.shape());
    check_document_starts("rope", documents, x.dim(0), x.dim(1));
    documents = documents.clone();  // so that the caller may change it before backward
  }
  check_numbers("RopeOptions", {{"base", options.base, above(0)}});
  const auto& lengths = options.lengths;
  check(lengths.size() < 2 || (x.rank() == 3 && std::ssize(lengths) == x.dim(0)),
        "[rope] {} lengths are not those of the sequences of x {}", lengths.size(), x.shape());
  if (options.scaling) check_scaling(*options.scaling, turned / 2);
  Turn turn{.head_size = head_size,
            .channels = channels,
            .turned = turned,
            .firsts = std::move(firsts),
            .base = options.base,
            .scaling = options.scaling,
            .lengths = lengths,
            .document_starts = std::move(documents)};
  const bool is_yarn = turn.is(RopeScaling::Kind::yarn);
  check(!is_yarn || options.base > 1, "[rope] YaRN needs a base above 1, not {}", options.base);
  if (is_yarn || turn.is(RopeScaling::Kind::longrope)) {
    turn.magnitude = turn.scaling->attention_factor;
  }
  if (options.back) turn.magnitude = 1 / turn.magnitude;
  if (options.back != options.reversed) turn.sign = -1;
  return apply_turn(x, turn);
}

double longrope_attention_factor(double factor, std::int64_t original_positions) {
  const double positions = std::log(static_cast<double>(original_positions));
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / positions);
}

double yarn_attention_factor(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

}  // namespace tapegrad
