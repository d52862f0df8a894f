#include <algorithm>
#include <set>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/formats/internal/gguf_layout.h"
#include "tapegrad/autograd/tensor/internal/write_stored.h"

namespace tapegrad {
namespace {

using Type = GgufValueType;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

template <class T>
T fitting(const std::string& key, std::int64_t value) {
  check(std::in_range<T>(value), "[gguf] the key '{}' cannot be {}", key, value);
  return static_cast<T>(value);
}

// Error for more than the reader accepts.
void check_count(std::string_view what, std::size_t count, std::uint64_t most) {
  check(count <= most, "[gguf] {} {} are more than the {} that a file may have", count, what, most);
}

// Appends the type and the value of a key.
struct ValueWriter {
  std::string& out;
  const std::string& key;

  void type(Type t) const { put(out, t); }
  void list(Type t, std::size_t count) const {
    check_count("elements of " + key, count, GgufFile::kMaxArray);
    type(Type::list);
    type(t);
    put<std::uint64_t>(out, count);
  }
  void operator()(bool value) const {
    type(Type::boolean);
    put<std::uint8_t>(out, value);
  }
  void operator()(std::int64_t value) const {
    type(Type::u32);
    put(out, fitting<std::uint32_t>(key, value));
  }
  void operator()(double value) const {
    type(Type::f32);
    put(out, static_cast<float>(value));
  }
  void operator()(const GgufStored& value) const {
    put(out, value.type);
    out += value.bytes;
  }
  void operator()(const std::string& value) const {
    type(Type::text);
    put_text(out, value);
  }
  void operator()(const std::vector<std::string>& values) const {
    list(Type::text, values.size());
    for (const std::string& value : values) put_text(out, value);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    list(Type::i32, values.size());
    for (const std::int64_t value : values) put(out, fitting<std::int32_t>(key, value));
  }
  void operator()(const std::vector<double>& values) const {
    list(Type::f32, values.size());
    for (const double value : values) put(out, static_cast<float>(value));
  }
};

std::uint64_t padding_of(std::uint64_t bytes) {
  return (kGgufAlignment - bytes % kGgufAlignment) % kGgufAlignment;
}

std::uint64_t bytes_in_file(const GgufTensor& tensor) {
  const auto bytes = stored_bytes(*tensor.type, tensor.shape);
  check(bytes.has_value(), "[gguf] '{}' of shape {} has rows that are not of whole blocks of {}",
        tensor.name, tensor.shape, tensor.type->block);
  return *bytes;
}

std::string header_of(const GgufKeys& keys, const std::vector<GgufTensor>& tensors) {
  check_count("keys", keys.size(), GgufFile::kMaxNames);
  check_count("tensors", tensors.size(), GgufFile::kMaxNames);
  std::string out(std::begin(kGgufMagic), std::end(kGgufMagic));
  put<std::uint32_t>(out, 3);
  put<std::uint64_t>(out, tensors.size());
  put<std::uint64_t>(out, keys.size());
  for (const auto& [key, value] : keys) {
    put_text(out, key);
    std::visit(ValueWriter{out, key}, value);
  }
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    check(names.insert(tensor.name).second, "[gguf] the tensor '{}' is there twice", tensor.name);
    put_text(out, tensor.name);
    put(out, static_cast<std::uint32_t>(tensor.shape.rank()));
    for (int i = tensor.shape.rank() - 1; i >= 0; --i) {
      put(out, static_cast<std::uint64_t>(tensor.shape[i]));
    }
    check(tensor.type != nullptr, "[gguf] the tensor '{}' has no type", tensor.name);
    check(tensor.type->ggml.has_value(), "[gguf] ggml has no type {}", tensor.type->name);
    put(out, *tensor.type->ggml);
    put(out, offset);
    offset += bytes_in_file(tensor);
    offset += padding_of(offset);
  }
  check_count("bytes of keys and names", out.size(), GgufFile::kMaxHeaderBytes);
  out.append(padding_of(out.size()), '\0');
  return out;
}

void write_values(FileWriter& file, const GgufTensor& tensor) {
  const Tensor values = tensor.values();
  check(values.shape() == tensor.shape, "[gguf] '{}' is {}, not {}", tensor.name, values.shape(),
        tensor.shape);
  write_stored(file, tensor.name, values, *tensor.type);
  file.write(std::string(padding_of(bytes_in_file(tensor)), '\0'));
}

}  // namespace

const StoredType& gguf_row_type(const StoredType& type, std::int64_t columns) {
  const char* const smaller = type.name == "q4_k" ? "q5_0" : type.name == "q5_k" ? "q5_1" : "q8_0";
  for (const StoredType* fits : {&type, &stored_type(smaller)}) {
    if (columns % fits->block == 0) return *fits;
  }
  return stored_type("f16");
}

void write_gguf(const std::filesystem::path& path, const GgufKeys& keys,
                const std::vector<GgufTensor>& tensors) {
  const std::string header = header_of(keys, tensors);
  write_file_atomically(path, [&](FileWriter& file) {
    file.write(header);
    for (const GgufTensor& tensor : tensors) write_values(file, tensor);
  });
}

}  // namespace tapegrad
