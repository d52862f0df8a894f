#include "tapegrad/base/json/internal/json_file.h"

#include <algorithm>
#include <unordered_set>

#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_table.h"

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

  JsonBuilder(int depth, std::span<const JsonTable> tables)
      : depth_(static_cast<std::size_t>(depth)), tables_(tables) {}
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
  bool start_object(std::size_t) {
    names_.emplace_back();
    return open(AnyJson::object());
  }
  bool start_array(std::size_t) { return open(AnyJson::array()); }
  bool end_object() {
    names_.pop_back();
    return close();
  }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    check_depth();
    check_text(name);
    if (!tables_.empty() && (table_ == nullptr || in_table())) name_ = name;
    if (in_table()) return true;
    auto& object = open_.back()->template get_ref<typename AnyJson::object_t&>();
    if constexpr (std::is_same_v<AnyJson, Json>) {
      // Whoever looks for a member goes through all of them, and so would its own emplace().
      check(object.size() < kMostOrderedMembers, "an object has more than {} members",
            kMostOrderedMembers);
      check(names_.back().insert(name).second, "'{}' is there twice", name);
      member_ = &object.emplace_back(std::move(name), AnyJson()).second;
    } else {
      const auto [member, is_new] = object.emplace(std::move(name), AnyJson());
      check(is_new, "'{}' is there twice", member->first);
      member_ = &member->second;
    }
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
    if (in_table()) hand_over();
    return true;
  }
  bool open(AnyJson empty) {
    open_.push_back(&place(std::move(empty)));
    if (!tables_.empty() && table_ == nullptr) enter();
    return true;
  }
  bool close() {
    const bool ends_table = in_table();
    open_.pop_back();
    if (ends_table) table_ = nullptr;
    if (in_table()) hand_over();
    if (!tables_.empty() && table_ == nullptr) places_.pop_back();
    return true;
  }

  // True if the innermost object or list is a table. Its elements are in element_, one at a time.
  bool in_table() const { return table_ != nullptr && open_.size() == table_depth_; }
  void enter() {
    const std::size_t depth = open_.size();
    const bool is_named = depth > 1 && open_[depth - 2]->is_object();
    // No table is at a name with a slash.
    const bool is_plain = is_named && name_.find('/') == name_.npos;
    places_.push_back(depth == 1 ? "" : places_.back() + "/" + (is_plain ? name_ : "-"));
    const auto found = std::find_if(tables_.begin(), tables_.end(), [&](const JsonTable& table) {
      return table.place == places_.back();
    });
    if (found == tables_.end()) return;
    table_ = &*found, table_depth_ = depth;
    name_.clear();
  }
  void hand_over() {
    if constexpr (std::is_same_v<AnyJson, nlohmann::json>) table_->take(name_, element_);
  }

  // Puts a value where the next one belongs.
  template <class Value>
  AnyJson& place(Value&& value) {
    check_depth();
    if (in_table()) return element_ = AnyJson(std::forward<Value>(value));
    if (open_.empty()) return root_ = AnyJson(std::forward<Value>(value));
    if (open_.back()->is_object()) return *member_ = AnyJson(std::forward<Value>(value));
    auto& array = open_.back()->template get_ref<typename AnyJson::array_t&>();
    return array.emplace_back(std::forward<Value>(value));
  }

  std::size_t depth_;
  AnyJson root_;
  std::vector<AnyJson*> open_;  // objects and arrays that have not ended
  AnyJson* member_ = nullptr;   // of the innermost object, whose value comes next
  // Of the objects of open_ that keep their order.
  std::vector<std::unordered_set<std::string>> names_;

  const std::span<const JsonTable> tables_;
  std::vector<std::string> places_;  // of open_, up to the table
  std::string name_;                 // of the member whose value comes next
  const JsonTable* table_ = nullptr;
  std::size_t table_depth_ = 0;  // of open_, with the table
  AnyJson element_;
};

template <class AnyJson>
AnyJson parsed(std::string_view text, int depth, std::span<const JsonTable> tables = {}) {
  JsonBuilder<AnyJson> builder(depth, tables);
  try {
    AnyJson::sax_parse(text, &builder);
    return builder.take();
  } catch (const typename AnyJson::parse_error& error) {
    const bool half = std::string_view(error.what()).find("surrogate") != std::string_view::npos;
    fail("not valid JSON at byte {}{}", error.byte,
         half ? ": half of a surrogate pair, which \\ud800 to \\udfff are by themselves" : "");
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

nlohmann::json parse_json_with_tables(std::string_view text, int depth,
                                      std::span<const JsonTable> tables) {
  return parsed<nlohmann::json>(text, depth, tables);
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
