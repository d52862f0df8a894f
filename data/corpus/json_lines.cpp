#include "tapegrad/data/corpus/internal/json_lines.h"

#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;

// Keeps the value of one field of the outermost object. Of two with one name the last one counts.
class FieldReader : public nlohmann::json_sax<json> {
 public:
  explicit FieldReader(const std::string& field) : field_(field) {}
  std::optional<std::string> take() { return std::move(text_); }

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (!in_field()) return depth_ > 0;
    text_ = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override { return enter(true); }
  bool start_array(std::size_t) override { return enter(false); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) is_field_ = name == field_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool in_field() const { return depth_ == 1 && is_field_; }
  // A value that is no text; a line must be an object.
  bool other() {
    if (in_field()) text_.reset();
    return depth_ > 0;
  }
  bool enter(bool object) {
    if (depth_ == 0 && !object) return false;
    if (in_field()) text_.reset();
    constexpr int most_depth = 64;
    check(++depth_ <= most_depth, "the JSON is nested too deeply");
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  const std::string& field_;
  int depth_ = 0;
  bool is_field_ = false;
  std::optional<std::string> text_;
};

// Keeps the keys of the outermost object, as many as anybody would look at.
class KeyReader : public nlohmann::json_sax<json> {
 public:
  std::vector<std::string> take() { return std::move(keys_); }

  bool null() override { return depth_ > 0; }
  bool boolean(bool) override { return depth_ > 0; }
  bool number_integer(number_integer_t) override { return depth_ > 0; }
  bool number_unsigned(number_unsigned_t) override { return depth_ > 0; }
  bool number_float(number_float_t, const string_t&) override { return depth_ > 0; }
  bool binary(binary_t&) override { return depth_ > 0; }
  bool string(string_t&) override { return depth_ > 0; }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool start_array(std::size_t) override { return depth_++ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    constexpr std::size_t most = 1000;
    if (depth_ == 1 && keys_.size() < most) keys_.push_back(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
  std::vector<std::string> keys_;
};

}  // namespace

std::optional<std::string> text_of_json_line(std::string_view line, const std::string& field) {
  FieldReader reader(field);
  if (!json::sax_parse(line, &reader)) return std::nullopt;
  std::optional<std::string> text = reader.take();
  check(!text || text->find('\0') == text->npos, "the text has a NUL");
  return text;
}

std::optional<std::vector<std::string>> keys_of_json_line(std::string_view line) {
  KeyReader reader;
  if (!json::sax_parse(line, &reader)) return std::nullopt;
  return reader.take();
}

}  // namespace tapegrad::data
