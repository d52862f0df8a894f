#include "tapegrad/apps/sweep/varied_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/random.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::sweep {
namespace {

constexpr double kWideRange = 10;  // HIGH/LOW from which on a range is spread by logarithm

bool is_rate(const std::string& name) {
  return name == "learning-rate" || name == "min-lr" || name.find("decay") != name.npos;
}

// The parts of a text between commas.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts = {""};
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Both ends of a range as texts; nothing if the text is none.
std::optional<std::pair<std::string, std::string>> ends_of(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == text.npos) return std::nullopt;
  std::pair<std::string, std::string> ends(text.substr(0, dots), text.substr(dots + 2));
  if (!number_of<double>(ends.first) || !number_of<double>(ends.second)) return std::nullopt;
  return ends;
}

VariedOption range(const std::string& text, const std::string& name, OptionKind kind,
                   const std::pair<std::string, std::string>& ends) {
  if (kind == OptionKind::other) {
    cli::usage_error("--vary {}: --{} is no number, and has no range; list its values", text, name);
  }
  VariedOption o{.name = name,
                 .values = {},
                 .low = *number_of<double>(ends.first),
                 .high = *number_of<double>(ends.second),
                 .whole = kind == OptionKind::whole};
  for (const std::string* end : {&ends.first, &ends.second}) {
    if (!std::isfinite(*number_of<double>(*end))) {
      cli::usage_error("--vary {}: {} is not a finite number", text, *end);
    }
    if (o.whole && !whole_number_of<std::int64_t>(*end)) {
      cli::usage_error("--vary {}: --{} is a whole number, and {} is none", text, name, *end);
    }
  }
  if (o.low >= o.high) {
    cli::usage_error("--vary {}: a range goes from a number to a larger one", text);
  }
  o.log = o.low > 0 && (o.high / o.low >= kWideRange || is_rate(name));
  return o;
}

// [0, 1) with 53 random bits, for one option of one run.
double uniform_at(std::uint64_t seed, std::size_t run, std::size_t option) {
  const std::uint64_t index = run;
  const auto words =
      philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                  static_cast<std::uint32_t>(option), 0},
                 philox_key(seed));
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

std::string drawn_value(const VariedOption& o, double u) {
  if (o.is_list()) {
    const auto count = static_cast<double>(o.values.size());
    return o.values[std::min(static_cast<std::size_t>(u * count), o.values.size() - 1)];
  }
  // Each whole number has the same share of a range that ends half beyond its ends.
  const double half = o.whole ? 0.5 : 0;
  const double low = o.low - half, high = o.high + half;
  double x = o.log ? low * std::pow(high / low, u) : low + u * (high - low);
  if (o.whole) return fmt::format("{:.0f}", std::clamp(std::round(x), o.low, o.high));
  x = number_of<double>(fmt::format("{:.4g}", x)).value_or(x);
  return fmt::format("{}", std::clamp(x, o.low, o.high));
}

}  // namespace

VariedOption parse_varied(const std::string& text, const KindOf& kind_of) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0 || equals + 1 == text.size()) {
    cli::usage_error("--vary {}: it is NAME=A,B,C or NAME=LOW..HIGH", text);
  }
  std::string name = text.substr(0, equals);
  const std::string values = text.substr(equals + 1);
  name = cli::with_hyphens(name.starts_with("--") ? name : "--" + name).substr(2);
  const OptionKind kind = kind_of(name);
  if (const auto ends = ends_of(values)) return range(text, name, kind, *ends);
  VariedOption o{.name = name, .values = split(values)};
  for (std::size_t i = 0; i < o.values.size(); ++i) {
    if (o.values[i].empty()) cli::usage_error("--vary {}: a value is empty", text);
    if (std::count(o.values.begin(), o.values.begin() + static_cast<std::ptrdiff_t>(i),
                   o.values[i]) > 0) {
      cli::usage_error("--vary {}: {} is there twice", text, o.values[i]);
    }
  }
  return o;
}

std::size_t combinations(const std::vector<VariedOption>& options) {
  std::size_t count = 1;
  for (const VariedOption& o : options) {
    if (count > std::numeric_limits<std::size_t>::max() / o.values.size()) {
      return std::numeric_limits<std::size_t>::max();
    }
    count *= o.values.size();
  }
  return count;
}

std::vector<Values> grid(const std::vector<VariedOption>& options, std::size_t most) {
  std::vector<Values> runs(std::min(combinations(options), most));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].resize(options.size());
    std::size_t rest = i;
    for (std::size_t o = options.size(); o-- > 0;) {
      const std::vector<std::string>& values = options[o].values;
      runs[i][o] = values[rest % values.size()];
      rest /= values.size();
    }
  }
  return runs;
}

Values draw(const std::vector<VariedOption>& options, std::uint64_t seed, std::size_t index) {
  Values values;
  for (std::size_t o = 0; o < options.size(); ++o) {
    values.push_back(drawn_value(options[o], uniform_at(seed, index, o)));
  }
  return values;
}

}  // namespace tapegrad::sweep
