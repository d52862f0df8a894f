#include "tapegrad/run/models/formats/gguf/internal/gguf_weights.h"

#include <map>
#include <set>
#include <utility>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_forms.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_names.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"

namespace tapegrad::run {
namespace {

bool is_table(const std::string& theirs) { return theirs == kTokenTable || theirs == kHeadTable; }

class GgufWeights : public TensorSource {
 public:
  GgufWeights(std::shared_ptr<const GgufFile> file, const Family& family,
              const nn::DecoderConfig& config)
      : file_(std::move(file)), config_(config) {
    std::set<std::string> known;
    if (family.gguf.may_scale_rotation) known.insert(kRopeDivisors);
    if (config.rope_scaling == nn::RopeScalingKind::longrope) {
      known.insert({kShortFactors, kLongFactors});
    }
    for (GgufName& name : gguf_names(family, config)) {
      known.insert(name.theirs);
      add(std::move(name));
    }
    check_moved();
    for (const auto& [name, entry] : file_->entries()) {
      check(known.count(name) != 0, "{}: the tensor '{}' is not one of a model of this kind",
            file_->name(), name);
    }
  }
  const std::string& name() const override { return file_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return file_->metadata(); }

 private:
  void add(GgufName name) {
    Entry entry = file_->at(name.theirs);
    if (gguf_value(*file_, kMeanEndRow, false) && is_table(name.theirs) &&
        entry.shape.rank() == 2) {
      --entry.shape[0];
    }
    check(is_float(entry.dtype), "{}: '{}' is {}, not of floats", file_->name(), name.theirs,
          name_of(entry.dtype));
    entry.shape = our_shape(name, entry.shape, file_->name());
    if (name.moves()) note_moved(name, entry.shape);
    const bool is_stored = !is_computed(name) && can_move(name, *entry.type, config_);
    if (!is_stored) entry = {nullptr, DType::f32, entry.shape};
    const auto [found, is_new] = entries_.emplace(name.ours, entry);
    std::vector<GgufName>& places = places_[name.ours];
    if (!is_new) join(found->second, entry, places.front(), name);
    places.push_back(std::move(name));
  }

  // One more part of a tensor. Those of different types are computed: no tensor has two.
  void join(Entry& whole, const Entry& part, const GgufName& first, const GgufName& name) const {
    const Shape& shape = file_->at(first.theirs).shape;
    check(part.shape == shape, "{}: '{}' is {} and '{}' {}: they must have one shape",
          file_->name(), first.theirs, shape, name.theirs, part.shape);
    whole.shape[-2] += part.shape[-2];
    if (whole.type != part.type) whole = {nullptr, DType::f32, whole.shape};
  }

  // Counts rows or columns that stand elsewhere in the file, of which the shape becomes ours.
  void note_moved(const GgufName& name, Shape& shape) {
    const int dimension = name.moves_columns() ? 1 : 0;
    const std::int64_t count = name.count(config_);
    Moved& moved = moved_[name.theirs];
    moved.all = shape[dimension], moved.counted += count, moved.of_columns = dimension == 1;
    shape[dimension] = count;
  }

  // All of a tensor of the file are of some tensor of ours.
  void check_moved() const {
    for (const auto& [theirs, moved] : moved_) {
      check(moved.all == moved.counted, "{}: '{}' must have {} {}, not {}", file_->name(), theirs,
            moved.counted, moved.of_columns ? "columns" : "rows", moved.all);
    }
  }

  StoredTensor open(const std::string& tensor, const Entry& entry) const override {
    const std::vector<GgufName>& places = places_.at(tensor);
    const GgufName& place = places.front();
    if (places.size() > 1) {
      std::vector<StoredTensor> parts;
      for (const GgufName& part : places) parts.push_back(file_->stored(part.theirs));
      return joined_parts(std::move(parts), file_->stored(place.theirs).label());
    }
    const StoredTensor stored = file_->stored(place.theirs);
    if (place.moves()) return our_order(place, stored, config_);
    if (stored.shape() != entry.shape) return stored.first_rows(entry.shape[0]);
    return with_heads_back(stored, place.exchanged_heads);
  }

  Tensor compute(const std::string& tensor, DType as) const override {
    const TapePause pause;
    std::vector<Tensor> parts;
    for (const GgufName& place : places_.at(tensor)) {
      const Tensor theirs = file_->read(place.theirs, place.is_rate ? DType::f32 : as);
      Tensor ours = our_tensor(place, theirs, file_->name());
      if (place.moves()) ours = our_order(place, ours, config_);
      parts.push_back(ours.dtype() == as ? ours : ours.to(as));
    }
    return parts.size() == 1 ? parts.front() : concat(parts, parts.front().shape().rank() - 2);
  }

  std::shared_ptr<const GgufFile> file_;
  nn::DecoderConfig config_;
  Entries entries_;
  std::map<std::string, std::vector<GgufName>> places_;  // by our names
  struct Moved {
    std::int64_t all = 0, counted = 0;
    bool of_columns = false;
  };
  std::map<std::string, Moved> moved_;  // by the file's
};

}  // namespace

std::shared_ptr<const TensorSource> gguf_weights(std::shared_ptr<const GgufFile> file,
                                                 const Family& family,
                                                 const nn::DecoderConfig& config) {
  return std::make_shared<GgufWeights>(std::move(file), family, config);
}

}  // namespace tapegrad::run
