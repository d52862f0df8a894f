#pragma once

#include <fmt/ranges.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/describe.h"

namespace tapegrad::cli {

// Values of options from text, and as text.

std::string option_name(std::string_view member);  // "n_layer" → "--n-layer"

std::string with_underscores(const std::string& option);  // "--n-layer" → "--n-layer,--n_layer"

// The candidate that `word` was probably meant to be, or nothing.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

bool parse_switch(const std::string& option, std::string text);
std::string switch_text(std::optional<bool> value);  // for help: "yes", or nothing
void parse_text(const std::string& option, const std::string& text, int& value);
void parse_text(const std::string& option, const std::string& text, std::int64_t& value);
void parse_text(const std::string& option, const std::string& text, std::uint64_t& value);
void parse_text(const std::string& option, const std::string& text, double& value);
void parse_text(const std::string& option, const std::string& text, std::string& value);
[[noreturn]] void fail_choice(const std::string& option, const std::string& text,
                              const std::vector<std::string>& choices);
template <NamedEnum E>
std::vector<std::string> choices_of() {
  const auto names = names_of(E{});
  return {names.begin(), names.end()};
}
template <NamedEnum E>
void parse_text(const std::string& option, const std::string& text, E& value) {
  const auto found = enum_of<E>(text);
  if (!found) fail_choice(option, text, choices_of<E>());
  value = *found;
}
template <class T>
void parse_text(const std::string& option, const std::string& text, std::optional<T>& value) {
  parse_text(option, text, value.emplace());
}

// Of several values, the last one counts. UsageError if it breaks its rule.
template <class T>
void parse_value(const std::string& option, const std::vector<std::string>& texts, const Rule& rule,
                 T& value) {
  T parsed = value;
  parse_text(option, texts.back(), parsed);
  try {
    check_rule(option + ":", parsed, rule);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  value = parsed;
}
inline void parse_value(const std::string&, const std::vector<std::string>& texts, const Rule&,
                        std::vector<std::string>& value) {
  value = texts;
}

template <class T>
inline constexpr bool kIsList = std::is_same_v<T, std::vector<std::string>>;

template <class T>
std::string text_of_default(const T& value) {
  if constexpr (NamedEnum<T>) {
    return std::string(name_of_enum(value));
  } else if constexpr (kIsList<T>) {
    return "";
  } else {
    return fmt::format("{}", value);
  }
}
template <class T>
std::string text_of_default(const std::optional<T>& value) {
  return value ? text_of_default(*value) : "";
}

// The word that stands for an option's value in help: "N".
template <class T>
struct Placeholder {
  static std::string text() {
    if constexpr (NamedEnum<T>) {
      return fmt::format("{}", fmt::join(choices_of<T>(), "|"));
    } else {
      return std::is_integral_v<T> ? "N" : std::is_floating_point_v<T> ? "X" : "TEXT";
    }
  }
};
template <class T>
struct Placeholder<std::optional<T>> : Placeholder<T> {};

template <class T>
std::string placeholder(const Rule& rule) {
  return rule.value.empty() ? Placeholder<T>::text() : std::string(rule.value);
}

}  // namespace tapegrad::cli
