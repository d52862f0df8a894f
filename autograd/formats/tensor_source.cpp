#include "tapegrad/autograd/formats/tensor_source.h"

#include "tapegrad/autograd/tensor/stored_tensor.h"

namespace tapegrad {
namespace {

class MemorySource : public TensorSource {
 public:
  MemorySource(std::map<std::string, Tensor> tensors, std::string name, Metadata metadata)
      : tensors_(std::move(tensors)), name_(std::move(name)), metadata_(std::move(metadata)) {
    for (const auto& [key, t] : tensors_) {
      entries_.emplace(key, Entry::of(stored_type(t.dtype()), t.shape()));
    }
  }

  const std::string& name() const override { return name_; }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return metadata_; }

 private:
  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return {tensors_.at(tensor), fmt::format("{}: tensor '{}'", name_, tensor)};
  }

  std::map<std::string, Tensor> tensors_;
  std::string name_;
  Metadata metadata_;
  Entries entries_;
};

}  // namespace

TensorSource::Entry TensorSource::Entry::of(const StoredType& type, const Shape& shape) {
  return {&type, type.dtype, shape};
}

const TensorSource::Entry& TensorSource::at(const std::string& tensor) const {
  const auto found = entries().find(tensor);
  check(found != entries().end(), "{}: there is no tensor '{}'", name(), tensor);
  return found->second;
}

StoredTensor TensorSource::stored(const std::string& tensor) const {
  const Entry& entry = at(tensor);
  check(entry.type != nullptr, "{}: tensor '{}' is computed, and stored nowhere", name(), tensor);
  return open(tensor, entry);
}

Tensor TensorSource::read(const std::string& tensor, std::optional<DType> as) const {
  const Entry& entry = at(tensor);
  const DType dtype = as.value_or(entry.dtype);
  const bool narrows =
      dtype == DType::i32 && entry.type != nullptr && entry.type->to_i32 != nullptr;
  check(dtype == entry.dtype || narrows || (is_float(dtype) && is_float(entry.dtype)),
        "{}: tensor '{}' is of {} and cannot be read as {}", name(), tensor, name_of(entry.dtype),
        name_of(dtype));
  return entry.type == nullptr ? compute(tensor, dtype) : open(tensor, entry).widened(dtype);
}

Tensor TensorSource::compute(const std::string& tensor, DType) const {
  fail("{}: tensor '{}' is stored nowhere", name(), tensor);
}

std::shared_ptr<const TensorSource> memory_source(std::map<std::string, Tensor> tensors,
                                                  std::string name, Metadata metadata) {
  return std::make_shared<MemorySource>(std::move(tensors), std::move(name), std::move(metadata));
}

}  // namespace tapegrad
