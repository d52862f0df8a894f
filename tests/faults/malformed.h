#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/json_file.h"
#include "tapegrad/base/random.h"

namespace tapegrad::faults {

// Files that were good and are broken, made of good ones.

struct Malformed {
  std::string what, bytes;
  bool refused = false;  // whether no reader may accept it
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
inline MalformedFiles mangled(const std::string& good, std::size_t count, Rng& rng) {
  MalformedFiles files;
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
    std::string bytes = good;
    const std::size_t at = place();
    switch (i % 5) {
      case 0:
        bytes.resize(at);
        files.push_back({fmt::format("cut at {}", at), bytes});
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.randint(8)));
        files.push_back({fmt::format("a bit flipped at {}", at), bytes});
        break;
      case 2:
        bytes.insert(at, foreign[i / 5 % foreign.size()]);
        files.push_back({fmt::format("foreign bytes {} at {}", i / 5 % foreign.size(), at), bytes});
        break;
      case 3:
        bytes.erase(at, 1 + place() / 4);
        files.push_back({fmt::format("a gap at {}", at), bytes});
        break;
      default:
        bytes.insert(at, good.substr(place(), 1 + place() / 4));
        files.push_back({fmt::format("a repeated part at {}", at), bytes});
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
// makes the file of the JSON's text.
template <class Text>
MalformedFiles broken_json(const Json& good, const Text& text) {
  const std::string hole = "@HOLE@", quoted = "\"" + hole + "\"";
  MalformedFiles files;
  for_each_value(good, Json::json_pointer(), [&](const Json::json_pointer& at) {
    Json other = good;
    other[at] = hole;
    const std::string with_hole = other.dump();
    const std::size_t where = with_hole.find(quoted);
    for (const std::string& value : foreign_values()) {
      std::string filled = with_hole;
      filled.replace(where, quoted.size(), value);
      const bool no_json = !Json::accept(filled);
      const bool deep = value.size() > 1000 && value.front() == '[';
      const std::string shown = value.size() > 50 ? value.substr(0, 20) + "…" : value;
      files.push_back({at.to_string() + ": " + shown, text(filled), no_json || deep});
    }
    const Json& parent = good[at.parent_pointer()];
    if (!parent.is_object()) return;
    other = good;
    other[at.parent_pointer()].erase(at.back());
    files.push_back({at.to_string() + " is missing", text(other.dump())});
    other[at.parent_pointer()][at.back() + "\x1b[1m"] = good[at];
    files.push_back({at.to_string() + " has another name", text(other.dump())});
    const std::string name = Json(at.back()).dump() + ":";
    std::string twice = with_hole;
    twice.replace(where, quoted.size(), good[at].dump() + "," + name + good[at].dump());
    files.push_back({at.to_string() + " is there twice", text(twice), true});
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
  const auto add = [&](const std::string& what, const std::string& bytes) {
    files.push_back({what, bytes, true});
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
  const auto with_header = [&](const std::string& header) {
    return SafetensorsParts::file(header.size(), header, parts.data);
  };
  // The metadata and the first two tensors stand for all.
  const Json header = Json::parse(parts.header);
  Json few = Json::object(), rest = Json::object();
  for (const auto& [name, value] : header.items()) {
    (few.size() < 3 ? few : rest)[name] = value;
  }
  std::string rest_text = rest.dump();
  rest_text.front() = ',';
  const auto completed = [&](std::string text) {
    if (rest.empty()) return with_header(text);
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
