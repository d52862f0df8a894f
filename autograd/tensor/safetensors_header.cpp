#include "tapegrad/autograd/tensor/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tapegrad/base/json_file.h"

namespace tapegrad {
namespace {

using nlohmann::json;

// What the header says of one tensor.
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
      const StoredType& type = *stored.type;
      result.entries[stored.name] = {std::string(type.name), type.dtype, stored.shape};
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
    const auto* const known = std::find_if(kStoredTypes.begin(), kStoredTypes.end(),
                                           [&](const StoredType& t) { return t.name == type; });
    check(known != kStoredTypes.end(),
          "{}: tensor '{}' has dtype {}; only F32, F64, F16, BF16, I32 and U8 can be read", path_,
          name, type);
    entry.type = known;
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
    const std::uint64_t elements = count_elements(name, entry.shape);
    check(elements <= data_bytes_ && elements * entry.type->size == entry.end - entry.begin,
          "{}: tensor '{}' of shape {} and dtype {} cannot have {} bytes", path_, name, entry.shape,
          type, entry.end - entry.begin);
    return entry;
  }

  std::uint64_t count_elements(const std::string& name, const Shape& shape) const {
    try {
      return static_cast<std::uint64_t>(shape.numel());
    } catch (const Error& e) {
      fail("{}: tensor '{}': {}", path_, name, e.what());
    }
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
