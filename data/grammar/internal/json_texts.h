#pragma once

#include <cstdint>
#include <string>
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

// How values are written where models write calls of functions.
enum class Notation {
  json,
  python,  // True, False and None; arguments of a call are f(a=1)
  gemma,   // {a:<escape>x<escape>}: bare names, marks around strings, no escapes, no white space
};
// The notation gemma has a text that begins with a character of ASCII on both sides of strings;
// `mark` is that text, in any way that tokens may have it.
struct Writing {
  Notation notation = Notation::json;
  std::string_view quote = {};
  Term mark = ByteTerms::kNothing;
};

// The pieces of JSON texts (RFC 8259) as terms. White space is nothing, one blank, or a line break
// and at most 32 blanks, behind { [ , and before } ]; nothing or one blank behind a colon; nothing
// elsewhere. So no text can go on with white space alone.
class JsonTexts {
 public:
  explicit JsonTexts(ByteTerms& terms) : JsonTexts(terms, Writing()) {}
  JsonTexts(ByteTerms& terms, const Writing& writing);

  // One character within a string, written in any way: by itself, as \n, \u00e9 or as \ud83d\ude00.
  // Python has no pairs of \u, so others than JSON are by themselves, or escaped if they must be;
  // Gemma has no character that begins the quote, but in any_string().
  Term any_char() const { return any_char_; }
  // One of some characters, by itself or, where JSON does not allow that, escaped.
  Term char_of(const CharRanges& ranges);

  Term quoted(Term inside) { return terms_.sequence({quote_, inside, quote_}); }
  Term any_string() const { return any_string_; }
  // The term of plain strings, for TokenTrie::plain(); kNothing of Gemma's, where quotes are
  // letters.
  Term plain_char() const { return notation_ == Notation::gemma ? ByteTerms::kNothing : any_char_; }
  Term number() const { return number_; }
  Term boolean() const { return boolean_; }
  Term null() const { return null_; }

  Term space() const { return space_; }
  Term colon() const { return colon_; }
  Term comma() const { return comma_; }
  // Brackets around what may be empty, or around `inside`, which is not.
  Term brackets(char open, Term inside, char close, bool may_be_empty);
  // Exactly this value, but for white space. `arguments`, here and below: the object is those of a
  // call.
  Term value(const Json& json, bool arguments = false);
  // That value without white space.
  std::string text_of(const Json& json, bool arguments = false) const;
  // True if each value but lists and objects is one text.
  bool has_texts() const { return notation_ != Notation::gemma; }
  // Any object, array or scalar, nested at most `depth` deep; any object.
  Term any_value(int depth);
  Term any_object(int depth);
  // Braces around entries, or parentheses of a call: see brackets().
  Term object(Term inside, bool may_be_empty, bool arguments = false);
  // Entries of an object: `key` is one of key() or any_key(), or a string with its quotes.
  Term entry(Term key, Term value, bool arguments = false);
  // A member's name; kNothing if it cannot be written.
  Term key(const std::string& name, bool arguments = false);
  Term any_key(bool arguments = false) { return bare(arguments) ? bare_key_ : any_string_; }
  // True if names have no quotes, so that they are those of kBareName alone.
  bool bare(bool arguments) const;
  static constexpr std::string_view kBareName = "^[A-Za-z_][A-Za-z0-9_]*$";
  // Any number of items, with commas between them.
  Term list(Term item, std::uint32_t least, std::uint32_t most);

 private:
  Term escaped_units();
  Term utf8(char32_t first, char32_t last);
  Term gemma_char();
  std::uint8_t first_of_quote() const { return static_cast<std::uint8_t>(quote_text_[0]); }
  Term listed(const std::vector<Term>& items);
  std::string key_text(const std::string& name, bool arguments) const;

  ByteTerms& terms_;
  Notation notation_;
  std::string_view quote_text_;
  Term quote_, space_, colon_, comma_, any_char_, any_string_, bare_key_, number_, boolean_, null_;
  std::vector<Term> any_values_;  // by their depth
};

}  // namespace tapegrad::data
