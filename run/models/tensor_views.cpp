#include "tapegrad/run/models/tensor_views.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/nn/decoder_names.h"

namespace tapegrad::run {
namespace {

class FirstPositions : public TensorSource {
 public:
  FirstPositions(std::shared_ptr<const TensorSource> source, const nn::DecoderConfig& config)
      : source_(std::move(source)), entries_(source_->entries()) {
    if (config.position_kind() != nn::Positions::learned) return;
    const auto it = entries_.find(nn::decoder_names(config).positions + std::string(".weight"));
    if (it == entries_.end()) return;  // which the model will miss
    const std::int64_t count = config.block_size;
    Shape& shape = it->second.shape;
    if (shape.rank() == 2 && shape[0] > count) shape[0] = count;
  }
  const std::string& name() const override { return source_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return source_->metadata(); }

 private:
  StoredTensor open(const std::string& tensor, const Entry& entry) const override {
    const StoredTensor all = source_->stored(tensor);
    return all.shape() == entry.shape ? all : all.first_rows(entry.shape[0]);
  }
  // Adapted weights, never the positions: those belong to no linear layer.
  Tensor compute(const std::string& tensor, DType as) const override {
    return source_->read(tensor, as);
  }

  std::shared_ptr<const TensorSource> source_;
  Entries entries_;
};

class Joined : public TensorSource {
 public:
  Joined(std::shared_ptr<const TensorSource> one, std::shared_ptr<const TensorSource> other)
      : one_(std::move(one)), other_(std::move(other)), entries_(one_->entries()) {
    for (const auto& [tensor, entry] : other_->entries()) {
      check(entries_.emplace(tensor, entry).second, "the tensor '{}' is in {} and in {}", tensor,
            one_->name(), other_->name());
    }
  }
  const std::string& name() const override { return other_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return other_->metadata(); }

 private:
  const TensorSource& of(const std::string& tensor) const {
    return other_->contains(tensor) ? *other_ : *one_;
  }
  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return of(tensor).stored(tensor);
  }
  Tensor compute(const std::string& tensor, DType as) const override {
    return of(tensor).read(tensor, as);
  }

  std::shared_ptr<const TensorSource> one_, other_;
  Entries entries_;
};

class AdaptersAmong : public TensorSource {
 public:
  explicit AdaptersAmong(std::shared_ptr<const TensorSource> source)
      : source_(std::move(source)), entries_(source_->entries()) {
    std::erase_if(entries_, [](const auto& entry) {
      return !entry.first.ends_with(".lora_A.weight") && !entry.first.ends_with(".lora_B.weight");
    });
  }
  const std::string& name() const override { return source_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return source_->metadata(); }

 private:
  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return source_->stored(tensor);
  }

  std::shared_ptr<const TensorSource> source_;
  Entries entries_;
};

// The fingerprints of the parts of a tensor, one behind the other.
std::string prints_of(const StoredTensor& tensor) {
  constexpr std::uint64_t kPart = std::uint64_t{1} << 20;
  const std::uint64_t parts = (tensor.bytes() + kPart - 1) / kPart;
  std::vector<std::string> prints(static_cast<std::size_t>(parts));
  parallel_for(std::ssize(prints), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> bytes;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t at = static_cast<std::uint64_t>(i) * kPart;
      bytes.resize(static_cast<std::size_t>(std::min(kPart, tensor.bytes() - at)));
      check(tensor.read(at, bytes.data(), bytes.size()), "{}: reading it failed", tensor.label());
      prints[static_cast<std::size_t>(i)] =
          fingerprint({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  });
  std::string all;
  for (const std::string& print : prints) all += print;
  return all;
}

}  // namespace

std::shared_ptr<const TensorSource> first_positions(std::shared_ptr<const TensorSource> source,
                                                    const nn::DecoderConfig& config) {
  return std::make_shared<FirstPositions>(std::move(source), config);
}

std::shared_ptr<const TensorSource> joined(std::shared_ptr<const TensorSource> one,
                                           std::shared_ptr<const TensorSource> other) {
  return std::make_shared<Joined>(std::move(one), std::move(other));
}

std::shared_ptr<const TensorSource> adapters_among(std::shared_ptr<const TensorSource> source) {
  return std::make_shared<AdaptersAmong>(std::move(source));
}

std::string fingerprint_of(const TensorSource& source) {
  Fingerprint print;
  for (const auto& [name, entry] : source.entries()) {
    print.add(
        fmt::format("{} {} {}\n", name, entry.type ? entry.type->name : "computed", entry.shape));
    print.add(prints_of(entry.type ? source.stored(name)
                                   : StoredTensor(source.read(name, DType::f32), name)));
  }
  return print.str();
}

}  // namespace tapegrad::run
