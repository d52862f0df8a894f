#pragma once

#include <cmath>
#include <regex>
#include <set>
#include <string>

#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::testing {

// Checks that values fit a JSON schema, of the keywords that MadeUpSchemas uses. tests/json_schema
// asks ajv; this one needs no other program. Formats, and patterns of strings beyond ASCII, are
// left to ajv.
class SmallValidator {
 public:
  explicit SmallValidator(const Json& root) : root_(root) {}

  bool fits(const Json& value) const { return fits(value, root_); }

 private:
  static bool has_type(const Json& value, const std::string& type) {
    if (type == "integer") {
      return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
    }
    return type == (value.is_number() ? "number" : value.type_name());
  }

  static bool fits_number(double value, const Json& schema) {
    const auto number = [&](const char* name, double absent) { return schema.value(name, absent); };
    const double remainder = std::fmod(value, number("multipleOf", 1));
    return value >= number("minimum", -HUGE_VAL) && value <= number("maximum", HUGE_VAL) &&
           value > number("exclusiveMinimum", -HUGE_VAL) &&
           value < number("exclusiveMaximum", HUGE_VAL) &&
           (!schema.contains("multipleOf") || remainder == 0);
  }

  static bool fits_string(const std::string& value, const Json& schema) {
    std::size_t length = 0, ascii = 0;
    for (const char c : value) {
      length += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      ascii += static_cast<unsigned char>(c) < 0x80;
    }
    if (length < schema.value("minLength", std::size_t{0})) return false;
    if (length > schema.value("maxLength", SIZE_MAX)) return false;
    if (!schema.contains("pattern") || ascii < value.size()) return true;
    return std::regex_search(value, std::regex(schema["pattern"].get<std::string>()));
  }

  bool fits_array(const Json& value, const Json& schema) const {
    if (value.size() < schema.value("minItems", std::size_t{0})) return false;
    if (value.size() > schema.value("maxItems", SIZE_MAX)) return false;
    const std::size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i < prefix && !fits(value[i], schema["prefixItems"][i])) return false;
      if (i >= prefix && schema.contains("items") && !fits(value[i], schema["items"])) return false;
      if (!seen.insert(json_text(value[i])).second && schema.value("uniqueItems", false)) {
        return false;
      }
    }
    return true;
  }

  bool fits_object(const Json& value, const Json& schema) const {
    const Json none = Json::object();
    const Json& properties = schema.contains("properties") ? schema["properties"] : none;
    for (const auto& [name, member] : value.items()) {
      if (properties.contains(name)) {
        if (!fits(member, properties[name])) return false;
      } else if (schema.contains("additionalProperties") &&
                 !fits(member, schema["additionalProperties"])) {
        return false;
      }
    }
    if (!schema.contains("required")) return true;
    for (const Json& name : schema["required"]) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    return true;
  }

  std::size_t fitting(const Json& value, const Json& schemas) const {
    std::size_t count = 0;
    for (const Json& schema : schemas) count += fits(value, schema) ? 1 : 0;
    return count;
  }

  bool fits(const Json& value, const Json& schema) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [keyword, asked] : schema.items()) {
      if (keyword == "$ref") {
        const auto target = Json::json_pointer(asked.get<std::string>().substr(1));
        if (!fits(value, root_.at(target))) return false;
      }
      if (keyword == "type") {
        bool right = false;
        for (const Json& type : asked.is_array() ? asked : Json::array({asked})) {
          right |= has_type(value, type.get<std::string>());
        }
        if (!right) return false;
      }
      if (keyword == "enum" && std::find(asked.begin(), asked.end(), value) == asked.end()) {
        return false;
      }
      if (keyword == "const" && asked != value) return false;
      if (keyword == "anyOf" && fitting(value, asked) == 0) return false;
      if (keyword == "oneOf" && fitting(value, asked) != 1) return false;
      if (keyword == "allOf" && fitting(value, asked) != asked.size()) return false;
    }
    if (value.is_number()) return fits_number(value.get<double>(), schema);
    if (value.is_string()) return fits_string(value.get<std::string>(), schema);
    if (value.is_array()) return fits_array(value, schema);
    return !value.is_object() || fits_object(value, schema);
  }

  const Json& root_;
};

}  // namespace tapegrad::testing
