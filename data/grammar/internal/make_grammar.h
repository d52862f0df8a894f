#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/grammar/internal/grammar.h"
#include "tapegrad/data/grammar/json_schema.h"

namespace tapegrad::data {

// What a grammar's texts are, in terms that were made for it, and the characters of plain strings:
// see JsonTexts::plain_char().
struct GrammarStart {
  Term start, any_char;
};

// A grammar of the terms that `start_of(terms)` makes. Error if they are too many, or have no text.
// `whose`: "the schema".
template <class StartOf>
std::shared_ptr<const Grammar> make_grammar(const GrammarLimits& limits, std::string_view whose,
                                            const StartOf& start_of) {
  check(limits.depth >= 1 && limits.depth <= 64, "[json_schema] the depth is from 1 to 64, not {}",
        limits.depth);
  ByteTerms terms(limits.most_terms, limits.alphabet);
  try {
    const auto [start, any_char] = start_of(terms);
    check(start != ByteTerms::kNothing, "[json_schema] no text fits {}{}", whose,
          limits.alphabet.all() ? "" : " with the bytes that the vocabulary has");
    return std::make_shared<const Grammar>(
        Grammar{.terms = std::move(terms), .start = start, .any_char = any_char});
  } catch (const TermsFull& error) {
    fail("[json_schema] {} is too large: {}", whose, error.what());
  }
}

// A schema's text as a value. Error if it is no JSON, or too long or nested too deeply.
Json read_schema(std::string_view schema_json);

}  // namespace tapegrad::data
