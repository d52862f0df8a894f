#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/random.h"

namespace tapegrad::faults {

// Files that were good and are broken, made of good ones.

// Its bytes are made when they are asked for: of thousands of files, a build with sanitizers tries
// a few, and making the others took two thirds of the time.
struct Malformed {
  Malformed(std::string called, std::function<std::string()> make, bool no_reader_accepts = false)
      : name(std::move(called)), bytes(std::move(make)), refused(no_reader_accepts) {}
  Malformed(std::string called, const std::string& text, bool no_reader_accepts = false)
      : Malformed(
            std::move(called), [text] { return text; }, no_reader_accepts) {}

  std::string name;
  std::function<std::string()> bytes;
  bool refused;
};
using MalformedFiles = std::vector<Malformed>;

// Texts that stand in JSON where another value belongs.
inline std::vector<std::string> foreign_values() {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  return {"null",
          "true",
          "-1",
          "0",
          "1",
          "7",
          "0.5",
          "-0.0",
          "1e308",
          "1e999",
          "NaN",
          "Infinity",
          "4294967296",
          "1099511627776",
          "9223372036854775807",
          "9223372036854775808",
          "-9223372036854775808",
          "18446744073709551615",
          "18446744073709551616",
          "\"\"",
          "\"text\"",
          "\"" + std::string(20'000, 'x') + "\"",
          R"("\u001b[31mred\u0007\u0000\u009b\n\n\n\n\n\n\n")",
          "\"\x1b[31m\"",
          "\"\xff\xfe\xc0\xaf\"",
          R"("\ud800")",
          R"("/etc/passwd")",
          "[]",
          "{}",
          R"(["a", 1])",
          R"({"a": {"b": null}})",
          nested(40),
          nested(100'000),
          "'1'",
          ""};
}

// Cut short at many places, with other bytes in some, with parts that are missing, repeated or of
// another file.
inline MalformedFiles mangled(const std::string& text, std::size_t count, Rng& rng) {
  MalformedFiles files;
  const auto kept = std::make_shared<const std::string>(text);
  const std::string& good = *kept;
  const auto place = [&] {
    return static_cast<std::size_t>(rng.randint(static_cast<std::int64_t>(good.size())));
  };
  const std::vector<std::string> foreign = {std::string(1, '\0'),
                                            "\xff",
                                            "\x1b[2J",
                                            "\xc3",
                                            "\xe2\x80\xae",
                                            "\xc2\x9b",
                                            "\r",
                                            "\t",
                                            "\n",
                                            "\"",
                                            "{",
                                            "]",
                                            std::string(100'000, 'A'),
                                            std::string(5000, '\x1b')};
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = place();
    // The good file with `change` made.
    const auto add = [&](const std::string& name, const auto& change) {
      files.push_back({fmt::format("{} at {}", name, at), [kept, change] {
                         std::string bytes = *kept;
                         change(bytes);
                         return bytes;
                       }});
    };
    switch (i % 5) {
      case 0:
        add("cut", [at](std::string& bytes) { bytes.resize(at); });
        break;
      case 1: {
        const auto bit = rng.randint(8);
        add("a bit flipped", [at, bit](std::string& bytes) {
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
        });
        break;
      }
      case 2: {
        const std::size_t which = i / 5 % foreign.size();
        add(fmt::format("foreign bytes {}", which),
            [at, other = foreign[which]](std::string& bytes) { bytes.insert(at, other); });
        break;
      }
      case 3: {
        const std::size_t size = 1 + place() / 4;
        add("a gap", [at, size](std::string& bytes) { bytes.erase(at, size); });
        break;
      }
      default: {
        const std::size_t from = place(), size = 1 + place() / 4;
        add("a repeated part", [kept, at, from, size](std::string& bytes) {
          bytes.insert(at, kept->substr(from, size));
        });
      }
    }
  }
  files.push_back({"empty", ""});
  files.push_back({"NUL", std::string(1000, '\0')});
  files.push_back({"brackets", std::string(1'000'000, '['), true});
  files.push_back({"another format", "PK\x03\x04 not this one\n", true});
  return files;
}

// Calls use(pointer) for each value of the JSON; of a long list, for the first three.
template <class Use>
void for_each_value(const Json& json, const Json::json_pointer& at, const Use& use) {
  if (!at.empty()) use(at);
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) for_each_value(value, at / name, use);
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < std::min<std::size_t>(json.size(), 3); ++i) {
      for_each_value(json[i], at / i, use);
    }
  }
}

// Each value in turn replaced by foreign ones, missing, under another name, or there twice. `text`
// makes the file of the JSON's text; it is called later.
template <class Text>
MalformedFiles broken_json(const Json& good, const Text& text) {
  const std::string hole = "@HOLE@", quoted = "\"" + hole + "\"";
  std::vector<std::pair<std::shared_ptr<const std::string>, bool>> foreign;  // no JSON, or too deep
  for (const std::string& value : foreign_values()) {
    const bool deep = value.size() > 1000 && value.front() == '[';
    foreign.emplace_back(std::make_shared<const std::string>(value), deep || !Json::accept(value));
  }
  MalformedFiles files;
  for_each_value(good, Json::json_pointer(), [&](const Json::json_pointer& at) {
    Json other = good;
    other[at] = hole;
    const auto with_hole = std::make_shared<const std::string>(other.dump());
    const std::size_t where = with_hole->find(quoted);
    const auto filled = [=](const std::string& value) {
      std::string bytes = *with_hole;
      return text(bytes.replace(where, quoted.size(), value));
    };
    for (const auto& [value, refused] : foreign) {
      const std::string shown = value->size() > 50 ? value->substr(0, 20) + "…" : *value;
      files.push_back({at.to_string() + ": " + shown,
                       [filled, value = value] { return filled(*value); }, refused});
    }
    const Json& parent = good[at.parent_pointer()];
    if (!parent.is_object()) return;
    const auto add = [&](const std::string& name, const std::string& json) {
      files.push_back({at.to_string() + name, [text, json] { return text(json); }});
    };
    other = good;
    other[at.parent_pointer()].erase(at.back());
    add(" is missing", other.dump());
    other[at.parent_pointer()][at.back() + "\x1b[1m"] = good[at];
    add(" has another name", other.dump());
    const std::string once = good[at].dump();
    const std::string twice = once + "," + Json(at.back()).dump() + ":" + once;
    files.push_back(
        {at.to_string() + " is there twice", [filled, twice] { return filled(twice); }, true});
  });
  return files;
}

// The two parts of a safetensors file.
struct SafetensorsParts {
  std::string header, data;
  explicit SafetensorsParts(const std::string& file) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    header = file.substr(sizeof length, length);
    data = file.substr(sizeof length + length);
  }
  static std::string file(std::uint64_t length, const std::string& header,
                          const std::string& data) {
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
  }
};

// Wrong lengths, wrong data, and a header in which one tensor, or the metadata, is broken.
inline MalformedFiles broken_safetensors(const std::string& good) {
  const SafetensorsParts parts(good);
  MalformedFiles files;
  const auto add = [&](const std::string& name, const std::string& bytes) {
    files.push_back({name, bytes, true});
  };
  const auto with_length = [&](std::uint64_t length) {
    add(fmt::format("a header of {} bytes", length),
        SafetensorsParts::file(length, parts.header, parts.data));
  };
  const std::uint64_t length = parts.header.size();
  for (const std::uint64_t other :
       {std::uint64_t{0}, std::uint64_t{1}, length - 8, length + 1, length + 8, good.size() - 8,
        good.size() - 7, std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 63,
        ~std::uint64_t{0}}) {
    with_length(other);
  }
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{9},
                                  good.size() / 2, good.size() - 1}) {
    add(fmt::format("cut at {}", bytes), good.substr(0, bytes));
  }
  add("a byte more", good + "x");
  const auto with_header = [data = parts.data](const std::string& text) {
    return SafetensorsParts::file(text.size(), text, data);
  };
  // The metadata and the first two tensors stand for all.
  const Json header = Json::parse(parts.header);
  Json few = Json::object(), rest = Json::object();
  for (const auto& [name, value] : header.items()) {
    (few.size() < 3 ? few : rest)[name] = value;
  }
  std::string rest_text = rest.dump();
  rest_text.front() = ',';
  const auto completed = [with_header, rest_text, whole = rest.empty()](std::string text) {
    if (whole) return with_header(text);
    if (!text.empty() && text.back() == '}') text.pop_back();
    return with_header(text + rest_text);
  };
  for (Malformed& file : broken_json(few, completed)) files.push_back(std::move(file));
  // Values that are no numbers.
  for (const char* bytes : {"\x00\x00\xc0\x7f", "\x00\x00\x80\x7f"}) {
    std::string broken = good;
    broken.replace(good.size() - 4, 4, std::string(bytes, 4));
    add("a value that is no number", broken);
  }
  return files;
}

}  // namespace tapegrad::faults
