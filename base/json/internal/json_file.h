#pragma once

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"

namespace tapegrad {

using Json = nlohmann::ordered_json;

// Parses the JSON of one of our files, whose brackets are nested at most `depth` deep. Error, with
// the byte where it is known, for any text that is not such JSON in UTF-8, and for a name that an
// object has twice, of which one would be ignored.
template <class AnyJson>
AnyJson parse_json(std::string_view text, int depth);
// Their parsers and printers are compiled once, in json_file.cpp: each takes seconds.
template <>
Json parse_json(std::string_view text, int depth);
template <>
nlohmann::json parse_json(std::string_view text, int depth);

// The text of a value: on one line, or with so many blanks for each level. Bytes that are no UTF-8,
// as paths may have, become U+FFFD.
std::string json_text(const Json& json, int indent = -1);
// The text of a value whose members are in the order of their names, on one line: for files whose
// texts must not change, so that bytes that are no UTF-8 are an Error.
std::string sorted_json_text(const nlohmann::json& json);

// The object that the file holds; Error, with the path, if there is none, or if it is a link.
Json read_json_object(const std::filesystem::path& path);
// The object that a text is; `path` is for messages.
Json parse_json_object(const std::filesystem::path& path, const std::string& text);

void write_json(const std::filesystem::path& path, const Json& json);

template <class T>
inline constexpr bool kIsList =
    std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, std::vector<double>> ||
    std::is_same_v<T, std::vector<std::int64_t>>;

// Member `name` of `object`, which is a part of the file at `path`. Error if it is missing or not a
// T: nothing is converted that would lose something.
template <class T>
void get(const std::filesystem::path& path, const Json& object, const std::string& name, T& value) {
  const auto expect = [&](bool right, std::string_view what) {
    check(right, "{}: '{}' must be {}", path.string(), name, what);
  };
  const auto it = object.is_object() ? object.find(name) : object.end();
  check(object.is_object() && it != object.end(), "{}: '{}' is missing", path.string(), name);
  if constexpr (std::is_same_v<T, bool>) {
    expect(it->is_boolean(), "true or false");
    value = it->template get<bool>();
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    expect(it->is_number_unsigned(), "a whole number of 0 or more");
    value = it->template get<uint64_t>();
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = it->is_number_integer() &&
                      (!it->is_number_unsigned() ||
                       it->template get<uint64_t>() <= uint64_t{std::numeric_limits<T>::max()}) &&
                      it->template get<int64_t>() >= int64_t{std::numeric_limits<T>::min()};
    expect(fits, fmt::format("a whole number from {} to {}", std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max()));
    value = it->template get<T>();
  } else if constexpr (std::is_same_v<T, double>) {
    expect(it->is_number(), "a number");
    value = it->template get<double>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    expect(it->is_string(), "a text");
    value = it->template get<std::string>();
  } else if constexpr (kIsList<T>) {
    using Element = typename T::value_type;
    constexpr bool texts = std::is_same_v<Element, std::string>;
    constexpr bool whole = std::is_same_v<Element, std::int64_t>;
    constexpr const char* what = texts   ? "a list of texts"
                                 : whole ? "a list of whole numbers"
                                         : "a list of numbers";
    expect(it->is_array(), what);
    for (const Json& e : *it) {
      expect(texts ? e.is_string() : whole ? e.is_number_integer() : e.is_number(), what);
    }
    value = it->template get<T>();
  } else if constexpr (std::is_same_v<T, Json>) {
    expect(it->is_object(), "an object");
    value = *it;
  } else if (it->is_null()) {
    value.reset();
  } else {
    get(path, object, name, value.emplace());
  }
}

// The inverse: an empty optional becomes null.
template <class T>
Json json_of(const T& value) {
  return value;
}
template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace tapegrad
