#pragma once

#include <bitset>
#include <cstddef>
#include <memory>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

struct Grammar;

struct GrammarLimits {
  // How deep values of any kind nest where a schema does not say what they are, and how often a
  // $ref may lead into itself.
  int depth = 16;
  std::size_t most_terms = 400'000;  // about 50 bytes each
  // Bytes that texts may have: those of the tokens of a vocabulary that has not all 256 of them.
  std::bitset<256> alphabet = std::bitset<256>().set();
};

// The JSON texts that fit a JSON Schema (drafts 4 to 2020-12, as far as they agree), as a grammar
// over bytes of UTF-8. It has fewer texts than the schema, and none that does not fit:
// - members of an object are in the order of "properties", and no others come behind them unless
//   "additionalProperties" asks for them or there are no "properties";
// - white space is that of JsonTexts: none, one blank, or a line break and blanks;
// - numbers have at most 15 digits before and 15 behind the point, whole ones no exponent.
// Each text that the grammar has begun can be completed.
//
// Error, with the place in the schema and the keyword, for what is broken, what is not supported,
// and what no text fits. docs/structured-output.md has the list of keywords.
std::shared_ptr<const Grammar> compile_schema(std::string_view schema_json,
                                              const GrammarLimits& limits = {});
// Any JSON object.
std::shared_ptr<const Grammar> json_object_grammar(const GrammarLimits& limits = {});

// Follows one text, byte by byte.
class GrammarState {
 public:
  explicit GrammarState(const std::shared_ptr<const Grammar>& grammar);
  ~GrammarState();
  GrammarState(const GrammarState&) = delete;
  GrammarState& operator=(const GrammarState&) = delete;

  // True if the text may go on with these bytes. If not, it stays as it was.
  bool accept(std::string_view bytes);
  // True if the text may end here.
  bool complete() const;

 private:
  struct Position;
  std::unique_ptr<Position> position_;
};

}  // namespace tapegrad::data
