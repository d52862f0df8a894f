#include "tapegrad/autograd/tensor/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tapegrad/autograd/base/file.h"

namespace tapegrad {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

// The format allows 100 MB. A model of ten thousand tensors needs 2 MB, and a parsed header takes
// tens of times its size.
constexpr std::uint64_t kMaxHeader = 8'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

std::string_view format_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f64:
      return "F64";
    case DType::i32:
      return "I32";
    case DType::u8:
      return "U8";
  }
  return "?";
}

const char* bytes_of(const Tensor& t) {
  switch (t.dtype()) {
    case DType::f32:
      return reinterpret_cast<const char*>(t.data<float>());
    case DType::f64:
      return reinterpret_cast<const char*>(t.data<double>());
    case DType::i32:
      return reinterpret_cast<const char*>(t.data<std::int32_t>());
    case DType::u8:
      return reinterpret_cast<const char*>(t.data<std::uint8_t>());
  }
  return nullptr;
}

// What the header says of one tensor.
struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code error;
    const bool regular = std::filesystem::is_regular_file(path, error);
    check(std::filesystem::exists(path, error), "{}: there is no such file", path);
    check(regular, "{}: not a regular file", path);
    size_ = std::filesystem::file_size(path, error);
    stream_.open(path, std::ios::binary);
    check(!error && stream_.good(), "{}: cannot be read", path);
  }

  SafeTensors read() {
    const json header = read_header();
    SafeTensors result;
    result.path = path_;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) {
        result.metadata = read_metadata(value);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
    // An empty tensor starts where the next one does.
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_layout(entries);
    for (const Entry& entry : entries) {
      Tensor t = Tensor::empty(entry.shape, entry.dtype);
      if (t.numel() > 0) {  // t is new, so that writing to it changes nothing that anybody has seen
        stream_.read(const_cast<char*>(bytes_of(t)), static_cast<std::streamsize>(t.bytes()));
      }
      check(stream_.good(), "{}: reading tensor '{}' failed", path_, entry.name);
      result.tensors.emplace(entry.name, t);
    }
    return result;
  }

 private:
  json read_header() {
    std::uint64_t length = 0;
    check(size_ >= sizeof length, "{}: {} bytes are too few for a safetensors file", path_, size_);
    stream_.read(reinterpret_cast<char*>(&length), sizeof length);
    check(length <= kMaxHeader && length <= size_ - sizeof length,
          "{}: the header says it has {} bytes, but the file has {}: truncated, or not a "
          "safetensors file",
          path_, length, size_);
    data_begin_ = sizeof length + length;
    std::string text(length, '\0');
    stream_.read(text.data(), static_cast<std::streamsize>(length));
    check(stream_.good(), "{}: reading the header failed", path_);
    // The names are checked while parsing, since the parsed object would silently keep the last of
    // two.
    std::set<std::string> names;
    std::string repeated;
    const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
      if (depth > 3) fail("{}: the header is nested too deeply", path_);
      if (depth == 1 && event == json::parse_event_t::key &&
          !names.insert(parsed.get<std::string>()).second) {
        repeated = parsed.get<std::string>();
      }
      return true;
    };
    json header;
    try {
      header = json::parse(text, watch);
    } catch (const json::exception& e) {
      fail("{}: the header is not JSON: {}", path_, e.what());
    }
    check(header.is_object(), "{}: the header is not a JSON object", path_);
    check(repeated.empty(), "{}: tensor '{}' is listed twice", path_, repeated);
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

  Entry read_entry(const std::string& name, const json& value) const {
    check(value.is_object() && value.contains("dtype") && value.contains("shape") &&
              value.contains("data_offsets") && value["dtype"].is_string() &&
              value["shape"].is_array() && value["data_offsets"].is_array() &&
              value["data_offsets"].size() == 2,
          "{}: tensor '{}' lacks a proper dtype, shape or data_offsets", path_, name);
    Entry entry;
    entry.name = name;
    const std::string type = value["dtype"];
    bool known = false;
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8}) {
      if (format_name(dtype) != type) continue;
      entry.dtype = dtype;
      known = true;
    }
    check(known, "{}: tensor '{}' has dtype {}; only F32, F64, I32 and U8 can be read", path_, name,
          type);
    std::vector<std::int64_t> dims;
    for (const json& dim : value["shape"]) {
      check(dim.is_number_unsigned() && dims.size() < Shape::kMaxRank &&
                dim.get<std::uint64_t>() <= (std::uint64_t{1} << 48),
            "{}: tensor '{}' has an impossible shape {}", path_, name, value["shape"].dump());
      dims.push_back(dim.get<std::int64_t>());
    }
    entry.shape = Shape(dims);
    for (const json& offset : value["data_offsets"]) {
      check(offset.is_number_unsigned(), "{}: tensor '{}' has impossible data_offsets", path_,
            name);
    }
    entry.begin = value["data_offsets"][0].get<std::uint64_t>();
    entry.end = value["data_offsets"][1].get<std::uint64_t>();
    const std::uint64_t data = size_ - data_begin_;
    check(entry.begin <= entry.end && entry.end <= data,
          "{}: tensor '{}' lies at bytes {} to {}, but the file has {} bytes of data: truncated?",
          path_, name, entry.begin, entry.end, data);
    const std::uint64_t elements = count_elements(name, entry.shape);
    check(elements <= data && elements * size_of(entry.dtype) == entry.end - entry.begin,
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

  void check_layout(const std::vector<Entry>& entries) const {
    std::uint64_t at = 0;
    for (const Entry& entry : entries) {
      check(entry.begin == at, "{}: tensor '{}' starts at byte {} of the data, expected {}", path_,
            entry.name, entry.begin, at);
      at = entry.end;
    }
    check(at == size_ - data_begin_, "{}: the tensors end at byte {} of {} bytes of data", path_,
          at, size_ - data_begin_);
  }

  std::string path_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
  std::uint64_t data_begin_ = 0;
};

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check(name != kMetadataKey && !header.contains(name),
          "{}: a tensor cannot be saved under the name '{}'{}", path, name,
          header.contains(name) ? ": it is taken" : "");
    const std::uint64_t end = offset + tensor.bytes();
    header[name] = {{"dtype", format_name(tensor.dtype())},
                    {"shape", std::vector(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& e) {
    fail("{}: the names and the metadata of tensors must be UTF-8: {}", path, e.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  write_file_atomically(path, [&](FileWriter& file) {
    const std::uint64_t length = text.size();
    file.write({reinterpret_cast<const char*>(&length), sizeof length});
    file.write(text);
    for (const auto& [name, tensor] : tensors) {
      if (tensor.numel() > 0) file.write({bytes_of(tensor), tensor.bytes()});
    }
  });
}

const Tensor& SafeTensors::at(const std::string& name) const {
  const auto it = tensors.find(name);
  check(it != tensors.end(), "{}: there is no tensor '{}'", path, name);
  return it->second;
}

SafeTensors load_safetensors(const std::string& path) { return Reader(path).read(); }

}  // namespace tapegrad
