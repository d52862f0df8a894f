#include "tapegrad/nn/name_map.h"

#include <optional>
#include <string_view>

namespace tapegrad::nn {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Match {
  std::string_view rest;                  // behind the prefix
  std::vector<std::string_view> numbers;  // of each '#'
};

std::optional<Match> match(std::string_view prefix, std::string_view name) {
  Match found;
  for (const char c : prefix) {
    if (c == '#') {
      std::size_t digits = 0;
      while (digits < name.size() && is_digit(name[digits])) ++digits;
      if (digits == 0) return std::nullopt;
      found.numbers.push_back(name.substr(0, digits));
      name.remove_prefix(digits);
    } else {
      if (name.empty() || name.front() != c) return std::nullopt;
      name.remove_prefix(1);
    }
  }
  found.rest = name;
  return found;
}

std::string with_numbers(std::string_view prefix, const std::vector<std::string_view>& numbers) {
  std::string text;
  std::size_t next = 0;
  for (const char c : prefix) {
    if (c == '#') {
      text += numbers.at(next++);
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string NameMap::operator()(const std::string& name) const {
  for (const NameRule& rule : rules_) {
    const auto found = match(rule.prefix, name);
    if (!found) continue;
    const std::string begin = with_numbers(rule.source_prefix, found->numbers);
    if (rule.suffixes.empty()) return begin + std::string(found->rest);
    for (const auto& [suffix, source_suffix] : rule.suffixes) {
      if (found->rest == suffix) return begin + source_suffix;
    }
  }
  return name;
}

}  // namespace tapegrad::nn
