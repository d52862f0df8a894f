#pragma once

#include <string_view>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/grammar/internal/byte_terms.h"

namespace tapegrad::data {

// Characters by their code points, both ends included.
struct CharRange {
  char32_t first, last;
  bool operator==(const CharRange&) const = default;
};
using CharRanges = std::vector<CharRange>;  // ascending, apart from each other

// The characters that a string may have: all but U+0000 and surrogates.
const CharRanges& all_chars();

// The pieces of JSON texts (RFC 8259) as terms. White space is nothing, one blank, or a line break
// and at most 32 blanks, behind { [ , and before } ]; nothing or one blank behind a colon; nothing
// elsewhere. So no text can go on with white space alone.
class JsonTexts {
 public:
  explicit JsonTexts(ByteTerms& terms);

  // One character within a string, written in any way: by itself, as \n, \u00e9 or as \ud83d\ude00.
  Term any_char() const { return any_char_; }
  // One of some characters, by itself or, where JSON does not allow that, escaped.
  Term char_of(const CharRanges& ranges);

  Term quoted(Term inside) { return terms_.sequence({quote_, inside, quote_}); }
  Term any_string() const { return any_string_; }
  Term number() const { return number_; }
  Term boolean() const { return boolean_; }
  Term null() const { return null_; }

  Term space() const { return space_; }
  Term colon() const { return colon_; }
  Term comma() const { return comma_; }
  // Brackets around what may be empty, or around `inside`, which is not.
  Term brackets(char open, Term inside, char close, bool may_be_empty);
  // Exactly this value, but for white space.
  Term value(const Json& json);
  // Any object, array or scalar, nested at most `depth` deep; any object.
  Term any_value(int depth);
  Term any_object(int depth);
  // Entries of an object: `key` is a string with its quotes.
  Term entry(Term key, Term value) { return terms_.sequence({key, colon_, value}); }
  // Any number of items, with commas between them.
  Term list(Term item, std::uint32_t least, std::uint32_t most);

 private:
  Term escaped_units();
  Term utf8(char32_t first, char32_t last);
  Term listed(const std::vector<Term>& items);

  ByteTerms& terms_;
  Term quote_, space_, colon_, comma_, any_char_, any_string_, number_, boolean_, null_;
  std::vector<Term> any_values_;  // by their depth
};

}  // namespace tapegrad::data
