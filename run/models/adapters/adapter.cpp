#include "tapegrad/run/models/adapters/adapter.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/error.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_names.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// Zeros that fill ranks up take memory, so that a small file must not ask for many.
constexpr std::int64_t kMostUnevenRank = 1024;
constexpr std::string_view kDown = ".lora_A.weight", kUp = ".lora_B.weight";

class AdapterSource : public TensorSource {
 public:
  AdapterSource(std::shared_ptr<const TensorSource> file,
                std::map<std::string, AdapterPlace> places)
      : file_(std::move(file)), places_(std::move(places)) {
    for (const auto& [ours, place] : places_) {
      const Entry& entry = file_->at(place.theirs);
      // Of experts, a matrix for each.
      check(is_float(entry.dtype) && (entry.shape.rank() == 2 || entry.shape.rank() == 3),
            "{}: '{}' of shape {} and type {} is no matrix of floats", name(), place.theirs,
            entry.shape, name_of(entry.dtype));
      entries_.emplace(ours, entry);
    }
  }
  const std::string& name() const override { return file_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return file_->metadata(); }

 private:
  StoredTensor open(const std::string& tensor, const Entry&) const override {
    const AdapterPlace& place = places_.at(tensor);
    return with_heads_back(file_->stored(place.theirs), place.exchanged_heads);
  }

  std::shared_ptr<const TensorSource> file_;
  std::map<std::string, AdapterPlace> places_;
  Entries entries_;
};

// Adapters with the same rank and scale in all layers: see adapter_of().
class EvenAdapters : public TensorSource {
 public:
  EvenAdapters(std::shared_ptr<const TensorSource> layers, std::int64_t rank,
               const std::map<std::string, double>& factors)
      : layers_(std::move(layers)), rank_(rank) {
    for (const auto& [layer, factor] : factors) {
      const std::string down = layer + std::string(kDown), up = layer + std::string(kUp);
      entries_.emplace(down, even(Entry(layers_->at(down)), -2));
      entries_.emplace(up, even(Entry(layers_->at(up)), -1));
      if (factor != 1) entries_.at(up).type = nullptr, factors_.emplace(up, factor);
    }
  }
  const std::string& name() const override { return layers_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return layers_->metadata(); }

 private:
  Entry even(Entry entry, int dim) const {
    if (entry.shape[dim] != rank_) entry.type = nullptr;
    entry.shape[dim] = rank_;
    return entry;
  }

  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return layers_->stored(tensor);
  }
  Tensor compute(const std::string& tensor, DType as) const override {
    const TapePause pause;
    const int dim = tensor.ends_with(kDown) ? -2 : -1;
    Tensor t = layers_->read(tensor, as);
    if (const auto factor = factors_.find(tensor); factor != factors_.end()) t = t * factor->second;
    Shape zeros = t.shape();
    zeros[dim] = rank_ - t.dim(dim);
    return zeros[dim] == 0 ? t : concat({t, Tensor::zeros(zeros, as)}, dim);
  }

  std::shared_ptr<const TensorSource> layers_;
  std::int64_t rank_;
  Entries entries_;
  std::map<std::string, double> factors_;  // of matrices B
};

// "self_attn.q_proj" of "layers.0.self_attn.q_proj"; the whole name if there is no number.
std::string name_in_block(const std::string& layer) {
  std::size_t at = layer.find_first_of("0123456789");
  at = layer.find('.', at == std::string::npos ? layer.size() : at);
  return at == std::string::npos ? layer : layer.substr(at + 1);
}

}  // namespace

std::vector<std::string> adapted_layers(const TensorSource& tensors) {
  std::vector<std::string> layers;
  for (const auto& [name, entry] : tensors.entries()) {
    if (name.ends_with(kDown)) layers.push_back(name.substr(0, name.size() - kDown.size()));
  }
  return layers;
}

std::optional<std::vector<std::string>> names_in_blocks(const std::vector<std::string>& layers,
                                                        int n_layer) {
  std::map<std::string, int> counts;
  for (const std::string& layer : layers) ++counts[name_in_block(layer)];
  std::vector<std::string> names;
  for (const auto& [name, count] : counts) {
    if (count != n_layer) return std::nullopt;
    names.push_back(name);
  }
  return names;
}

Adapter adapter_of(std::shared_ptr<const TensorSource> file,
                   std::map<std::string, AdapterPlace> places, const OptionsOfLayer& options_of,
                   int n_layer) {
  std::shared_ptr<const TensorSource> source =
      std::make_shared<AdapterSource>(std::move(file), std::move(places));
  std::vector<std::string> layers = adapted_layers(*source);
  check(!layers.empty(), "{}: there are no adapters in it", source->name());
  check(source->entries().size() == 2 * layers.size(), "{}: a layer has one matrix of two",
        source->name());
  std::map<std::string, nn::LoraOptions> options;
  nn::LoraOptions all;
  for (const std::string& layer : layers) {
    const Shape &a = source->at(layer + std::string(kDown)).shape,
                &b = source->at(layer + std::string(kUp)).shape;
    const nn::LoraOptions own = options_of(layer, a[-2]);
    check(a.rank() == b.rank() && a[-2] == own.rank && b[-1] == own.rank,
          "{}: the adapter of '{}' has the matrices {} and {}, which are not of rank {}",
          source->name(), layer, a, b, own.rank);
    if (own.rank > all.rank) all = own;
    options.emplace(layer, own);
  }
  const bool even = std::all_of(options.begin(), options.end(), [&](const auto& own) {
    return own.second.rank == all.rank && own.second.scale() == all.scale();
  });
  if (!even) {
    check(all.rank <= kMostUnevenRank,
          "{}: ranks that differ from layer to layer may be at most {}, not {}", source->name(),
          kMostUnevenRank, all.rank);
    std::map<std::string, double> factors;
    for (const auto& [layer, own] : options) factors[layer] = own.scale() / all.scale();
    source = std::make_shared<EvenAdapters>(source, all.rank, factors);
  }
  if (const auto names = names_in_blocks(layers, n_layer)) {
    all.targets.clear();
    for (const std::string& name : *names) all.targets.push_back("*." + name);
  } else {
    all.targets = std::move(layers);
  }
  return {all, source};
}

Adapter open_adapter(const fs::path& path, const nn::DecoderConfig& config) {
  std::error_code ignored;
  if (fs::is_regular_file(path / kPeftConfigFile, ignored)) return open_peft(path, config);
  if (begins_as_gguf(path)) return open_gguf_adapter(path, config);
  check(fs::exists(path, ignored), "there are no adapters {}", path.string());
  fail("{} has no adapters: these are a folder of PEFT's, with {}, or a GGUF file", path.string(),
       kPeftConfigFile);
}

}  // namespace tapegrad::run
