#pragma once

#include <optional>
#include <string_view>

namespace tapegrad {

// Numbers from text, the same in every locale: "12", "-3", "0.5", "1e-3"; whole numbers in another
// base have no prefix. T is int, unsigned, int64_t, uint64_t or double.

// The number that the whole text is. Nothing for other text (a blank or a "+" before the number
// included), and for a number that T cannot hold.
template <class T>
std::optional<T> number_of(std::string_view text, int base = 10);

// A whole number as people write it: "12", "10_000", "1e3", "1.5e3". T is int, int64_t or uint64_t.
template <class T>
std::optional<T> whole_number_of(std::string_view text);

// The number that `text` begins with, which is taken off its beginning. Nothing, and `text` stays,
// if it does not begin with one that T can hold.
template <class T>
std::optional<T> take_number(std::string_view& text, int base = 10);

}  // namespace tapegrad
