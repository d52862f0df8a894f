#include "tapegrad/autograd/formats/internal/safetensors_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad {
namespace {

using nlohmann::json;

// The header's entry for one tensor.
struct Stored {
  std::string name;
  const StoredType* type = nullptr;
  Shape shape;
  std::uint64_t begin = 0, end = 0;
};

class Parser {
 public:
  Parser(const std::string& path, std::uint64_t data_bytes)
      : path_(path), data_bytes_(data_bytes) {}

  SafetensorsHeader read(const std::string& text) const {
    SafetensorsHeader result;
    std::vector<Stored> all;
    const json header = parse(text);
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) {
        result.metadata = read_metadata(value);
      } else {
        all.push_back(read_entry(name, value));
      }
    }
    // An empty tensor starts where the next one does.
    std::sort(all.begin(), all.end(), [](const Stored& a, const Stored& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_layout(all);
    for (const Stored& stored : all) {
      result.entries.emplace(stored.name, TensorSource::Entry::of(*stored.type, stored.shape));
      result.begins[stored.name] = stored.begin;
    }
    return result;
  }

 private:
  json parse(const std::string& text) const {
    constexpr int depth = 3;
    json header;
    try {
      header = parse_json<json>(text, depth);
    } catch (const Error& error) {
      fail("{}: the header: {}", path_, error.what());
    }
    check(header.is_object(), "{}: the header is not a JSON object", path_);
    return header;
  }

  Metadata read_metadata(const json& value) const {
    if (value.is_null()) return {};
    check(value.is_object(), "{}: {} is not an object of strings", path_, kMetadataKey);
    Metadata metadata;
    for (const auto& [key, text] : value.items()) {
      check(text.is_string(), "{}: {}.{} is not a string", path_, kMetadataKey, key);
      metadata[key] = text.get<std::string>();
    }
    return metadata;
  }

  Stored read_entry(const std::string& name, const json& value) const {
    check(value.is_object() && value.contains("dtype") && value.contains("shape") &&
              value.contains("data_offsets") && value["dtype"].is_string() &&
              value["shape"].is_array() && value["data_offsets"].is_array() &&
              value["data_offsets"].size() == 2,
          "{}: tensor '{}' lacks a proper dtype, shape or data_offsets", path_, name);
    Stored entry;
    entry.name = name;
    const std::string type = value["dtype"];
    entry.type = type_of(name, type);
    std::vector<std::int64_t> dims;
    for (const json& dim : value["shape"]) {
      check(dim.is_number_unsigned() && dims.size() < Shape::kMaxRank &&
                dim.get<std::uint64_t>() <= (std::uint64_t{1} << 48),
            "{}: tensor '{}' has an impossible shape {}", path_, name,
            sorted_json_text(value["shape"]));
      dims.push_back(dim.get<std::int64_t>());
    }
    entry.shape = Shape(dims);
    for (const json& offset : value["data_offsets"]) {
      check(offset.is_number_unsigned(), "{}: tensor '{}' has impossible data_offsets", path_,
            name);
    }
    entry.begin = value["data_offsets"][0].get<std::uint64_t>();
    entry.end = value["data_offsets"][1].get<std::uint64_t>();
    check(entry.begin <= entry.end && entry.end <= data_bytes_,
          "{}: tensor '{}' lies at bytes {} to {}, but the file has {} bytes of data: truncated?",
          path_, name, entry.begin, entry.end, data_bytes_);
    check(stored_bytes(*entry.type, entry.shape) == entry.end - entry.begin,
          "{}: tensor '{}' of shape {} and dtype {} cannot have {} bytes", path_, name, entry.shape,
          type, entry.end - entry.begin);
    return entry;
  }

  const StoredType* type_of(const std::string& tensor, std::string_view dtype) const {
    std::vector<std::string_view> names;
    for (const StoredType& type : stored_types()) {
      if (type.safetensors.empty()) continue;
      if (type.safetensors == dtype) return &type;
      names.push_back(type.safetensors);
    }
    fail("{}: tensor '{}' has dtype {}; only {} can be read", path_, tensor, dtype,
         fmt::join(names, ", "));
  }

  void check_layout(const std::vector<Stored>& entries) const {
    std::uint64_t at = 0;
    for (const Stored& entry : entries) {
      check(entry.begin == at, "{}: tensor '{}' starts at byte {} of the data, expected {}", path_,
            entry.name, entry.begin, at);
      at = entry.end;
    }
    check(at == data_bytes_, "{}: the tensors end at byte {} of {} bytes of data", path_, at,
          data_bytes_);
  }

  const std::string& path_;
  std::uint64_t data_bytes_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string& path, const std::string& text,
                                           std::uint64_t data_bytes) {
  return Parser(path, data_bytes).read(text);
}

}  // namespace tapegrad
