// Finds schemas that exclude each other, as oneOf needs it.

#include <algorithm>

#include "tapegrad/data/grammar/schema/internal/schema_facts.h"

namespace tapegrad::data {
namespace {

// True if all values of one are refused by the other. Objects and lists are not compared.
bool values_outside(const SchemaFacts& facts, const SchemaFacts& other) {
  return facts.values && std::ranges::all_of(*facts.values, [&](const Json& value) {
           if ((type_of(value) & other.types) == 0) return true;
           return other.values && !value.is_structured() &&
                  std::ranges::find(*other.values, value) == other.values->end();
         });
}

bool exclude_at_depth(SchemaReader& reader, const SchemaPlaces& a, const SchemaPlaces& b,
                      int depth);

// True if an object must have a member that the other schema refuses.
bool member_excludes(SchemaReader& reader, const SchemaFacts& facts, const SchemaFacts& other,
                     int depth) {
  return std::ranges::any_of(facts.members, [&](const SchemaFacts::Member& member) {
    if (!member.required) return false;
    const auto same = std::ranges::find(other.members, member.name, &SchemaFacts::Member::name);
    if (same != other.members.end()) {
      return exclude_at_depth(reader, member.value, same->value, depth);
    }
    return other.additional && exclude_at_depth(reader, member.value, *other.additional, depth);
  });
}

bool exclude_at_depth(SchemaReader& reader, const SchemaPlaces& a, const SchemaPlaces& b,
                      int depth) {
  const SchemaFacts x = reader.facts_of(a), y = reader.facts_of(b);
  const unsigned shared = x.types & y.types;
  if (shared == 0 || values_outside(x, y) || values_outside(y, x)) return true;
  return shared == kObject && depth > 0 &&
         (member_excludes(reader, x, y, depth - 1) || member_excludes(reader, y, x, depth - 1));
}

}  // namespace

bool exclude_each_other(SchemaReader& reader, const SchemaPlaces& a, const SchemaPlaces& b) {
  return exclude_at_depth(reader, a, b, 3);
}

}  // namespace tapegrad::data
