#include "tapegrad/apps/cli/option_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/text/internal/number_text.h"

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
  if (const auto value = whole_number_of<T>(text)) return *value;
  const auto number = number_of<double>(text);
  const bool is_outside =
      number && std::abs(*number) > static_cast<double>(std::numeric_limits<T>::max());
  const bool is_huge = !number && std::isdigit(static_cast<unsigned char>(text[0])) != 0 &&
                       text.find_first_not_of("0123456789eE") == text.npos &&
                       std::isdigit(static_cast<unsigned char>(text.back())) != 0 &&
                       text.find_first_of("eE") == text.find_last_of("eE");
  if (is_outside ? !std::is_unsigned_v<T> || *number >= 0 : is_huge) {
    usage_error("{}: {} is too large or too small", option, text);
  }
  usage_error("{}: '{}' is not a whole number{}", option, text,
              std::is_unsigned_v<T> ? " of 0 or more" : "");
}

double parse_real(const std::string& option, const std::string& text) {
  const auto value = number_of<double>(text);
  if (!value || !std::isfinite(*value)) usage_error("{}: '{}' is not a number", option, text);
  return *value;
}

std::string parse_choice(const std::string& option, const std::string& text,
                         std::span<const std::string_view> names) {
  if (std::find(names.begin(), names.end(), text) == names.end()) {
    fail_choice(option, text, {names.begin(), names.end()});
  }
  return text;
}

}  // namespace

std::string with_hyphens(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string option_name(std::string_view member) {
  return with_hyphens("--" + std::string(member));
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  const size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  size_t least = letters / 5 + 2;
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

OptionValue parse_value(const std::string& option, const std::string& text, const Member& member) {
  switch (member.type()) {
    case Member::Type::boolean:
      return parse_switch(option, text);
    case Member::Type::whole32:
      return std::int64_t{parse_whole<int>(option, text)};
    case Member::Type::whole64:
      return parse_whole<std::int64_t>(option, text);
    case Member::Type::unsigned64:
      return parse_whole<std::uint64_t>(option, text);
    case Member::Type::real:
      return parse_real(option, text);
    case Member::Type::text:
      return text;
    case Member::Type::texts:
      return std::vector<std::string>{text};
    case Member::Type::choice:
      break;
  }
  return parse_choice(option, text, member.names());
}

void set_from_texts(const std::string& option, const std::vector<std::string>& texts,
                    const Rule& rule, const Member& member) {
  if (member.type() == Member::Type::texts) return member.set(texts);
  const OptionValue value = parse_value(option, texts.back(), member);
  as_usage([&] { check_rule(option + ":", value, rule); });
  member.set(value);
}

std::string text_of_default(const Member& member) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return value ? "yes" : "";
        } else if constexpr (std::is_arithmetic_v<T>) {
          return fmt::format("{}", value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return value;
        } else {
          return "";
        }
      },
      member.value());
}

std::string placeholder(const Member& member, const Rule& rule) {
  if (!rule.value.empty()) return std::string(rule.value);
  switch (member.type()) {
    case Member::Type::boolean:
      return "";
    case Member::Type::whole32:
    case Member::Type::whole64:
    case Member::Type::unsigned64:
      return "N";
    case Member::Type::real:
      return "X";
    case Member::Type::text:
    case Member::Type::texts:
      return "TEXT";
    case Member::Type::choice:
      break;
  }
  return fmt::format("{}", fmt::join(member.names(), "|"));
}

void fail_choice(const std::string& option, const std::string& text,
                 const std::vector<std::string>& choices) {
  const std::string meant = nearest(text, choices);
  usage_error("{}: '{}' is not one of {}{}", option, text, fmt::join(choices, ", "),
              meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

}  // namespace tapegrad::cli
