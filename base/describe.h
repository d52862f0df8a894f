#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tapegrad/base/error.h"

namespace tapegrad {

// A struct of options names each of its members once, in a table:
//
//   struct PointConfig {
//     int n_layer = 2;
//     template <class Self, class Table>
//     static void describe(Self& c, Table& t) {
//       t("n_layer", c.n_layer, "hidden layers", {.least = 1, .most = 64});
//     }
//   };
//
// The command line (--n-layer), config.json ("n_layer"), the comparison on resume, the help and the
// errors all go by that table and by nothing else. A member is a bool, int, int64_t, uint64_t,
// double, std::string, std::vector<std::string>, an enum with names (see names_of), or an optional
// of one of these. `Self` is const for a table that only reads.

// A struct whose members are described structs themselves names them as sections:
//
//   t.section("model", "Model", Lasting::model, o.model);
//
// where "model" is the section's name in config.json and "Model" its heading in the help.

// How long the value of an option lasts.
enum class Lasting {
  call,   // of this call of a program only
  run,    // kept in config.json; may be changed when the run is resumed
  model,  // kept in config.json; cannot be changed
};

// What holds for a member beside its type.
struct Rule {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool below_most = false;              // `most` itself is not allowed
  std::string_view value = {};          // what stands for the value in help [by type: N, X, TEXT]
  bool option = true;                   // false: derived, so that the command line does not have it
  std::optional<Lasting> lasting = {};  // of this member alone [its section's]
  bool newer = false;  // files that are older than the member lack it, and keep its default
};

// The names of an enum's values, in order, the first one being 0. An enum with a table member
// defines an overload beside itself: `std::span<const std::string_view> names_of(Activation)`,
// whose argument is ignored.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  { names_of(e) } -> std::convertible_to<std::span<const std::string_view>>;
};

template <NamedEnum E>
std::string_view name_of_enum(E value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

// The value of that name; nothing if there is none.
template <NamedEnum E>
std::optional<E> enum_of(std::string_view name) {
  const auto names = names_of(E{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// Error, naming the member and its value, unless the value keeps its rule.
template <class T>
void check_rule(std::string_view name, const T& value, const Rule& rule) {
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    const auto number = static_cast<double>(value);
    if (rule.below_most) {
      check(number >= rule.least && number < rule.most,
            "{} must be at least {} and below {}, not {}", name, rule.least, rule.most, value);
    } else if (std::isinf(rule.most)) {
      check(number >= rule.least, "{} must be at least {}, not {}", name, rule.least, value);
    } else {
      check(number >= rule.least && number <= rule.most, "{} must be from {} to {}, not {}", name,
            rule.least, rule.most, value);
    }
  }
}
template <class T>
void check_rule(std::string_view name, const std::optional<T>& value, const Rule& rule) {
  if (value) check_rule(name, *value, rule);
}

namespace detail {
struct RuleChecker {
  template <class T>
  void operator()(std::string_view name, const T& value, std::string_view, const Rule& rule = {}) {
    check_rule(name, value, rule);
  }
  template <class Part>
  void section(std::string_view, std::string_view, Lasting, const Part& part) {
    Part::describe(part, *this);
  }
};
}  // namespace detail

// Checks every member of a described struct against its rule.
template <class Config>
void check_rules(const Config& config) {
  detail::RuleChecker checker;
  Config::describe(config, checker);
}

}  // namespace tapegrad
