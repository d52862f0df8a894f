#include "tapegrad/data/grammar/schema/internal/schema_keywords.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace tapegrad::data {
namespace {

constexpr std::size_t kMostValues = 2000, kMostMembers = 1000;

[[noreturn]] void refuse(const Adding& at, const std::string& keyword, std::string_view why) {
  refuse_schema(at.place.path, keyword, why);
}

unsigned named_type(const Adding& to, const Json& name) {
  static const std::map<std::string, unsigned> kTypes = {
      {"null", kNull},     {"boolean", kBoolean},
      {"integer", kWhole}, {"number", kWhole | kFraction},
      {"string", kString}, {"array", kArray},
      {"object", kObject}};
  const auto found = name.is_string() ? kTypes.find(name.get<std::string>()) : kTypes.end();
  if (found == kTypes.end()) refuse(to, "type", "is no type of JSON's");
  return found->second;
}

void add_type(const Adding& to, const std::string& keyword, const Json& value) {
  unsigned types = 0;
  if (value.is_array()) {
    for (const Json& name : value) types |= named_type(to, name);
  } else {
    types = named_type(to, value);
  }
  if (const Json* nullable = to.find("nullable"); nullable != nullptr && *nullable == Json(true)) {
    types |= kNull;
  }
  if (types == 0) refuse(to, keyword, "has no type in it");
  to.facts.types &= types;
}

void restrict_values(SchemaFacts& facts, const std::vector<Json>& values) {
  std::set<Json> known, seen;  // a schema's list may be read again and again
  if (facts.values) known.insert(facts.values->begin(), facts.values->end());
  std::vector<Json> both;
  for (const Json& value : values) {
    if (seen.insert(value).second && (!facts.values || known.contains(value))) {
      both.push_back(value);
    }
  }
  facts.values = std::move(both);
}

void add_enum(const Adding& to, const std::string& keyword, const Json& value) {
  if (!value.is_array() || value.empty()) refuse(to, keyword, "must be a list of values");
  if (value.size() > kMostValues)
    refuse(to, keyword, fmt::format("has more than {} values", kMostValues));
  restrict_values(to.facts, {value.begin(), value.end()});
}
void add_const(const Adding& to, const std::string&, const Json& value) {
  restrict_values(to.facts, {value});
}

double number_of(const Adding& to, const std::string& keyword, const Json& value) {
  if (!value.is_number()) refuse(to, keyword, "must be a number");
  return value.get<double>();
}

// The narrower one of two bounds. `sign` is 1 for lower ones.
void narrow(std::optional<NumberBound>& bound, const NumberBound& other, double sign) {
  const bool narrower = !bound || sign * other.value > sign * bound->value ||
                        (other.value == bound->value && other.excluded);
  if (narrower) bound = other;
}

// Older drafts have true or false for the excluded ones, which is then said of the others.
template <bool lower>
void add_bound(const Adding& to, const std::string& keyword, const Json& value) {
  const Json* excluded = to.find(lower ? "exclusiveMinimum" : "exclusiveMaximum");
  const bool is_excluded = excluded != nullptr && *excluded == Json(true);
  narrow(lower ? to.facts.least : to.facts.most, {number_of(to, keyword, value), is_excluded},
         lower ? 1 : -1);
}
template <bool lower>
void add_excluded_bound(const Adding& to, const std::string& keyword, const Json& value) {
  if (value.is_boolean()) return;
  narrow(lower ? to.facts.least : to.facts.most, {number_of(to, keyword, value), true},
         lower ? 1 : -1);
}

void add_multiple(const Adding& to, const std::string& keyword, const Json& value) {
  const double multiple = number_of(to, keyword, value);
  if (to.facts.multiple && *to.facts.multiple != multiple) {
    refuse(to, keyword, "is asked for twice, of two numbers");
  }
  if (multiple != std::floor(multiple) || multiple < 1 || multiple > 1000) {
    refuse(to, keyword, "is supported of whole numbers from 1 to 1000 alone");
  }
  to.facts.multiple = multiple;
}

std::uint32_t count_of(const Adding& to, const std::string& keyword, const Json& value) {
  const double count = number_of(to, keyword, value);
  if (count != std::floor(count) || count < 0) refuse(to, keyword, "must be a count");
  return static_cast<std::uint32_t>(std::min(count, 1e9));
}
template <auto member>
void add_least(const Adding& to, const std::string& keyword, const Json& value) {
  to.facts.*member = std::max(to.facts.*member, count_of(to, keyword, value));
}
template <auto member>
void add_most(const Adding& to, const std::string& keyword, const Json& value) {
  to.facts.*member = std::min(to.facts.*member, count_of(to, keyword, value));
}

template <auto member>
void add_text(const Adding& to, const std::string& keyword, const Json& value) {
  if (!value.is_string()) refuse(to, keyword, "must be a text");
  const auto text = value.get<std::string>();
  std::vector<std::string>& texts = to.facts.*member;
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
}

// Items of one schema at places that another has no prefix for fit its `items`.
void add_items(const Adding& to, const SchemaPlaces& prefix, const SchemaPlaces& items) {
  SchemaFacts& facts = to.facts;
  const std::size_t length = std::max(prefix.size(), facts.prefix.size());
  facts.prefix.resize(length, facts.items);
  for (std::size_t i = 0; i < length; ++i) {
    const SchemaPlaces& more = i < prefix.size() ? SchemaPlaces{prefix[i]} : items;
    facts.prefix[i].insert(facts.prefix[i].end(), more.begin(), more.end());
  }
  facts.items.insert(facts.items.end(), items.begin(), items.end());
}

// Draft 2020-12 has prefixItems and items; older ones, items as a list and additionalItems.
void add_array(const Adding& to, const std::string& keyword, const Json&) {
  const Json* prefix = to.find("prefixItems");
  const Json* items = to.find("items");
  if (keyword == "items" && prefix != nullptr) return;  // added with it
  std::string items_name = "items";
  if (prefix == nullptr && items != nullptr && items->is_array()) {
    prefix = items;
    items_name = "additionalItems";
    items = to.find("additionalItems");
  }
  SchemaPlaces first, others;
  if (prefix != nullptr && *prefix != Json::array()) first = list_of(to, keyword, *prefix);
  if (items != nullptr) others.push_back(to.below(*items, items_name));
  add_items(to, first, others);
}

void add_unique(const Adding& to, const std::string& keyword, const Json& value) {
  if (!value.is_boolean()) refuse(to, keyword, "must be true or false");
  to.facts.unique |= value.get<bool>();
}

void append(SchemaPlaces& places, const SchemaPlaces& more) {
  places.insert(places.end(), more.begin(), more.end());
}

// Names that one schema does not list fit its additionalProperties.
void add_members(const Adding& to, const Json& properties, const Json* additional) {
  SchemaFacts& facts = to.facts;
  SchemaPlaces others;
  if (additional != nullptr) others.push_back(to.below(*additional, "additionalProperties"));
  for (SchemaFacts::Member& member : facts.members) {
    if (!properties.contains(member.name)) append(member.value, others);
  }
  std::map<std::string, std::size_t> places;
  for (const auto& member : facts.members) places.emplace(member.name, places.size());
  for (const auto& [name, schema] : properties.items()) {
    const SchemaPlace place = to.below(schema, "properties/" + name);
    const auto [at, is_new] = places.emplace(name, facts.members.size());
    if (is_new) facts.members.push_back({name, facts.additional.value_or(SchemaPlaces{})});
    facts.members[at->second].value.push_back(place);
  }
  if (additional == nullptr) return;
  if (!facts.additional) facts.additional.emplace();
  append(*facts.additional, others);
}

void add_properties(const Adding& to, const std::string& keyword, const Json& value) {
  const Json* additional = to.find("additionalProperties");
  if (keyword == "additionalProperties") {
    if (to.find("properties") == nullptr) add_members(to, Json::object(), &value);
    return;
  }
  if (!value.is_object()) refuse(to, keyword, "must be an object of schemas");
  if (value.size() > kMostMembers)
    refuse(to, keyword, fmt::format("has more than {} members", kMostMembers));
  to.facts.has_properties = true;
  add_members(to, value, additional);
}

// Names are texts in any case. A list of them is one of members: nothing else may come.
void add_names(const Adding& to, const std::string& keyword, const Json& value) {
  static const Json kNone(false);
  if (value == Json(true)) return;
  const Json* listed = nullptr;
  bool supported = value.is_object();
  for (const auto& [name, part] : value.items()) {
    if (name == "enum" && part.is_array() && !part.empty() && part.size() <= kMostMembers) {
      listed = &part;
      for (const Json& one : part) supported &= one.is_string();
    } else {
      supported &= is_annotation(name) || (name == "type" && part == Json("string"));
    }
  }
  if (!supported) {
    refuse(to, keyword,
           fmt::format("is supported with the type string, and an enum of up to {} texts",
                       kMostMembers));
  }
  if (listed == nullptr) return;
  SchemaFacts& facts = to.facts;
  const SchemaPlaces none = {to.below(kNone, keyword)};
  std::set<std::string> names;
  for (const Json& one : *listed) names.insert(one.get<std::string>());
  for (SchemaFacts::Member& member : facts.members) {
    if (names.erase(member.name) == 0) append(member.value, none);
  }
  facts.has_properties = true;
  if (!facts.additional) facts.additional.emplace();
  const auto is_none = [](const SchemaPlace& place) { return *place.schema == kNone; };
  if (std::ranges::any_of(*facts.additional, is_none)) return;
  for (const std::string& name : names) facts.members.push_back({name, *facts.additional});
  append(*facts.additional, none);
}

void add_union(const Adding& to, const std::string& keyword, const Json& value) {
  if (to.place.without_unions) return;
  to.facts.unions.push_back({list_of(to, keyword, value), keyword == "oneOf"});
}

void ignore(const Adding&, const std::string&, const Json&) {}

const std::map<std::string, Keyword, std::less<>>& keywords() {
  using F = SchemaFacts;
  static const unsigned number = kWhole | kFraction;
  static const std::map<std::string, Keyword, std::less<>> kKeywords = {
      {"type", {add_type}},
      {"enum", {add_enum}},
      {"const", {add_const}},
      {"minimum", {add_bound<true>, number}},
      {"maximum", {add_bound<false>, number}},
      {"exclusiveMinimum", {add_excluded_bound<true>, number}},
      {"exclusiveMaximum", {add_excluded_bound<false>, number}},
      {"multipleOf", {add_multiple, number}},
      {"minLength", {add_least<&F::min_length>, kString}},
      {"maxLength", {add_most<&F::max_length>, kString}},
      {"pattern", {add_text<&F::patterns>, kString}},
      {"format", {add_text<&F::formats>, kString}},
      {"items", {add_array, kArray}},
      {"prefixItems", {add_array, kArray}},
      {"additionalItems", {ignore, kArray}},  // see add_array
      {"minItems", {add_least<&F::min_items>, kArray}},
      {"maxItems", {add_most<&F::max_items>, kArray}},
      {"uniqueItems", {add_unique, kArray}},
      {"properties", {add_properties, kObject}},
      {"additionalProperties", {add_properties, kObject}},
      {"propertyNames", {add_names, kObject}},
      {"minProperties", {add_least<&F::min_properties>, kObject}},
      {"maxProperties", {add_most<&F::max_properties>, kObject}},
      {"required", {ignore, kObject}},  // by SchemaReader, after all properties
      {"anyOf", {add_union}},
      {"oneOf", {add_union}},
      {"allOf", {ignore}},  // by SchemaReader
      {"$ref", {ignore}},
      {"nullable", {ignore}}};  // by add_type
  return kKeywords;
}

}  // namespace

const Keyword* find_keyword(const std::string& name) {
  const auto found = keywords().find(name);
  return found == keywords().end() ? nullptr : &found->second;
}

SchemaPlaces list_of(const Adding& to, const std::string& keyword, const Json& value) {
  if (!value.is_array() || value.empty()) refuse(to, keyword, "must be a list of schemas");
  SchemaPlaces places;
  for (const Json& part : value) {
    places.push_back(to.below(part, fmt::format("{}/{}", keyword, places.size())));
  }
  return places;
}

bool is_annotation(std::string_view keyword) {
  static const std::set<std::string_view> kAnnotations = {
      "$schema",     "$id",           "$comment",        "$defs",
      "definitions", "title",         "description",     "default",
      "example",     "examples",      "deprecated",      "readOnly",
      "writeOnly",   "discriminator", "contentEncoding", "contentMediaType"};
  return kAnnotations.count(keyword) == 1 || keyword.starts_with("x-");
}

}  // namespace tapegrad::data
