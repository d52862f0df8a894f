#pragma once

#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"

namespace tapegrad::optim {

// A checkpoint's file without the tensors that somebody else has put beside what an optimiser
// keeps: `before` + the name of each parameter. The file must live as long as this. Error if it has
// such tensors of other names.
class WithoutTensors : public TensorSource {
 public:
  WithoutTensors(const TensorSource& file, const std::string& before,
                 const NamedTensors& parameters)
      : file_(file), entries_(file.entries()) {
    for (const auto& [name, t] : parameters) entries_.erase(before + name);
    for (const auto& [name, entry] : entries_) {
      check(!name.starts_with(before),
            "{}: it has '{}', but no parameter that is trained has this name", file.name(), name);
    }
  }
  const std::string& name() const override { return file_.name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return file_.metadata(); }

 private:
  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return file_.stored(tensor);
  }
  Tensor compute(const std::string& tensor, DType as) const override {
    return file_.read(tensor, as);
  }

  const TensorSource& file_;
  Entries entries_;
};

}  // namespace tapegrad::optim
