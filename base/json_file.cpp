#include "tapegrad/base/json_file.h"

#include "tapegrad/base/file.h"

namespace tapegrad {
namespace {
// Our own files have some kilobytes, or more where they list many paths; a parsed one may take a
// hundred times its size.
constexpr int64_t kMostJsonBytes = int64_t{8} << 20;
constexpr int kMostJsonDepth = 32;

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

template <class AnyJson>
AnyJson parsed(std::string_view text, int depth) {
  JsonBuilder<AnyJson> builder(depth);
  try {
    AnyJson::sax_parse(text, &builder);
    return builder.take();
  } catch (const typename AnyJson::parse_error& error) {
    fail("not valid JSON at byte {}", error.byte);
  } catch (const typename AnyJson::exception&) {
    fail("not valid JSON: a number is too large");
  }
}

}  // namespace

template <>
Json parse_json(std::string_view text, int depth) {
  return parsed<Json>(text, depth);
}
template <>
nlohmann::json parse_json(std::string_view text, int depth) {
  return parsed<nlohmann::json>(text, depth);
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string sorted_json_text(const nlohmann::json& json) {
  try {
    return json.dump();
  } catch (const nlohmann::json::type_error&) {
    fail("a text is not in UTF-8");
  }
}

Json read_json_object(const std::filesystem::path& path) {
  return parse_json_object(path, read_file(path, kMostJsonBytes, Links::refused));
}

Json parse_json_object(const std::filesystem::path& path, const std::string& text) {
  Json json;
  try {
    json = parse_json<Json>(text, kMostJsonDepth);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  check(json.is_object(), "{}: expected a JSON object", path.string());
  return json;
}

void write_json(const std::filesystem::path& path, const Json& json) {
  const std::string text = json_text(json, 2) + "\n";
  check(static_cast<int64_t>(text.size()) <= kMostJsonBytes,
        "{}: {} bytes are to be written, and {} are the most that can be read again", path.string(),
        text.size(), kMostJsonBytes);
  write_file_atomically(path, text);
}

}  // namespace tapegrad
