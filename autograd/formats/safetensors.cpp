#include "tapegrad/autograd/formats/safetensors.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/formats/internal/safetensors_header.h"
#include "tapegrad/autograd/tensor/internal/write_stored.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"

namespace tapegrad {
namespace {

using nlohmann::json;

// The format allows 100 MB. A model of ten thousand tensors needs 2 MB, and a parsed header takes
// tens of times its size.
constexpr std::uint64_t kMaxHeader = 8'000'000;

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

  StoredTensor open(const std::string& tensor, const Entry& entry) const override {
    return {*entry.type, entry.shape, file_, data_begin_ + header_.begins.at(tensor),
            fmt::format("{}: tensor '{}'", path_, tensor)};
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

  void add(const std::string& name, const StoredType& type, const Shape& shape) {
    check(name != kMetadataKey && !header_.contains(name),
          "{}: a tensor cannot be saved under the name '{}'{}", path_, name,
          header_.contains(name) ? ": it is taken" : "");
    check(!type.safetensors.empty(), "{}: safetensors cannot store {}", path_, type.name);
    const auto bytes = stored_bytes(type, shape);
    check(bytes.has_value(), "{}: '{}' of shape {} cannot be stored as {}", path_, name, shape,
          type.name);
    header_[name] = {{"dtype", type.safetensors},
                     {"shape", std::vector(shape.begin(), shape.end())},
                     {"data_offsets", {offset_, offset_ + *bytes}}};
    offset_ += *bytes;
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
    header.add(name, stored_type(tensor.dtype()), tensor.shape());
  }
  write_file_atomically(path, [&](FileWriter& file) {
    header.write(file);
    for (const auto& [name, tensor] : tensors) {
      write_stored(file, name, tensor, stored_type(tensor.dtype()));
    }
  });
}

void save_safetensors(const std::string& path, const std::vector<TensorToMake>& tensors,
                      const StoredType& type, const Metadata& metadata) {
  HeaderText header(path, metadata);
  const auto type_of = [&](const TensorToMake& t) -> const StoredType& {
    return t.type == nullptr ? type : *t.type;
  };
  for (const TensorToMake& t : tensors) header.add(t.name, type_of(t), t.shape);
  write_file_atomically(path, [&](FileWriter& file) {
    header.write(file);
    for (const TensorToMake& t : tensors) {
      const Tensor made = t.make();
      check(made.shape() == t.shape, "{}: tensor '{}' is {}, not {}", path, t.name, made.shape(),
            t.shape);
      write_stored(file, t.name, made, type_of(t));
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
