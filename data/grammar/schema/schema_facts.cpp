#include "tapegrad/data/grammar/schema/internal/schema_facts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tapegrad/data/grammar/schema/internal/schema_keywords.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kMostWork = 100'000;  // schemas that are looked at
constexpr int kMostInOne = 32;              // schemas that allOf and $ref put into each other

void add_required(const Adding& to, std::set<std::string>& required) {
  const Json* names = to.find("required");
  if (names == nullptr || names->is_boolean()) return;  // draft 3 and OpenAPI's parameters
  if (!names->is_array()) refuse_schema(to.place.path, "required", "must be a list of names");
  for (const Json& name : *names) {
    if (!name.is_string()) refuse_schema(to.place.path, "required", "must be a list of names");
    required.insert(name.get<std::string>());
  }
}

}  // namespace

void refuse_schema(const std::string& path, std::string_view keyword, std::string_view why) {
  fail("[json_schema] {}: \"{}\" {}", path, keyword, why);
}

unsigned type_of(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  const bool whole = !value.is_number_float() || std::floor(value.get<double>()) == value;
  return whole ? kWhole : kFraction;
}

SchemaPlace SchemaReader::resolve(const std::string& reference, const std::string& path) const {
  if (reference != "#" && !reference.starts_with("#/")) {
    refuse_schema(path, "$ref", "to \"" + reference + "\" is not supported: only #/… is");
  }
  const Json* target = nullptr;
  try {
    target = &root_.at(Json::json_pointer(reference.substr(1)));
  } catch (const Json::exception&) {
    refuse_schema(path, "$ref", "to \"" + reference + "\" leads nowhere");
  }
  return {target, reference};
}

void SchemaReader::add(const SchemaPlace& place, SchemaFacts& facts, int depth) {
  work_ += 1 + place.schema->size();
  if (work_ > kMostWork) refuse_schema("#", "anyOf", "and the like make too many schemas of it");
  if (depth > kMostInOne) refuse_schema(place.path, "$ref", "leads to itself");
  facts.arguments |= place.arguments;
  const Json& schema = *place.schema;
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) facts.types = 0;
    return;
  }
  if (!schema.is_object())
    fail("[json_schema] {}: a schema is an object, true or false", place.path);
  const Adding adding{place, schema, facts};
  for (const auto& [name, value] : schema.items()) {
    const bool names = name == "propertyNames" && value.is_object() && value.contains("enum");
    work_ += (names ? value["enum"] : value).size() / 8;  // the values of an enum, say
    const Keyword* keyword = find_keyword(name);
    if (keyword == nullptr) {
      if (is_annotation(name)) continue;
      refuse_schema(place.path, name, "is not supported");
    }
    keyword->add(adding, name, value);
    facts.hinted |= keyword->about;
    facts.plain &= name == "type" || name == "enum" || name == "const" || name == "nullable";
  }
  if (const Json* parts = adding.find("allOf")) {
    for (const SchemaPlace& part : list_of(adding, "allOf", *parts)) {
      add({part.schema, part.path, place.without_unions}, facts, depth + 1);
    }
  }
  if (const Json* reference = adding.find("$ref")) {
    if (!reference->is_string()) refuse_schema(place.path, "$ref", "must be a text");
    SchemaPlace target = resolve(reference->get<std::string>(), place.path);
    target.without_unions = place.without_unions;
    facts.references.push_back(target.path);
    add(target, facts, depth + 1);
  }
  std::set<std::string> required;
  add_required(adding, required);
  for (SchemaFacts::Member& member : facts.members) {
    if (required.erase(member.name) > 0) member.required = true;
  }
  for (const std::string& name : required) {
    facts.members.push_back({name, facts.additional.value_or(SchemaPlaces{}), true});
  }
}

SchemaFacts SchemaReader::facts_of(const SchemaPlaces& places) {
  SchemaFacts facts;
  facts.path = places.empty() ? "#" : places[0].path;
  for (const SchemaPlace& place : places) add(place, facts, 0);
  return facts;
}

}  // namespace tapegrad::data
