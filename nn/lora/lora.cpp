#include "tapegrad/nn/lora/lora.h"

#include <optional>
#include <string_view>
#include <utility>

#include "tapegrad/autograd/ops/expert_ops.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"

namespace tapegrad::nn {
namespace {

const std::string kA = "lora_A.weight", kB = "lora_B.weight";

// "h.0.attn.c_attn." of "h.0.attn.c_attn.lora_A.weight"; nothing for other names.
std::optional<std::string> layer_of(const std::string& tensor, std::string_view end) {
  if (!tensor.ends_with(end)) return std::nullopt;
  return tensor.substr(0, tensor.size() - end.size());
}

class MergedSource : public TensorSource {
 public:
  MergedSource(std::shared_ptr<const TensorSource> source, const LoraOptions& options)
      : source_(std::move(source)), scale_(options.scale()), entries_(source_->entries()) {
    for (const auto& [tensor, entry] : source_->entries()) {
      if (const auto layer = layer_of(tensor, kA)) {
        check_adapter(*layer, options.rank);
        entries_.erase(*layer + kA);
        entries_.erase(*layer + kB);
        const auto weight = entries_.find(*layer + "weight");
        if (weight != entries_.end()) weight->second.type = nullptr;  // a sum
      }
    }
    check(entries_.size() < source_->entries().size(), "{}: there are no adapters in it", name());
  }

  const std::string& name() const override { return source_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return source_->metadata(); }

 private:
  void check_adapter(const std::string& layer, std::int64_t rank) const {
    const Shape &weight = source_->at(layer + "weight").shape, &a = source_->at(layer + kA).shape,
                &b = source_->at(layer + kB).shape;
    check(weight.rank() >= 2 && a == weight.with(-2, rank) && b == weight.with(-1, rank),
          "{}: the adapter of '{}weight' {} has the matrices {} and {}, which are not of rank {}",
          name(), layer, weight, a, b, rank);
  }

  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return source_->stored(tensor);
  }
  Tensor compute(const std::string& tensor, DType as) const override {
    const Tensor weight = source_->read(tensor, as);
    const auto layer = layer_of(tensor, "weight");
    if (!layer || !source_->contains(*layer + kA)) return weight;  // the other source computes it
    return weight + matmul(source_->read(*layer + kB, as), source_->read(*layer + kA, as)) * scale_;
  }

  std::shared_ptr<const TensorSource> source_;
  double scale_;
  Entries entries_;
};

}  // namespace

Lora::Lora(const Params& p, std::int64_t in, std::int64_t out) {
  const LoraOptions* options = p.adapter();
  if (options == nullptr) return;
  A = p.adapter_parameter(kA, {options->rank, in}, kaiming_uniform(in));
  B = p.adapter_parameter(kB, {out, options->rank}, zeros());
  scale = options->scale();
  precision = at_least_bf16(p.precision());  // sums of a few numbers
}

StackedLora::StackedLora(const Params& p, std::int64_t experts, std::int64_t in, std::int64_t out) {
  for (const Params& adapters : p.offered()) {
    check(
        adapters.adapter() == nullptr,
        "texts cannot choose adapters of experts yet: merge them into the model (tapegrad merge)");
  }
  const LoraOptions* options = p.adapter();
  if (options == nullptr) return;
  A = p.adapter_parameter(kA, {experts, options->rank, in}, kaiming_uniform(in));
  B = p.adapter_parameter(kB, {experts, out, options->rank}, zeros());
  scale = options->scale();
  precision = at_least_bf16(p.precision());
}

Tensor StackedLora::operator()(const Tensor& x, const Tensor& ends) const {
  return grouped_linear(grouped_linear(x, {A, precision}, ends) * scale, {B, precision}, ends);
}

std::shared_ptr<const TensorSource> merge_adapters(std::shared_ptr<const TensorSource> source,
                                                   const LoraOptions& options) {
  check(source != nullptr && options.rank > 0, "adapters to merge need a source and a rank");
  return std::make_shared<MergedSource>(std::move(source), options);
}

}  // namespace tapegrad::nn
