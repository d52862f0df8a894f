#include "tapegrad/autograd/tensor/safetensors.h"

#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/tensor/safetensors_header.h"
#include "tapegrad/autograd/tensor/stored_elements.h"
#include "tapegrad/autograd/tensor/write_floats.h"

namespace tapegrad {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

// The format allows 100 MB. A model of ten thousand tensors needs 2 MB, and a parsed header takes
// tens of times its size.
constexpr std::uint64_t kMaxHeader = 8'000'000;

// The first stored type that is read as `dtype` is the one of equal precision.
std::string_view format_name(DType dtype) {
  for (const StoredType& type : kStoredTypes) {
    if (type.dtype == dtype) return type.name;
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

class SafetensorsFile : public TensorSource {
 public:
  // The checks of std::filesystem come first, since their messages say best what is wrong.
  SafetensorsFile(const std::string& path, Links links) : path_(path), file_(checked(path), links) {
    std::uint64_t length = 0;
    const std::uint64_t size = file_.size();
    check(size >= sizeof length, "{}: {} bytes are too few for a safetensors file", path_, size);
    check(file_.read(0, &length, sizeof length), "{}: reading the header failed", path_);
    check(length <= kMaxHeader && length <= size - sizeof length,
          "{}: the header says it has {} bytes, but the file has {}: truncated, or not a "
          "safetensors file",
          path_, length, size);
    std::string text(length, '\0');
    check(file_.read(sizeof length, text.data(), length), "{}: reading the header failed", path_);
    data_begin_ = sizeof length + length;
    header_ = parse_safetensors_header(path_, text, size - data_begin_);
  }

  const std::string& name() const override { return path_; }
  const Entries& entries() const override { return header_.entries; }
  const Metadata& metadata() const override { return header_.metadata; }

 private:
  static const std::string& checked(const std::string& path) {
    std::error_code error;
    check(std::filesystem::exists(path, error), "{}: there is no such file", path);
    check(std::filesystem::is_regular_file(path, error), "{}: not a regular file", path);
    return path;
  }

  Tensor load(const std::string& tensor, const Entry& entry, DType as) const override {
    Tensor t = Tensor::empty(entry.shape, as);
    check(read_stored(file_, data_begin_ + header_.begins.at(tensor), entry.stored_dtype, t),
          "{}: reading tensor '{}' failed", path_, tensor);
    return t;
  }

  std::string path_;
  InputFile file_;
  std::uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
};

}  // namespace

namespace {

// The header of a file that gets tensors one by one.
class HeaderText {
 public:
  HeaderText(const std::string& path, const Metadata& metadata) : path_(path) {
    if (!metadata.empty()) header_[std::string(kMetadataKey)] = metadata;
  }

  void add(const std::string& name, std::string_view type, const Shape& shape, std::size_t bytes) {
    check(name != kMetadataKey && !header_.contains(name),
          "{}: a tensor cannot be saved under the name '{}'{}", path_, name,
          header_.contains(name) ? ": it is taken" : "");
    header_[name] = {{"dtype", type},
                     {"shape", std::vector(shape.begin(), shape.end())},
                     {"data_offsets", {offset_, offset_ + bytes}}};
    offset_ += bytes;
  }

  void write(FileWriter& file) const {
    std::string text;
    try {
      text = header_.dump();
    } catch (const json::exception& e) {
      fail("{}: the names and the metadata of tensors must be UTF-8: {}", path_, e.what());
    }
    text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
    const std::uint64_t length = text.size();
    file.write({reinterpret_cast<const char*>(&length), sizeof length});
    file.write(text);
  }

 private:
  const std::string& path_;
  nlohmann::ordered_json header_ = nlohmann::ordered_json::object();
  std::uint64_t offset_ = 0;
};

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata) {
  HeaderText header(path, metadata);
  for (const auto& [name, tensor] : tensors) {
    header.add(name, format_name(tensor.dtype()), tensor.shape(), tensor.bytes());
  }
  write_file_atomically(path, [&](FileWriter& file) {
    header.write(file);
    for (const auto& [name, tensor] : tensors) {
      if (tensor.numel() > 0) file.write({bytes_of(tensor), tensor.bytes()});
    }
  });
}

void save_safetensors(const std::string& path, const std::vector<TensorToMake>& tensors,
                      std::string_view stored, const Metadata& metadata) {
  HeaderText header(path, metadata);
  const std::size_t size = stored == "F32" ? 4 : 2;
  for (const TensorToMake& t : tensors) {
    header.add(t.name, stored, t.shape, static_cast<std::size_t>(t.shape.numel()) * size);
  }
  write_file_atomically(path, [&](FileWriter& file) {
    header.write(file);
    for (const TensorToMake& t : tensors) {
      const Tensor made = t.make();
      check(made.shape() == t.shape, "{}: tensor '{}' is {}, not {}", path, t.name, made.shape(),
            t.shape);
      check_fits(t.name, made, stored);
      write_floats(file, made, stored);
    }
  });
}

const Tensor& SafeTensors::at(const std::string& name) const {
  const auto it = tensors.find(name);
  check(it != tensors.end(), "{}: there is no tensor '{}'", path, name);
  return it->second;
}

std::shared_ptr<const TensorSource> open_safetensors(const std::string& path, Links links) {
  return std::make_shared<SafetensorsFile>(path, links);
}

SafeTensors load_safetensors(const std::string& path) {
  const SafetensorsFile file(path, Links::followed);
  SafeTensors result{.tensors = {}, .metadata = file.metadata(), .path = path};
  for (const auto& [name, entry] : file.entries()) result.tensors.emplace(name, file.read(name));
  return result;
}

}  // namespace tapegrad
