#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

class StoredTensor;
struct StoredType;

using Metadata = std::map<std::string, std::string>;

// Named tensors that somebody keeps: a file, several files, or memory. Names, types and shapes are
// known at once. The data of a tensor is read when it is asked for, so that a large model is never
// in memory twice: stored() gives it as it is stored, and read() as a tensor.
class TensorSource {
 public:
  struct Entry {
    const StoredType* type;  // as it is stored; null: read() computes it, from several tensors
    DType dtype;             // of read()'s results; of f16 and bf16, f32
    Shape shape;
    static Entry of(const StoredType& type, const Shape& shape);
  };
  using Entries = std::map<std::string, Entry>;

  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  // The name of this source in messages: the path of a file.
  virtual const std::string& name() const = 0;
  virtual const Entries& entries() const = 0;
  // The source's own words beside its tensors.
  virtual const Metadata& metadata() const = 0;

  bool contains(const std::string& tensor) const { return entries().count(tensor) != 0; }
  // The entry of this name. Error, naming the source, if there is none.
  const Entry& at(const std::string& tensor) const;
  // The tensor of this name as it is stored, for as long as the source lives. Errors: there is none
  // of this name; it is computed.
  StoredTensor stored(const std::string& tensor) const;
  // A new tensor with the data of this name; nobody else holds it. With `as`, floats are converted
  // to that dtype while they are read. Errors, naming source and tensor: there is none of this
  // name; `as` needs a conversion other than between floats; the data cannot be read any more.
  Tensor read(const std::string& tensor, std::optional<DType> as = {}) const;

 protected:
  TensorSource() = default;

 private:
  // The tensor of an entry that has a type.
  virtual StoredTensor open(const std::string& tensor, const Entry& entry) const = 0;
  // The tensor of an entry that has none, in `as`, which read() has checked. A source that has such
  // entries, or passes on those of another source, overrides it.
  virtual Tensor compute(const std::string& tensor, DType as) const;
};

// A source of tensors that are in memory already. read() copies. `name` is for messages.
std::shared_ptr<const TensorSource> memory_source(std::map<std::string, Tensor> tensors,
                                                  std::string name, Metadata metadata = {});

// The source of a safetensors file is open_safetensors(path), in safetensors.h.

}  // namespace tapegrad
