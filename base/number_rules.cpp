#include "tapegrad/base/internal/number_rules.h"

#include <cmath>
#include <string>

#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

std::string text_of(const NumberRange& r) {
  const bool bounded = r.most<kAnyNumber.most, begins = r.least> kAnyNumber.least;
  if (r.without_least && bounded) return fmt::format("between {} and {}", r.least, r.most);
  if (r.without_least) return fmt::format("above {}", r.least);
  if (r.without_most) return fmt::format("at least {} and below {}", r.least, r.most);
  if (bounded) return fmt::format("from {} to {}", r.least, r.most);
  return begins ? fmt::format("at least {}", r.least) : "finite";
}

}  // namespace

void check_numbers(std::string_view owner, std::initializer_list<NumberRule> numbers) {
  for (const auto& [member, value, range] : numbers) {
    const bool low = range.without_least ? value > range.least : value >= range.least;
    const bool high = range.without_most ? value < range.most : value <= range.most;
    if (low && high) continue;
    fail("[{}] {} must be {}, not {}", owner, member, text_of(range), value);
  }
}

}  // namespace tapegrad
