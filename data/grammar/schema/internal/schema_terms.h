#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/data/grammar/internal/char_automaton.h"
#include "tapegrad/data/grammar/internal/json_texts.h"
#include "tapegrad/data/grammar/json_schema.h"
#include "tapegrad/data/grammar/schema/internal/schema_facts.h"

namespace tapegrad::data {

// Makes terms of schemas.
class SchemaTerms {
 public:
  // `work`: of all schemas of a grammar together.
  SchemaTerms(const Json& root, ByteTerms& terms, JsonTexts& json, const GrammarLimits& limits,
              PatternWork& work)
      : root_(root), terms_(terms), json_(json), limits_(limits), reader_(root), work_(work) {}

  Term whole_schema() { return term_of({{&root_, "#"}}, 0, {}); }
  // Objects that fit it, as the arguments of a call.
  Term whole_arguments() { return term_of({{&root_, "#"}, {&object_, "#", false, true}}, 0, {}); }

 private:
  using References = std::set<std::string>;

  Term term_of(const SchemaPlaces& places, int level, const References& followed);
  Term new_term(const SchemaPlaces& places, int level, const References& followed);
  Term of_unions(const SchemaPlaces& places, const SchemaFacts& facts, int level,
                 const References& followed);
  void check_exclusive(const SchemaPlaces& places, const SchemaFacts& facts);
  Term of_types(const SchemaFacts& facts, int level);
  std::vector<Json> values_of(const SchemaFacts& facts, int level);
  Term of_values(const std::vector<Json>& values, bool arguments);
  Term string_of(const SchemaFacts& facts);
  Term number_of(const SchemaFacts& facts);
  Term array_of(const SchemaFacts& facts, int level);
  Term unique_array_of(const SchemaFacts& facts, int level);
  Term object_of(const SchemaFacts& facts, int level);
  Term other_key_of(const SchemaFacts& facts);
  std::pair<std::uint32_t, std::uint32_t> others_of(const SchemaFacts& facts) const;
  // A part of a value, whose own references are yet to be followed.
  Term part(const SchemaPlaces& places, int level) { return term_of(places, level, {}); }

  const Json& root_;
  ByteTerms& terms_;
  JsonTexts& json_;
  const GrammarLimits& limits_;
  SchemaReader reader_;
  PatternWork& work_;
  const Json object_ = {{"type", "object"}};
  std::multiset<std::string> active_;  // references that lead to what is being made
  int nesting_ = 0;
  using Key = std::pair<std::vector<std::pair<const Json*, bool>>, int>;
  std::map<Key, Term> known_;
};

}  // namespace tapegrad::data
