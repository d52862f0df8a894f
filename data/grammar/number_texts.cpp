#include "tapegrad/data/grammar/internal/number_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

namespace tapegrad::data {
namespace {

Term digits(ByteTerms& terms, int first, int last) {
  if (first > last) return ByteTerms::kNothing;
  return terms.range(static_cast<std::uint8_t>('0' + first), static_cast<std::uint8_t>('0' + last));
}

// Whole numbers of equally many digits between two of them: digit by digit, with the remainder of
// those so far, and whether they are those of a bound.
class WholeNumbers {
 public:
  WholeNumbers(ByteTerms& terms, std::int64_t multiple) : terms_(terms), multiple_(multiple) {}

  Term between(std::int64_t least, std::int64_t most) {
    std::vector<Term> ways;
    std::int64_t first = 0, last = 9;  // of one digit, then of two, …
    for (int length = 1; length <= kMostDigits; ++length) {
      const std::int64_t from = std::max(least, first), to = std::min(most, last);
      if (from <= to) {
        low_ = fmt::format("{}", from);
        high_ = fmt::format("{}", to);
        bounded_.clear();
        ways.push_back(rest(0, 0, true, true));
      }
      first = last + 1;
      last = last * 10 + 9;
    }
    return terms_.either(std::move(ways));
  }

 private:
  Term rest(std::size_t place, std::int64_t remainder, bool at_low, bool at_high) {
    const std::size_t left = low_.size() - place;
    if (left == 0) return remainder == 0 ? ByteTerms::kEmpty : ByteTerms::kNothing;
    auto& known = at_low || at_high ? bounded_ : free_;
    const auto key = std::tuple(left, remainder, at_low, at_high);
    if (const auto found = known.find(key); found != known.end()) return found->second;
    const int from = at_low ? low_[place] - '0' : 0, to = at_high ? high_[place] - '0' : 9;
    std::map<Term, ByteSet> digits_before;  // digits that lead to the same
    for (int digit = from; digit <= to; ++digit) {
      const Term next = rest(place + 1, (remainder * 10 + digit) % multiple_,
                             at_low && digit == from, at_high && digit == to);
      digits_before[next].set(static_cast<std::size_t>('0' + digit));
    }
    std::vector<Term> ways;
    for (const auto& [next, set] : digits_before) {
      ways.push_back(terms_.sequence(terms_.bytes(set), next));
    }
    return known[key] = terms_.either(std::move(ways));
  }

  using Known = std::map<std::tuple<std::size_t, std::int64_t, bool, bool>, Term>;
  ByteTerms& terms_;
  std::int64_t multiple_;
  std::string low_, high_;
  Known bounded_, free_;
};

// A decimal of 0 or more: its whole part and the digits behind the point.
struct Decimal {
  std::int64_t whole;
  std::string fraction;
};

// Error if it takes more digits than `places` behind the point.
Decimal decimal_of(double value, std::size_t places) {
  const std::string text = fmt::format("{:.{}f}", std::abs(value), places);
  check(std::stod(text) == std::abs(value), "{} has more than {} digits", value, kMostDigits);
  const auto point = std::min(text.find('.'), text.size());
  return {std::stoll(text.substr(0, point)), places == 0 ? "" : text.substr(point + 1)};
}

// A side of the decimals of 0 or more.
struct Side {
  Decimal decimal;
  bool excluded;
};

// Decimals of 0 or more with at most `places` digits behind the point.
class Decimals {
 public:
  Decimals(ByteTerms& terms, std::size_t places) : terms_(terms), places_(places) {
    const Term digit = digits(terms, 0, 9);
    any_fraction_ =
        places == 0
            ? ByteTerms::kEmpty
            : terms.optional(terms.sequence(
                  terms.byte('.'), terms.repeat(digit, 1, static_cast<std::uint32_t>(places))));
  }

  Term between(const Side& low, const Side& high) {
    const std::int64_t first = low.decimal.whole, last = high.decimal.whole;
    if (first > last) return ByteTerms::kNothing;
    if (first == last) return with(first, fraction(&low, &high));
    return terms_.either(
        {with(first, fraction(&low, nullptr)), with(last, fraction(nullptr, &high)),
         last - first < 2
             ? ByteTerms::kNothing
             : terms_.sequence(whole_numbers(terms_, first + 1, last - 1, 1), any_fraction_)});
  }

 private:
  Term with(std::int64_t whole, Term fraction) {
    return terms_.sequence(terms_.text(fmt::format("{}", whole)), fraction);
  }

  // Nothing, or a point and digits; a side that is null does not bound them.
  Term fraction(const Side* low, const Side* high) {
    low_ = low;
    high_ = high;
    const bool may_end = fits_as_it_is(0, low != nullptr, high != nullptr);
    const Term digits_behind = behind_point(0, low != nullptr, high != nullptr);
    return terms_.either({may_end ? ByteTerms::kEmpty : ByteTerms::kNothing,
                          terms_.sequence(terms_.byte('.'), digits_behind)});
  }

  // True if the digits may end here, so that the others are 0.
  bool fits_as_it_is(std::size_t place, bool at_low, bool at_high) const {
    const auto zeros = [&](const Side* side) {
      return side->decimal.fraction.find_first_not_of('0', place) == std::string::npos;
    };
    return !(at_low && (!zeros(low_) || low_->excluded)) &&
           !(at_high && zeros(high_) && high_->excluded);
  }

  // One digit or more.
  Term behind_point(std::size_t place, bool at_low, bool at_high) {
    if (place == places_) return ByteTerms::kNothing;
    const int from = at_low ? low_->decimal.fraction[place] - '0' : 0;
    const int to = at_high ? high_->decimal.fraction[place] - '0' : 9;
    const auto behind = [&](int first, int last, bool stays_low, bool stays_high) {
      const bool may_end = fits_as_it_is(place + 1, stays_low, stays_high);
      const Term more = !stays_low && !stays_high ? free_digits(places_ - place - 1)
                                                  : behind_point(place + 1, stays_low, stays_high);
      return terms_.sequence(
          digits(terms_, first, last),
          terms_.either({may_end ? ByteTerms::kEmpty : ByteTerms::kNothing, more}));
    };
    if (from > to) return ByteTerms::kNothing;
    if (from == to) return behind(from, from, at_low, at_high);
    std::vector<Term> ways = {behind(from + at_low, to - at_high, false, false)};
    if (at_low) ways.push_back(behind(from, from, true, false));
    if (at_high) ways.push_back(behind(to, to, false, true));
    return terms_.either(std::move(ways));
  }

  Term free_digits(std::size_t most) {
    return terms_.repeat(digits(terms_, 0, 9), 0, static_cast<std::uint32_t>(most));
  }

  ByteTerms& terms_;
  std::size_t places_;
  Term any_fraction_;
  const Side *low_ = nullptr, *high_ = nullptr;
};

// How many digits a bound has before the point.
std::size_t whole_digits(const std::optional<NumberBound>& bound) {
  if (!bound || std::abs(bound->value) < 1) return 0;
  return fmt::format("{:.0f}", std::floor(std::abs(bound->value))).size();
}

// A bound beyond the numbers that are written at all is none.
std::optional<NumberBound> usable(const std::optional<NumberBound>& bound, double sign) {
  if (!bound || sign * bound->value > static_cast<double>(kMostWhole)) return std::nullopt;
  return bound;
}

}  // namespace

Term whole_numbers(ByteTerms& terms, std::int64_t least, std::int64_t most, std::int64_t multiple) {
  if (least > most) return ByteTerms::kNothing;
  WholeNumbers numbers(terms, multiple);
  std::vector<Term> ways;
  if (most >= 0) ways.push_back(numbers.between(std::max<std::int64_t>(least, 0), most));
  if (least < 0) {
    ways.push_back(
        terms.sequence(terms.byte('-'), numbers.between(std::max<std::int64_t>(1, -most), -least)));
  }
  return terms.either(std::move(ways));
}

Term decimals(ByteTerms& terms, const std::optional<NumberBound>& least,
              const std::optional<NumberBound>& most) {
  const auto low = usable(least, -1), high = usable(most, 1);
  const double beyond = static_cast<double>(kMostWhole) + 1;
  if ((low && low->value >= beyond) || (high && high->value <= -beyond)) {
    return ByteTerms::kNothing;
  }
  const std::size_t places = kMostDigits - std::max(whole_digits(low), whole_digits(high));
  const auto side = [&](const NumberBound& bound) {
    return Side{decimal_of(bound.value, places), bound.excluded};
  };
  const Side zero = side({0, false}), above_zero = side({0, true}), limit = side({beyond, true});
  Decimals numbers(terms, places);
  std::vector<Term> ways;
  if (!high || high->value >= 0) {
    ways.push_back(
        numbers.between(low && low->value >= 0 ? side(*low) : zero, high ? side(*high) : limit));
  }
  if (!low || low->value < 0) {
    ways.push_back(terms.sequence(
        terms.byte('-'), numbers.between(high && high->value < 0 ? side(*high) : above_zero,
                                         low ? side(*low) : limit)));
  }
  return terms.either(std::move(ways));
}

}  // namespace tapegrad::data
