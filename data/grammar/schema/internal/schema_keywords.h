#pragma once

#include <string>
#include <string_view>

#include "tapegrad/data/grammar/schema/internal/schema_facts.h"

namespace tapegrad::data {

// One schema while its keywords are added to the facts.
struct Adding {
  const SchemaPlace& place;
  const Json& schema;
  SchemaFacts& facts;

  const Json* find(const char* keyword) const {
    const auto found = schema.find(keyword);
    return found == schema.end() ? nullptr : &*found;
  }
  SchemaPlace below(const Json& part, const std::string& steps) const {
    return {&part, place.path + "/" + steps};
  }
};

// Adds the facts of a keyword's value. `keyword` is its name.
using AddKeyword = void (*)(const Adding& to, const std::string& keyword, const Json& value);

struct Keyword {
  AddKeyword add;
  unsigned about = 0;  // types that it speaks of
};

// The keyword of a name; null if there is none.
const Keyword* find_keyword(const std::string& name);
// Words for people and other programs, which ask nothing of a value.
bool is_annotation(std::string_view keyword);
SchemaPlaces list_of(const Adding& to, const std::string& keyword, const Json& value);

}  // namespace tapegrad::data
