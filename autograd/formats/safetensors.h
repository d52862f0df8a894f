#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/autograd/formats/tensor_source.h"
#include "tapegrad/base/file.h"

namespace tapegrad {

// Hugging Face's safetensors: an 8-byte little-endian length, a JSON header, then the tensors'
// bytes. github.com/huggingface/safetensors, "Format".

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Writes the tensors, of any dtype, in the order given. The file appears only when complete.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata = {});

// A tensor of f32 that is made when it is its turn to be written, so that a file whose tensors are
// not those in memory takes no more than one of them.
struct TensorToMake {
  std::string name;
  Shape shape;
  std::function<Tensor()> make;
  const StoredType* type = nullptr;  // [that of the other tensors]
};
// Saves tensors that are made when their turn comes. Values become those of `type`, unless a tensor
// has a type of its own. Errors: safetensors has no such type; the type cannot hold a value, whose
// tensor is named.
void save_safetensors(const std::string& path, const std::vector<TensorToMake>& tensors,
                      const StoredType& type, const Metadata& metadata = {});

// All contents of a file, in memory.
struct SafeTensors {
  std::map<std::string, Tensor> tensors;
  Metadata metadata;
  // The tensor of that name; Error, naming the file, if there is none.
  const Tensor& at(const std::string& name) const;
  std::string path;
};

// A file of tensors of the types that have a name in safetensors, whose header is read and checked
// at once and whose tensors are read one by one. A file that is truncated, has overlapping or
// missing bytes, or a header that is not what the format says, is an Error with the path and the
// place; no tensor larger than the file is ever allocated, and headers of more than 8 MB are
// refused.
std::shared_ptr<const TensorSource> open_safetensors(const std::string& path,
                                                     Links links = Links::followed);
// All tensors of such a file at once.
SafeTensors load_safetensors(const std::string& path);

}  // namespace tapegrad
