#pragma once

#include <cstdint>
#include <optional>

#include "tapegrad/data/grammar/internal/byte_terms.h"

namespace tapegrad::data {

// Whole numbers as they are written here have at most so many digits: each is then a double of its
// own.
inline constexpr int kMostDigits = 15;
inline constexpr std::int64_t kMostWhole = 999'999'999'999'999;

// Whole numbers from `least` to `most`, both within ±kMostWhole, that are multiples of `multiple`.
Term whole_numbers(ByteTerms& terms, std::int64_t least, std::int64_t most, std::int64_t multiple);

struct NumberBound {
  double value;
  bool excluded;  // the bound itself
};
// Decimals between two bounds, if there are any, without an exponent. They have as many digits
// behind the point as keep them apart from the bounds as doubles. Error for a bound that is not a
// decimal of 15 digits.
Term decimals(ByteTerms& terms, const std::optional<NumberBound>& least,
              const std::optional<NumberBound>& most);

}  // namespace tapegrad::data
