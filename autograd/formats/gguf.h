#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tapegrad/autograd/formats/tensor_source.h"
#include "tapegrad/base/file.h"

namespace tapegrad {

// GGUF, the file of ggml and llama.cpp: keys with values, then tensors.
// github.com/ggml-org/ggml, docs/gguf.md. What the keys of a model mean is not known here.

// A value as a file has it: the number of its type, and its bytes. What a reader finds is one of
// the others below; this is for values that pass through unread.
struct GgufStored {
  std::uint32_t type = 0;
  std::string bytes;
  bool operator==(const GgufStored&) const = default;
};
// A value. Whole numbers of any width and sign are std::int64_t, numbers of f32 and f64 are double:
// an f32 becomes the shortest decimal that it is the nearest one to, 1e-05 and not 9.99999975e-06.
using GgufValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>,
                               std::vector<std::int64_t>, std::vector<double>, GgufStored>;
using GgufKeys = std::map<std::string, GgufValue>;

// A file of version 2 or 3. Keys and the places of all tensors are read and checked at once;
// tensors are read one by one, by all threads. Shapes have their outermost dimension first, (out,
// in), which in the file is last. Errors, with the path: the file is truncated, or not what the
// format says; a tensor is of a type of ggml's that no StoredType is; a name is there twice;
// tensors overlap. No count in the file is believed before the file is seen to have room for it.
//
// The file is read where it is asked for, not mapped: a mapped file that somebody truncates ends
// the process.
class GgufFile : public TensorSource {
 public:
  explicit GgufFile(const std::filesystem::path& path, Links links = Links::followed);
  // A file without tensors that is in memory alone: what is about to be written. stored_value() has
  // none of its keys.
  GgufFile(std::string name, GgufKeys keys) : name_(std::move(name)), keys_(std::move(keys)) {}

  const std::string& name() const override { return name_; }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return metadata_; }
  const GgufKeys& keys() const { return keys_; }
  // The value of a key that the file has, as it stands there.
  GgufStored stored_value(const std::string& key) const;

  // More than any vocabulary takes.
  static constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kMaxNames = 100'000, kMaxArray = 4'000'000;

 private:
  struct Place {
    std::uint64_t offset, bytes;  // from the data's start
  };
  struct ValuePlace {
    std::uint32_t type = 0;
    std::uint64_t offset = 0, bytes = 0;  // from the file's start
  };
  friend class GgufReader;
  friend std::shared_ptr<const GgufFile> open_gguf_parts(const std::filesystem::path& path);

  // Takes the tensors of another part. Error, with its path, if it does not fit this one.
  void add(const std::shared_ptr<const GgufFile>& part);
  StoredTensor open(const std::string& tensor, const Entry& entry) const override;

  std::string name_;
  std::optional<InputFile> file_;  // none of keys in memory
  GgufKeys keys_;
  Entries entries_;
  Metadata metadata_;  // the keys that are texts
  std::map<std::string, Place> places_;
  std::map<std::string, std::shared_ptr<const GgufFile>> of_parts_;  // those of other files
  std::map<std::string, ValuePlace> value_places_;
  std::uint64_t data_begin_ = 0;
};

// The file at `path`; of a model that is split into files, as MODEL-00001-of-00003.gguf, all of it:
// the keys of the first one and the tensors of all. `path` may be that of any part. Errors beside
// those of GgufFile, with the path: a part is missing, its name does not say what it is, or parts
// do not belong together.
std::shared_ptr<const GgufFile> open_gguf_parts(const std::filesystem::path& path);

// True if a file begins as GGUF does. False for anything that cannot be read.
bool begins_as_gguf(const std::filesystem::path& path);

// A tensor to be written as `type`. `values` gives it as f32; it is called when its turn comes, so
// that no more than one is made at a time.
struct GgufTensor {
  std::string name;
  const StoredType* type = nullptr;
  Shape shape;
  std::function<Tensor()> values;
};

// The type that llama-quantize keeps rows of so many elements in, if asked for `type`: that of
// smaller blocks where its own do not fill them, or else f16.
const StoredType& gguf_row_type(const StoredType& type, std::int64_t columns);

// Writes a file of version 3, atomically. Whole numbers are written as u32 (in lists, as i32),
// other numbers as f32: what llama.cpp reads. Blocks are those that llama.cpp's quantiser makes, to
// the byte. Errors: a value does not fit its type; ggml has no such type; rows are not of whole
// blocks; the type cannot hold a weight; GgufFile would not read so many keys, names or elements.
void write_gguf(const std::filesystem::path& path, const GgufKeys& keys,
                const std::vector<GgufTensor>& tensors);

}  // namespace tapegrad
