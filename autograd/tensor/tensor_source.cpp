#include "tapegrad/autograd/tensor/tensor_source.h"

namespace tapegrad {
namespace {

class MemorySource : public TensorSource {
 public:
  MemorySource(std::map<std::string, Tensor> tensors, std::string name, Metadata metadata)
      : tensors_(std::move(tensors)), name_(std::move(name)), metadata_(std::move(metadata)) {
    for (const auto& [key, t] : tensors_) {
      entries_[key] = {std::string(name_of(t.dtype())), t.dtype(), t.shape()};
    }
  }

  const std::string& name() const override { return name_; }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return metadata_; }

 private:
  Tensor load(const std::string& tensor, const Entry&, DType as) const override {
    return tensors_.at(tensor).to(as);
  }

  std::map<std::string, Tensor> tensors_;
  std::string name_;
  Metadata metadata_;
  Entries entries_;
};

}  // namespace

const TensorSource::Entry& TensorSource::at(const std::string& tensor) const {
  const auto found = entries().find(tensor);
  check(found != entries().end(), "{}: there is no tensor '{}'", name(), tensor);
  return found->second;
}

Tensor TensorSource::read(const std::string& tensor, std::optional<DType> as) const {
  const Entry& entry = at(tensor);
  const DType dtype = as.value_or(entry.dtype);
  check(dtype == entry.dtype || (is_float(dtype) && is_float(entry.dtype)),
        "{}: tensor '{}' is stored as {} and cannot be read as {}", name(), tensor,
        entry.stored_dtype, name_of(dtype));
  return load(tensor, entry, dtype);
}

std::shared_ptr<const TensorSource> memory_source(std::map<std::string, Tensor> tensors,
                                                  std::string name, Metadata metadata) {
  return std::make_shared<MemorySource>(std::move(tensors), std::move(name), std::move(metadata));
}

}  // namespace tapegrad
