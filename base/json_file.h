#pragma once

#include <cmath>
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

namespace detail {

// Builds the value that nlohmann's parser reports in events, and checks it on the way: see
// parse_json(). Their own builder would drop the first of two members of one name.
template <class AnyJson>
class JsonBuilder {
 public:
  static constexpr std::size_t kMostOrderedMembers = 10'000;

  explicit JsonBuilder(int depth) : depth_(static_cast<std::size_t>(depth)) {}
  AnyJson take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(typename AnyJson::number_integer_t value) { return put(value); }
  bool number_unsigned(typename AnyJson::number_unsigned_t value) { return put(value); }
  bool number_float(typename AnyJson::number_float_t value, const std::string&) {
    return put(value);
  }
  bool string(std::string& text) {
    check_text(text);
    return put(std::move(text));
  }
  bool binary(typename AnyJson::binary_t&) { return false; }  // JSON has none
  bool start_object(std::size_t) { return open(AnyJson::object()); }
  bool start_array(std::size_t) { return open(AnyJson::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    check_depth();
    check_text(name);
    auto& object = open_.back()->template get_ref<typename AnyJson::object_t&>();
    // An object that keeps its order looks at all its members for each new one.
    if constexpr (std::is_same_v<AnyJson, Json>) {
      check(object.size() < kMostOrderedMembers, "an object has more than {} members",
            kMostOrderedMembers);
    }
    const auto [member, is_new] = object.emplace(std::move(name), AnyJson());
    check(is_new, "'{}' is there twice", member->first);
    member_ = &member->second;
    return true;
  }

  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& error) {
    throw error;
  }

 private:
  void check_depth() const { check(open_.size() <= depth_, "the JSON is nested too deeply"); }
  static void check_text(const std::string& text) {
    // A message that shows such a text would end there.
    check(text.find('\0') == std::string::npos, "a text has a NUL in it");
  }

  template <class Value>
  bool put(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }
  bool open(AnyJson empty) {
    open_.push_back(&place(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  // Puts a value where the next one belongs.
  template <class Value>
  AnyJson& place(Value&& value) {
    check_depth();
    if (open_.empty()) return root_ = AnyJson(std::forward<Value>(value));
    if (open_.back()->is_object()) return *member_ = AnyJson(std::forward<Value>(value));
    auto& array = open_.back()->template get_ref<typename AnyJson::array_t&>();
    return array.emplace_back(std::forward<Value>(value));
  }

  std::size_t depth_;
  AnyJson root_;
  std::vector<AnyJson*> open_;  // objects and arrays that have not ended
  AnyJson* member_ = nullptr;   // of the innermost object, whose value comes next
};

}  // namespace detail

// Parses the JSON of one of our files, whose brackets are nested at most `depth` deep. Error, with
// the byte where it is known, for any text that is not such JSON in UTF-8, and for a name that an
// object has twice, of which one would be ignored.
template <class AnyJson>
AnyJson parse_json(std::string_view text, int depth) {
  detail::JsonBuilder<AnyJson> builder(depth);
  try {
    AnyJson::sax_parse(text, &builder);
    return builder.take();
  } catch (const typename AnyJson::parse_error& error) {
    fail("not valid JSON at byte {}", error.byte);
  } catch (const typename AnyJson::exception&) {
    fail("not valid JSON: a number is too large");
  }
}

// The text of a value: on one line, or with so many blanks for each level. Bytes that are no UTF-8,
// as paths may have, become U+FFFD.
std::string json_text(const Json& json, int indent = -1);

// The object that the file holds; Error, with the path, if there is none, or if it is a link.
Json read_json_object(const std::filesystem::path& path);
// The object that a text is; `path` is for messages.
Json parse_json_object(const std::filesystem::path& path, const std::string& text);

void write_json(const std::filesystem::path& path, const Json& json);

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
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    expect(it->is_array(), "a list of texts");
    value.clear();
    for (const Json& element : *it) {
      expect(element.is_string(), "a list of texts");
      value.push_back(element.get<std::string>());
    }
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    expect(it->is_array(), "a list of numbers");
    value.clear();
    for (const Json& element : *it) {
      expect(element.is_number(), "a list of numbers");
      value.push_back(element.get<double>());
    }
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
