#include "tapegrad/data/grammar/schema/internal/schema_terms.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/data/grammar/schema/internal/string_formats.h"

namespace tapegrad::data {
namespace {

constexpr int kMostNested = 200;              // schemas within each other, with what $ref leads to
constexpr std::size_t kMostUniqueValues = 8;  // of items that differ

}  // namespace

Term SchemaTerms::term_of(const SchemaPlaces& places, int level, const References& followed) {
  Key key{{}, level};
  for (const SchemaPlace& place : places) {
    key.first.emplace_back(place.schema, place.without_unions);
  }
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const std::string path = places.empty() ? "#" : places[0].path;
  if (nesting_ >= kMostNested) fail("[json_schema] {}: schemas are nested too deeply", path);
  ++nesting_;
  const Term term = new_term(places, level, followed);
  --nesting_;
  return known_[key] = term;
}

// A reference to what is being made already leads one level deeper; behind the last one is nothing.
Term SchemaTerms::new_term(const SchemaPlaces& places, int level, const References& followed) {
  if (places.empty()) return json_.any_value(limits_.depth);
  const SchemaFacts facts = reader_.facts_of(places);
  References all = followed;
  std::vector<std::string> new_ones;
  bool again = false;
  for (const std::string& reference : facts.references) {
    if (!all.insert(reference).second) continue;
    again |= active_.count(reference) > 0;
    new_ones.push_back(reference);
  }
  if (again && ++level > limits_.depth) return ByteTerms::kNothing;
  for (const std::string& reference : new_ones) active_.insert(reference);
  const Term term =
      facts.unions.empty() ? of_types(facts, level) : of_unions(places, facts, level, all);
  for (const std::string& reference : new_ones) active_.erase(active_.find(reference));
  return term;
}

// One branch of each union, in all ways.
Term SchemaTerms::of_unions(const SchemaPlaces& places, const SchemaFacts& facts, int level,
                            const References& followed) {
  check_exclusive(places, facts);
  SchemaPlaces base = places;
  for (SchemaPlace& place : base) place.without_unions = true;
  std::vector<SchemaPlaces> ways = {base};
  for (const SchemaFacts::Union& choice : facts.unions) {
    std::vector<SchemaPlaces> longer;
    for (const SchemaPlaces& way : ways) {
      for (const SchemaPlace& branch : choice.branches) {
        longer.push_back(way);
        longer.back().push_back(branch);
      }
    }
    ways = std::move(longer);
    if (ways.size() > 10'000) refuse_schema(facts.path, "anyOf", "has too many combinations");
  }
  std::vector<Term> terms;
  for (const SchemaPlaces& way : ways) terms.push_back(term_of(way, level, followed));
  return terms_.either(std::move(terms));
}

void SchemaTerms::check_exclusive(const SchemaPlaces& places, const SchemaFacts& facts) {
  SchemaPlaces base = places;
  for (SchemaPlace& place : base) place.without_unions = true;
  const auto with = [&](const SchemaPlace& branch) {
    SchemaPlaces both = base;
    both.push_back(branch);
    return both;
  };
  for (const SchemaFacts::Union& choice : facts.unions) {
    if (!choice.exclusive) continue;
    for (std::size_t i = 0; i < choice.branches.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (exclude_each_other(reader_, with(choice.branches[j]), with(choice.branches[i]))) {
          continue;
        }
        refuse_schema(facts.path, "oneOf",
                      fmt::format("has branches, {} and {}, that may both fit; say anyOf, or give "
                                  "them different types or a required member of different values",
                                  j, i));
      }
    }
  }
}

Term SchemaTerms::of_types(const SchemaFacts& facts, int level) {
  if (facts.values) return of_values(values_of(facts, level), facts.arguments);
  const unsigned types = facts.made_types();
  if (types == kAnyType && facts.plain) return json_.any_value(limits_.depth);
  std::vector<Term> ways;
  if ((types & kNull) != 0) ways.push_back(json_.null());
  if ((types & kBoolean) != 0) ways.push_back(json_.boolean());
  if ((types & (kWhole | kFraction)) != 0) {
    SchemaFacts numbers = facts;
    numbers.types = types;
    ways.push_back(number_of(numbers));
  }
  if ((types & kString) != 0) ways.push_back(string_of(facts));
  if ((types & kArray) != 0) ways.push_back(array_of(facts, level));
  if ((types & kObject) != 0) ways.push_back(object_of(facts, level));
  return terms_.either(std::move(ways));
}

// Of those that a schema lists, the ones that fit what else it says.
std::vector<Json> SchemaTerms::values_of(const SchemaFacts& facts, int level) {
  std::vector<Json> values = *facts.values;
  std::erase_if(values, [&](const Json& value) { return (type_of(value) & facts.types) == 0; });
  if (facts.plain) return values;
  SchemaFacts others = facts;
  others.values.reset();
  others.hinted = 0;
  const Term term = of_types(others, level);
  std::erase_if(values, [&](const Json& value) {
    return !terms_.may_end(terms_.after(term, json_.text_of(value, facts.arguments)));
  });
  return values;
}

Term SchemaTerms::of_values(const std::vector<Json>& values, bool arguments) {
  std::vector<std::string> texts;
  std::vector<Term> ways;
  for (const Json& value : values) {
    if (value.is_structured() || !json_.has_texts()) {
      ways.push_back(json_.value(value, arguments));
    } else {
      texts.push_back(json_.text_of(value));
    }
  }
  std::vector<ByteTerms::Followed> followed;
  for (const std::string& text : texts) followed.push_back({text, ByteTerms::kEmpty});
  if (!followed.empty()) ways.push_back(terms_.texts(std::move(followed)));
  return terms_.either(std::move(ways));
}

Term SchemaTerms::string_of(const SchemaFacts& facts) {
  if (facts.patterns.empty() && facts.formats.empty()) {
    if (facts.min_length == 0 && facts.max_length == ByteTerms::kEndless) return json_.any_string();
    return json_.quoted(terms_.repeat(json_.any_char(), facts.min_length, facts.max_length));
  }
  std::vector<CharAutomaton> automata;
  for (const std::string& format : facts.formats) {
    const std::string_view pattern = pattern_of_format(format);
    if (pattern.empty() && !facts.patterns.empty() && is_said_by_pattern(format)) continue;
    if (pattern.empty()) refuse_schema(facts.path, "format", "\"" + format + "\" is not supported");
    automata.push_back(automaton_of_pattern(pattern, work_));
  }
  try {
    for (const std::string& pattern : facts.patterns) {
      automata.push_back(automaton_of_pattern(pattern, work_));
    }
    if (facts.min_length > 0 || facts.max_length != ByteTerms::kEndless) {
      automata.push_back(automaton_of_lengths(facts.min_length, facts.max_length, work_));
    }
    CharAutomaton all = std::move(automata[0]);
    for (std::size_t i = 1; i < automata.size(); ++i) all = both(all, automata[i], work_);
    return json_.quoted(tapegrad::data::term_of(all, terms_, json_));
  } catch (const TermsFull&) {
    throw;
  } catch (const Error& error) {
    refuse_schema(facts.path, "pattern", error.what());
  }
}

Term SchemaTerms::number_of(const SchemaFacts& facts) {
  const bool whole = (facts.types & kFraction) == 0 || facts.multiple;
  if (!whole) {
    if (!facts.least && !facts.most) return json_.number();
    try {
      return decimals(terms_, facts.least, facts.most);
    } catch (const TermsFull&) {
      throw;
    } catch (const Error& error) {
      refuse_schema(facts.path, "minimum or maximum", error.what());
    }
  }
  // The whole number next to a bound, from inside.
  const auto next = [](const std::optional<NumberBound>& bound, double sign) {
    const double most = static_cast<double>(kMostWhole);
    if (!bound) return static_cast<std::int64_t>(sign * most);
    const double value = sign * bound->value;
    const double inside = std::floor(value) - (bound->excluded && std::floor(value) == value);
    return static_cast<std::int64_t>(sign * std::clamp(inside, -most - 1, most));
  };
  return whole_numbers(terms_, std::max(next(facts.least, -1), -kMostWhole), next(facts.most, 1),
                       static_cast<std::int64_t>(facts.multiple.value_or(1)));
}

Term SchemaTerms::array_of(const SchemaFacts& facts, int level) {
  if (facts.unique && facts.max_items > 1) return unique_array_of(facts, level);
  const auto n =
      static_cast<std::uint32_t>(std::min<std::size_t>(facts.prefix.size(), facts.max_items));
  const bool asked = !facts.items.empty() || facts.min_items > n || facts.prefix.empty();
  const Term item = asked ? part(facts.items, level) : ByteTerms::kNothing;
  const std::uint32_t more =
      facts.max_items == ByteTerms::kEndless ? facts.max_items : facts.max_items - n;
  const std::uint32_t least = facts.min_items > n ? facts.min_items - n : 0;
  const bool may_be_empty = facts.min_items == 0;
  if (n == 0) return json_.brackets('[', json_.list(item, least, more), ']', may_be_empty);
  Term rest = terms_.repeat(terms_.sequence(json_.comma(), item), least, more);
  for (std::uint32_t i = n; i-- > 0;) {
    const Term comma = i == 0 ? ByteTerms::kEmpty : json_.comma();
    const Term next = terms_.sequence({comma, part(facts.prefix[i], level), rest});
    rest = i > 0 && i >= facts.min_items ? terms_.optional(next) : next;
  }
  return json_.brackets('[', rest, ']', may_be_empty);
}

// Which values there were is a part of the state, so there can be only a few of them.
Term SchemaTerms::unique_array_of(const SchemaFacts& facts, int level) {
  const auto refuse = [&] {
    refuse_schema(facts.path, "uniqueItems",
                  fmt::format("is supported for items of an enum of at most {} values alone",
                              kMostUniqueValues));
  };
  if (!facts.prefix.empty() || facts.items.empty()) refuse();
  const SchemaFacts items = reader_.facts_of(facts.items);
  if (!items.values || !items.unions.empty()) refuse();
  std::vector<Term> values;
  for (const Json& value : values_of(items, level)) values.push_back(json_.value(value));
  if (values.size() > kMostUniqueValues) refuse();
  std::vector<Term> behind(std::size_t{1} << values.size());  // by the values that were
  for (std::size_t used = behind.size(); used-- > 0;) {
    const auto count = static_cast<std::uint32_t>(std::bitset<kMostUniqueValues>(used).count());
    std::vector<Term> ways;
    if (count >= facts.min_items && count > 0) ways.push_back(ByteTerms::kEmpty);
    for (std::size_t i = 0; i < values.size() && count < facts.max_items; ++i) {
      if ((used >> i & 1) != 0) continue;
      ways.push_back(terms_.sequence({count == 0 ? ByteTerms::kEmpty : json_.comma(), values[i],
                                      behind[used | std::size_t{1} << i]}));
    }
    behind[used] = terms_.either(std::move(ways));
  }
  return json_.brackets('[', behind[0], ']', facts.min_items == 0);
}

// How many members there may be that are not listed.
std::pair<std::uint32_t, std::uint32_t> SchemaTerms::others_of(const SchemaFacts& facts) const {
  const bool others = facts.additional || !facts.has_properties;
  const auto listed = static_cast<std::uint32_t>(facts.members.size());
  const auto required = static_cast<std::uint32_t>(
      std::ranges::count_if(facts.members, &SchemaFacts::Member::required));
  const bool bounded = facts.max_properties != ByteTerms::kEndless;
  if (facts.min_properties > required &&
      (listed > required || facts.min_properties > required + 1)) {
    refuse_schema(facts.path, "minProperties",
                  "is supported up to one more than the required members, if all are required");
  }
  if (bounded && listed > required && (others || facts.max_properties < listed)) {
    refuse_schema(facts.path, "maxProperties", "beside optional members is not supported");
  }
  if (!others) return {facts.min_properties > required ? 1 : 0, 0};
  const std::uint32_t least = facts.min_properties > required ? 1 : 0;
  if (!bounded) return {least, ByteTerms::kEndless};
  // Fewer than are required: no object fits.
  return facts.max_properties < required ? std::pair(1U, 0U)
                                         : std::pair(least, facts.max_properties - required);
}

// Names that are not among the members.
Term SchemaTerms::other_key_of(const SchemaFacts& facts) {
  if (facts.members.empty()) return json_.any_key(facts.arguments);
  std::vector<std::string> names;
  std::size_t bytes = 0;
  for (const auto& member : facts.members) {
    names.push_back(member.name);
    bytes += member.name.size();
  }
  if (bytes > CharAutomaton::kMostStates) {
    refuse_schema(facts.path, "additionalProperties", "beside so many long names is not supported");
  }
  CharAutomaton others = automaton_without(names);
  if (!json_.bare(facts.arguments)) {
    return json_.quoted(tapegrad::data::term_of(others, terms_, json_));
  }
  const CharAutomaton bare = automaton_of_pattern(JsonTexts::kBareName, work_);
  return tapegrad::data::term_of(both(others, bare, work_), terms_, json_);
}

Term SchemaTerms::object_of(const SchemaFacts& facts, int level) {
  const auto [least, most] = others_of(facts);
  Term others = ByteTerms::kNothing;
  if (most > 0) {
    const Term value = part(facts.additional.value_or(SchemaPlaces{}), level);
    others = json_.entry(other_key_of(facts), value, facts.arguments);
  }
  if (least > most) return ByteTerms::kNothing;
  // The texts behind earlier members, of which there are some, and those without any.
  Term behind = terms_.repeat(terms_.sequence(json_.comma(), others), least, most);
  Term first = json_.list(others, std::max(least, 1U), most);
  bool may_be_empty = least == 0;
  for (auto member = facts.members.rbegin(); member != facts.members.rend(); ++member) {
    const Term value = part(member->value, level);
    const Term entry =
        json_.entry(json_.key(member->name, facts.arguments), value, facts.arguments);
    const Term rest = terms_.sequence(entry, behind);
    first = member->required ? rest : terms_.either({rest, first});
    const Term next = terms_.sequence(json_.comma(), rest);
    behind = member->required ? next : terms_.either({next, behind});
    may_be_empty &= !member->required;
  }
  return json_.object(first, may_be_empty, facts.arguments);
}

}  // namespace tapegrad::data
