#pragma once

#include <memory>
#include <string>

#include "tapegrad/autograd/formats/pickle.h"
#include "tapegrad/autograd/formats/stored_zip.h"
#include "tapegrad/autograd/formats/tensor_source.h"

namespace tapegrad {

// A file of torch.save: a zip archive with a pickle of values (see Pickle) and a file for each
// storage, in which tensors lie with an offset and strides. Nothing of it is run.
class TorchFile {
 public:
  // Error, naming the path, for a file that is broken, big-endian, or of a PyTorch before 1.6.
  explicit TorchFile(const std::filesystem::path& path);

  const std::string& name() const { return zip_.name(); }
  const PickleValue& root() const { return pickle_.root(); }

  // Error, calling the tensor `what`, if it does not lie within its storage, or has more elements
  // than that.
  TensorSource::Entry entry_of(const PickleValue& tensor, const std::string& what) const;
  // The tensor in order. Where its strides are others, its bytes are read and put into order now.
  StoredTensor stored(const PickleValue& tensor, const std::string& what) const;

 private:
  struct Layout;
  Layout layout_of(const PickleValue& tensor, const std::string& what) const;

  StoredZip zip_;
  std::string folder_;  // of all files in the archive
  Pickle pickle_;
};

// True if two values are the same tensor: tied weights are.
bool is_same_tensor(const PickleValue& a, const PickleValue& b);

// The tensors of a dict of the file, by their keys. Error, naming it, if the dict has anything
// else.
std::shared_ptr<const TensorSource> tensors_of(std::shared_ptr<const TorchFile> file,
                                               const PickleValue& dict);

}  // namespace tapegrad
