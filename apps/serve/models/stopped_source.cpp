#include "tapegrad/apps/serve/models/stopped_source.h"

#include <utility>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/error.h"

namespace tapegrad::serve {
namespace {

class StoppedSource : public TensorSource {
 public:
  StoppedSource(const std::atomic<bool>& stops, std::shared_ptr<const TensorSource> source)
      : stops_(stops), source_(std::move(source)) {}

  const std::string& name() const override { return source_->name(); }
  const Entries& entries() const override { return source_->entries(); }
  const Metadata& metadata() const override { return source_->metadata(); }

 private:
  StoredTensor open(const std::string& tensor, const Entry&) const override {
    look();
    return source_->stored(tensor);
  }
  Tensor compute(const std::string& tensor, DType as) const override {
    look();
    return source_->read(tensor, as);
  }
  void look() const { check(!stops_, "{}: the server is ending", name()); }

  const std::atomic<bool>& stops_;
  const std::shared_ptr<const TensorSource> source_;
};

}  // namespace

std::shared_ptr<const TensorSource> until(const std::atomic<bool>& stops,
                                          std::shared_ptr<const TensorSource> source) {
  if (source == nullptr) return nullptr;
  return std::make_shared<const StoppedSource>(stops, std::move(source));
}

}  // namespace tapegrad::serve
