#include "tapegrad/autograd/tensor/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {
namespace {

constexpr std::int64_t kWholeUpTo = 1000;  // elements of a tensor that is not abbreviated
constexpr std::int64_t kEdge = 3;  // elements that an abbreviated dimension shows at either end
constexpr std::size_t kLineLength = 80;

enum class Style { integer, truth, whole, fixed, scientific };

std::string text_of(double x, Style style) {
  if (style == Style::truth) return x != 0 ? "true" : "false";
  if (style == Style::integer) return fmt::format("{}", static_cast<std::int64_t>(x));
  if (!std::isfinite(x)) return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
  if (style == Style::whole) return fmt::format("{:.0f}.", x);
  return style == Style::fixed ? fmt::format("{:.4f}", x) : fmt::format("{:.4e}", x);
}

// PyTorch's rules: torch/_tensor_str.py, class _Formatter. `shown` are the elements that appear.
Style style_of(const Tensor& t, const std::vector<double>& shown) {
  if (t.dtype() == DType::boolean) return Style::truth;
  if (!is_float(t.dtype())) return Style::integer;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  bool all_whole = true;
  for (const double x : shown) {
    if (!std::isfinite(x) || x == 0) continue;
    all_whole = all_whole && x == std::ceil(x);
    least = std::min(least, std::abs(x));
    most = std::max(most, std::abs(x));
  }
  if (most == 0) return Style::whole;
  const bool wide = most / least > 1000;
  if (all_whole) return wide || most > 1e8 ? Style::scientific : Style::whole;
  return wide || most > 1e8 || least < 1e-4 ? Style::scientific : Style::fixed;
}

// Writes the elements of one tensor.
class Printer {
 public:
  explicit Printer(const Tensor& t) : t_(t), abbreviate_(t.numel() > kWholeUpTo) {
    std::vector<std::int64_t> shown;
    collect(0, 0, shown);
    std::vector<double> values;
    for (const std::int64_t i : shown) values.push_back(t.at(i));
    style_ = style_of(t, values);
    for (const std::int64_t i : shown) width_ = std::max(width_, text(i).size());
  }

  // The block of dimension `d` and the ones after it whose number is `block`: the block's first
  // element is block · (elements of a block). `indent` is the column of its opening bracket.
  std::string block(int d, std::int64_t block_index, std::size_t indent) const {
    if (d == t_.rank()) {
      const std::string element = text(block_index);
      return std::string(width_ - element.size(), ' ') + element;
    }
    const bool innermost = d == t_.rank() - 1;
    // Blocks of rank 1 stand on lines of their own, larger ones have empty lines between them.
    const auto breaks = static_cast<std::size_t>(innermost ? 0 : t_.rank() - 1 - d);
    const std::string new_line =
        std::string(std::max<std::size_t>(breaks, 1), '\n') + std::string(indent + 1, ' ');
    std::string out = "[";
    std::size_t column = indent + 1;
    const auto add = [&](const std::string& part) {
      if (out.size() > 1) {
        const bool fits = column + 2 + part.size() < kLineLength;
        out += !innermost || !fits ? "," + new_line : ", ";
        column = fits ? column + 2 : indent + 1;
      }
      out += part;
      column += part.size();
    };
    const std::int64_t n = t_.dim(d);
    for (std::int64_t i = 0; i < n; ++i) {
      if (skips(d) && i == kEdge) {
        add("...");
        i = n - kEdge;
      }
      add(block(d + 1, block_index * n + i, indent + 1));
    }
    return out + "]";
  }

 private:
  // Element i. f64 does not hold every i64.
  std::string text(std::int64_t i) const {
    if (t_.dtype() == DType::i64) return fmt::format("{}", t_.data<std::int64_t>()[i]);
    return text_of(t_.at(i), style_);
  }

  bool skips(int d) const { return abbreviate_ && t_.dim(d) > 2 * kEdge; }

  void collect(int d, std::int64_t block_index, std::vector<std::int64_t>& shown) const {
    if (d == t_.rank()) {
      shown.push_back(block_index);
      return;
    }
    const std::int64_t n = t_.dim(d);
    for (std::int64_t i = 0; i < n; ++i) {
      if (skips(d) && i == kEdge) i = n - kEdge;
      collect(d + 1, block_index * n + i, shown);
    }
  }

  const Tensor& t_;
  bool abbreviate_;
  Style style_ = Style::integer;
  std::size_t width_ = 0;
};

}  // namespace

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "tensor(undefined)";
  constexpr std::string_view kBegin = "tensor(";
  const std::string elements = t.numel() == 0 ? "[]" : Printer(t).block(0, 0, kBegin.size());
  return fmt::format("{}{}, shape={}, dtype={})", kBegin, elements, t.shape(), name_of(t.dtype()));
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << to_string(t); }

}  // namespace tapegrad

fmt::format_context::iterator fmt::formatter<tapegrad::Tensor>::format(
    const tapegrad::Tensor& t, fmt::format_context& context) const {
  return fmt::formatter<fmt::string_view>::format(tapegrad::to_string(t), context);
}
