#pragma once

#include <string>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/random.h"

namespace tapegrad::testing {

// Draws JSON schemas that have a text: all keywords that are supported, in the shapes that people
// use, three levels deep.
class MadeUpSchemas {
 public:
  explicit MadeUpSchemas(std::uint64_t seed) : rng_(seed) {}

  Json next() {
    Json root = value(3);
    if (!chance(4) || !root.is_object()) return root;
    Json definitions = {{"node", tree()}, {"count", integer()}};
    return {{"type", "object"},
            {"properties",
             {{"first", root},
              {"tree", {{"$ref", "#/$defs/node"}}},
              {"count", {{"$ref", "#/$defs/count"}}}}},
            {"required", {"tree", "count"}},
            {"additionalProperties", false},
            {"$defs", definitions}};
  }

 private:
  std::int64_t below(std::int64_t n) { return rng_.randint(n); }
  bool chance(std::int64_t one_of) { return below(one_of) == 0; }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }

  Json tree() {
    return {
        {"type", "object"},
        {"properties",
         {{"name", string()},
          {"left", {{"anyOf", {{{"$ref", "#/$defs/node"}}, {{"type", "null"}}}}}},
          {"more", {{"type", "array"}, {"items", {{"$ref", "#/$defs/node"}}}, {"maxItems", 2}}}}},
        {"required", {"name", "left"}},
        {"additionalProperties", false}};
  }

  Json integer() {
    Json schema = {{"type", "integer"}};
    const std::int64_t from = below(3000) - 1500, to = from + 20 + below(2000);
    if (chance(2)) schema[one_of<std::string>({"minimum", "exclusiveMinimum"})] = from;
    if (chance(2)) schema[one_of<std::string>({"maximum", "exclusiveMaximum"})] = to;
    if (chance(4)) schema["multipleOf"] = 1 + below(12);
    return schema;
  }

  Json number() {
    Json schema = {{"type", "number"}};
    const double from = static_cast<double>(below(200'000) - 100'000) / 1000;
    if (chance(2)) schema[one_of<std::string>({"minimum", "exclusiveMinimum"})] = from;
    if (chance(2)) {
      schema[one_of<std::string>({"maximum", "exclusiveMaximum"})] =
          static_cast<double>(below(1000) + 1) / 8 + 101;
    }
    return schema;
  }

  Json string() {
    Json schema = {{"type", "string"}};
    if (chance(4)) {
      schema["pattern"] = one_of<std::string>(
          {"^[A-Z]{2,4}-\\d{3}$", "[aeiou]", "^(red|green|blue)( (light|dark))?$", "^\\S+$",
           "^[^\"\\\\]*$", "\\d$", "^\\w{1,9}@\\w{1,9}\\.(com|org)$", "^.{2,5}$"});
      if (chance(2)) schema["maxLength"] = 20;
      return schema;
    }
    if (chance(4)) {
      schema["format"] = one_of<std::string>({"date-time", "date", "time", "duration", "email",
                                              "hostname", "ipv4", "ipv6", "uri", "uuid"});
      return schema;
    }
    const std::int64_t least = below(5);
    if (chance(2)) schema["minLength"] = least;
    if (chance(2)) schema["maxLength"] = least + below(12);
    return schema;
  }

  Json constant() {
    return one_of<Json>({1, "one", nullptr, true, 2.5, -7, "a \"quoted\" text", "Grüße, 世界 😀",
                         Json::array({1, "two"}), Json{{"k", Json::array()}}});
  }

  Json array(int depth) {
    Json schema = {{"type", "array"}};
    if (chance(5)) {
      schema["items"] = {{"enum", {"a", "b", "c", 1, 2, nullptr}}};
      schema["uniqueItems"] = true;
      schema["minItems"] = below(3);
      return schema;
    }
    const std::int64_t least = below(3);
    if (chance(3)) {
      schema["prefixItems"] = Json::array({value(depth - 1), value(0)});
      schema["items"] = chance(2) ? Json(false) : value(0);
      if (chance(2)) schema["minItems"] = least;
      return schema;
    }
    schema["items"] = value(depth - 1);
    if (chance(2)) schema["minItems"] = least;
    if (chance(2)) schema["maxItems"] = least + below(4);
    return schema;
  }

  Json object(int depth) {
    static const std::vector<std::string> kNames = {"id",   "name", "größe", "a\"b",     "tags",
                                                    "kind", "x",    "xy",    "long name"};
    Json schema = {{"type", "object"}, {"properties", Json::object()}};
    Json required = Json::array();
    const std::int64_t count = below(6);
    for (const std::int64_t i : rng_.randperm(std::ssize(kNames))) {
      if (std::ssize(schema["properties"]) == count) break;
      const std::string& name = kNames[static_cast<std::size_t>(i)];
      schema["properties"][name] = value(depth - 1);
      if (chance(2)) required.push_back(name);
    }
    if (!required.empty() || chance(2)) schema["required"] = required;
    if (chance(2)) {
      schema["additionalProperties"] = chance(2) ? Json(false) : value(0);
    }
    if (chance(8)) schema.erase("properties");
    if (chance(10)) {
      schema["anyOf"] = {{{"required", {"id"}}}, {{"required", {"other"}}}};
      schema.erase("additionalProperties");
    }
    return schema;
  }

  Json choice(int depth) {
    if (chance(2)) return {{"anyOf", {value(depth - 1), value(depth - 1)}}};
    if (chance(2)) return {{"oneOf", {integer(), string(), {{"type", "null"}}}}};
    const auto kind = [&](const std::string& name) {
      return Json{{"type", "object"},
                  {"properties", {{"kind", {{"const", name}}}, {"value", value(depth - 1)}}},
                  {"required", {"kind", "value"}},
                  {"additionalProperties", false}};
    };
    return {{"oneOf", {kind("circle"), kind("circles"), kind("line")}}};
  }

  Json value(int depth) {
    if (depth > 0) {
      switch (below(6)) {
        case 0:
          return array(depth);
        case 1:
          return choice(depth);
        case 2:
          return {{"allOf", {object(depth), {{"properties", {{"id", {{"type", "integer"}}}}}}}}};
        default:
          return object(depth);
      }
    }
    switch (below(9)) {
      case 0:
        return integer();
      case 1:
        return number();
      case 2:
        return {{"type", "boolean"}};
      case 3:
        return {{"type", "null"}};
      case 4:
        return {{"enum", {constant(), constant(), constant()}}};
      case 5:
        return {{"const", constant()}};
      case 6:
        return {{"type", {"string", "null"}}};
      case 7:
        return chance(6) ? Json(Json::object()) : integer();
      default:
        return string();
    }
  }

  Rng rng_;
};

}  // namespace tapegrad::testing
