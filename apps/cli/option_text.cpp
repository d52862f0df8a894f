#include "tapegrad/apps/cli/option_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tapegrad::cli {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that make one word of the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

template <class T>
T parse_whole(const std::string& option, const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range && stop == end) {
    usage_error("{}: {} is too large or too small", option, text);
  }
  if (error != std::errc() || stop != end) {
    usage_error("{}: '{}' is not a whole number{}", option, text,
                std::is_unsigned_v<T> ? " of 0 or more" : "");
  }
  return value;
}

}  // namespace

std::string option_name(std::string_view member) {
  std::string name = "--" + std::string(member);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string with_underscores(const std::string& option) {
  std::string other = option.substr(2);
  std::replace(other.begin(), other.end(), '-', '_');
  return other == option.substr(2) ? option : option + ",--" + other;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t least = word.size() / 5 + 2;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

bool parse_switch(const std::string& option, std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  usage_error("{}: '{}' is neither true nor false", option, text);
}

std::string switch_text(std::optional<bool> value) { return value.value_or(false) ? "yes" : ""; }

void parse_text(const std::string& option, const std::string& text, int& value) {
  value = parse_whole<int>(option, text);
}
void parse_text(const std::string& option, const std::string& text, std::int64_t& value) {
  value = parse_whole<std::int64_t>(option, text);
}
void parse_text(const std::string& option, const std::string& text, std::uint64_t& value) {
  value = parse_whole<std::uint64_t>(option, text);
}
void parse_text(const std::string& option, const std::string& text, double& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    usage_error("{}: '{}' is not a number", option, text);
  }
}
void parse_text(const std::string&, const std::string& text, std::string& value) { value = text; }

void fail_choice(const std::string& option, const std::string& text,
                 const std::vector<std::string>& choices) {
  const std::string meant = nearest(text, choices);
  usage_error("{}: '{}' is not one of {}{}", option, text, fmt::join(choices, ", "),
              meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

}  // namespace tapegrad::cli
