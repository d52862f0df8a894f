#pragma once

#include <initializer_list>
#include <limits>
#include <string_view>

namespace tapegrad {

// The finite numbers that a member of a struct of options may have.
struct NumberRange {
  double least = -std::numeric_limits<double>::max();
  double most = std::numeric_limits<double>::max();
  bool without_least = false, without_most = false;
};
inline constexpr NumberRange kAnyNumber{};
constexpr NumberRange at_least(double least) { return {.least = least}; }
constexpr NumberRange above(double bound) { return {.least = bound, .without_least = true}; }
constexpr NumberRange from_to(double least, double most) { return {.least = least, .most = most}; }
constexpr NumberRange from_to_below(double least, double bound) {
  return {.least = least, .most = bound, .without_most = true};
}
constexpr NumberRange between(double least, double most) {
  return {.least = least, .most = most, .without_least = true, .without_most = true};
}

struct NumberRule {
  std::string_view member;
  double value;
  NumberRange range;
};

// Error, naming the struct, the member and its value, unless each number lies in its range. A
// struct of options whose members are no options of a program (option_schema.h) lists its numbers
// here:
//
//   check_numbers("StepLR", {{"learning_rate", learning_rate, at_least(0)}});
void check_numbers(std::string_view owner, std::initializer_list<NumberRule> numbers);

}  // namespace tapegrad
