#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

using Metadata = std::map<std::string, std::string>;

// Named tensors that somebody keeps: a file, several files, or memory. Names, dtypes and shapes are
// known at once. The data of a tensor is read when it is asked for, so that a large model is never
// in memory twice.
class TensorSource {
 public:
  struct Entry {
    std::string stored_dtype;  // as the source calls it, for messages: "F16"
    DType dtype;               // what read() gives; of F16 and BF16, f32
    Shape shape;
  };
  using Entries = std::map<std::string, Entry>;

  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  // What messages call this source: the path of a file.
  virtual const std::string& name() const = 0;
  virtual const Entries& entries() const = 0;
  // What the source says of itself beside its tensors.
  virtual const Metadata& metadata() const = 0;

  bool contains(const std::string& tensor) const { return entries().count(tensor) != 0; }
  // The entry of this name. Error, naming the source, if there is none.
  const Entry& at(const std::string& tensor) const;
  // A new tensor with the data of this name; nobody else holds it. With `as`, floats are converted
  // to that dtype while they are read. Errors, naming source and tensor: there is none of this
  // name; `as` needs a conversion other than between floats; the data cannot be read any more.
  Tensor read(const std::string& tensor, std::optional<DType> as = {}) const;

 protected:
  TensorSource() = default;

 private:
  // Does what read() says, which has checked the name and the dtype.
  virtual Tensor load(const std::string& tensor, const Entry& entry, DType as) const = 0;
};

// A source of tensors that are in memory already. read() copies. `name` is for messages.
std::shared_ptr<const TensorSource> memory_source(std::map<std::string, Tensor> tensors,
                                                  std::string name, Metadata metadata = {});

// The source of a safetensors file is open_safetensors(path), in safetensors.h.

}  // namespace tapegrad
