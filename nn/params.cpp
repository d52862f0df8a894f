#include "tapegrad/nn/params.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "tapegrad/base/text/internal/name_pattern.h"

namespace tapegrad::nn {
namespace {

std::int64_t elements_of(const NamedTensors& tensors) {
  std::int64_t n = 0;
  for (const auto& [name, t] : tensors) n += t.numel();
  return n;
}

}  // namespace

double LoraOptions::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (scaling == LoraScaling::rslora ? std::sqrt(r) : r);
}

struct Params::Store {
  Rng* rng = nullptr;                          // null in a store that draws nothing
  std::shared_ptr<const TensorSource> source;  // null in a store that reads nothing
  NameMap source_names;
  DType dtype = DType::f32;
  Precision precision = Precision::full;
  NamedTensors parameters, buffers, tensors;
  std::set<std::string> names, read;              // of the model; of the source
  std::optional<const StoredType*> quantizes_as;  // null: as stored
  bool quantizes_exactly = false;
  QuantizedMatrices quantized;
  LoraOptions lora;
  Rng* adapters_rng = nullptr;      // null: adapters are made as other parameters are
  std::vector<std::string> layers;  // linear ones that could have an adapter
  std::vector<Params> offered;      // stores of adapters alone
};

Params::Params(DType dtype, Precision precision) : store_(std::make_shared<Store>()) {
  check(precision == Precision::full || dtype == DType::f32,
        "products in bf16 need parameters of f32, not of {}", tapegrad::name_of(dtype));
  store_->dtype = dtype;
  store_->precision = precision;
}

Params::Params(Rng& rng, DType dtype, Precision precision) : Params(dtype, precision) {
  store_->rng = &rng;
}

Params::Params(std::shared_ptr<const TensorSource> source, DType dtype, Precision precision,
               NameMap names)
    : Params(dtype, precision) {
  check(source != nullptr, "parameters cannot be read without a source of tensors");
  store_->source = std::move(source);
  store_->source_names = std::move(names);
}

Params Params::shapes_only(DType dtype, Precision precision) { return {dtype, precision}; }

DType Params::dtype() const { return store_->dtype; }
Precision Params::precision() const { return store_->precision; }

Params Params::operator/(const std::string& name) const {
  Params scoped = *this;
  scoped.prefix_ += name + ".";
  return scoped;
}

// The source's name for the tensor. Error if it has none of this shape.
const std::string& Params::found(const std::string& name, const Shape& shape) const {
  const TensorSource& source = *store_->source;
  const std::string source_name = store_->source_names(name);
  const Shape& stored = source.at(source_name).shape;
  check(stored == shape, "{}: tensor '{}' has shape {}, but the model needs {}", source.name(),
        source_name, stored, shape);
  return *store_->read.insert(source_name).first;
}

// Error if what the source has of a parameter, if there is a source, are no floats.
void Params::check_float(const std::string& name) const {
  if (store_->source == nullptr) return;
  const std::string source_name = store_->source_names(name);
  if (!store_->source->contains(source_name)) return;
  const TensorSource::Entry& entry = store_->source->at(source_name);
  check(is_float(entry.dtype),
        "{}: tensor '{}' is stored as {}: a parameter must be of floating-point numbers, such as "
        "f32, f16 or bf16",
        store_->source->name(), source_name, tapegrad::name_of(entry.dtype));
}

Tensor Params::read(const std::string& name, const Shape& shape) const {
  const TensorSource& source = *store_->source;
  const std::string& source_name = found(name, shape);
  const DType dtype = source.at(source_name).dtype;
  return source.read(source_name, is_float(dtype) ? store_->dtype : dtype);
}

// A matrix of the source, or else one that is made.
StoredTensor Params::stored_matrix(const std::string& name, const Shape& shape,
                                   const Init& init) const {
  if (store_->source == nullptr) {
    Tensor made = Tensor::empty(shape);
    if (store_->rng != nullptr) init(made, *store_->rng);
    return {made, name};
  }
  check_float(name);
  const TensorSource& source = *store_->source;
  const std::string& source_name = found(name, shape);
  if (source.at(source_name).type != nullptr) return source.stored(source_name);
  return {source.read(source_name, DType::f32),
          fmt::format("{}: tensor '{}'", source.name(), source_name)};
}

bool Params::quantizes() const { return store_->quantizes_as && may_quantize_; }

Weight Params::quantized_weight(const std::string& name, const StoredTensor& stored) const {
  const StoredType* as = *store_->quantizes_as == nullptr ? &stored.type() : *store_->quantizes_as;
  if (!QuantizedMatrix::can_quantize(*as, stored.shape()[1])) as = &stored_type(DType::f32);
  const auto quantized = std::make_shared<const QuantizedMatrix>(stored, *as);
  store_->quantized.emplace_back(name, quantized);
  return store_->quantizes_exactly ? Weight::exactly(quantized, at_least_bf16(precision()))
                                   : Weight(quantized);
}

Weight Params::weight(const std::string& name, const Shape& shape, const Init& init) const {
  if (!quantizes()) return {parameter(name, shape, init), precision()};
  check(store_->names.insert(prefix_ + name).second, "parameter '{}' is asked for twice",
        prefix_ + name);
  return quantized_weight(prefix_ + name, stored_matrix(prefix_ + name, shape, init));
}

// Experts' products are never rounded to int8: see grouped_linear().
StackedWeight Params::stacked_weight(const std::string& name, const Shape& shape,
                                     const Init& init) const {
  StackedWeight stack;
  if (!quantizes()) {
    stack.tensor = {parameter(name, shape, init), at_least_bf16(precision())};
    return stack;
  }
  check(store_->names.insert(prefix_ + name).second, "parameter '{}' is asked for twice",
        prefix_ + name);
  const StoredTensor stored = stored_matrix(prefix_ + name, shape, init);
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    stack.quantized.push_back(
        quantized_weight(fmt::format("{}{}.{}", prefix_, name, i), stored.part(i)));
  }
  return stack;
}

void Params::quantize(const StoredType* as, bool exact) const {
  check(store_->source != nullptr || store_->rng != nullptr,
        "there is nothing to quantise in a store of shapes");
  check(store_->dtype == DType::f32 && (exact || store_->precision == Precision::full),
        "only matrices of f32 can be quantised");
  store_->quantizes_as = as;
  store_->quantizes_exactly = exact;
}
bool Params::quantizes_exactly() const { return store_->quantizes_exactly; }

Params Params::unquantized() const {
  Params plain = *this;
  plain.may_quantize_ = false;
  return plain;
}

const Params::QuantizedMatrices& Params::quantized_matrices() const { return store_->quantized; }

Tensor Params::obtain(const std::string& name, const Shape& shape,
                      const std::function<Tensor()>& make, bool anew) const {
  check(store_->names.insert(name).second, "parameter '{}' is asked for twice", name);
  const auto obtained = [&] {
    if (anew) return make();
    if (store_->source) return read(name, shape);
    return store_->rng != nullptr ? make() : Tensor::empty(shape, store_->dtype);
  };
  store_->tensors.emplace_back(name, obtained());
  return store_->tensors.back().second;
}

Tensor Params::obtain_parameter(const std::string& name, const Shape& shape, const Init& init,
                                Kind kind) const {
  const bool anew = kind == Kind::adapter && store_->adapters_rng != nullptr;
  const auto make = [&] {
    Tensor made = Tensor::empty(shape, store_->dtype);
    init(made, anew ? *store_->adapters_rng : *store_->rng);
    return made;
  };
  check_float(prefix_ + name);
  Tensor t = obtain(prefix_ + name, shape, make, anew);
  if (kind == Kind::adapter || store_->lora.rank == 0) {
    store_->parameters.emplace_back(prefix_ + name, t.set_requires_grad());
  }
  return t;
}

Tensor Params::parameter(const std::string& name, const Shape& shape, const Init& init) const {
  return obtain_parameter(name, shape, init, Kind::weight);
}

Tensor Params::adapter_parameter(const std::string& name, const Shape& shape,
                                 const Init& init) const {
  return obtain_parameter(name, shape, init, Kind::adapter);
}

void Params::adapt(const LoraOptions& options, Rng* anew) const {
  check(options.rank >= 0, "the rank of an adapter must not be {}", options.rank);
  check(std::isfinite(options.alpha) && options.alpha > 0,
        "the alpha of an adapter must be above 0, not {}", options.alpha);
  store_->lora = options;
  store_->adapters_rng = anew;
}

void Params::offer(const Params& adapters) const {
  check(adapters.store_->lora.rank > 0, "adapters to offer need a rank");
  store_->offered.push_back(adapters);
}

std::vector<Params> Params::offered() const {
  std::vector<Params> here = store_->offered;
  for (Params& adapters : here) {
    adapters.prefix_ = prefix_;
    adapters.may_adapt_ = may_adapt_;
    adapters.newly_adapted_ = newly_adapted_;
  }
  return here;
}

Params Params::unadapted() const {
  Params plain = *this;
  plain.may_adapt_ = false;
  return plain;
}

Params Params::newly_adapted() const {
  Params newly = *this;
  newly.newly_adapted_ = true;
  return newly;
}

const LoraOptions* Params::adapter() const {
  const LoraOptions& lora = store_->lora;
  if (!may_adapt_ || lora.rank == 0) return nullptr;
  const std::string layer = prefix_.substr(0, prefix_.size() - !prefix_.empty());
  store_->layers.push_back(layer);
  const bool has_one =
      std::any_of(lora.targets.begin(), lora.targets.end(),
                  [&](const std::string& target) { return fits_pattern(target, layer); });
  return has_one && !lacks_adapter() ? &lora : nullptr;
}

// True of a layer that the file of an earlier version has no adapter of, although targets name it.
bool Params::lacks_adapter() const {
  if (!newly_adapted_ || !store_->source || store_->adapters_rng != nullptr) return false;
  const auto has = [&](const char* matrix) {
    return store_->source->contains(store_->source_names(prefix_ + matrix));
  };
  return !has("lora_A.weight") && !has("lora_B.weight");
}

void Params::check_targets() const {
  if (store_->lora.rank == 0) return;
  check(!store_->lora.targets.empty(), "adapters need a target");
  const std::vector<std::string>& layers = store_->layers;
  for (const std::string& target : store_->lora.targets) {
    check(std::any_of(layers.begin(), layers.end(),
                      [&](const std::string& layer) { return fits_pattern(target, layer); }),
          "'{}' names no linear layer that can have an adapter; there are {}", target,
          first_names(layers));
  }
}

void Params::freeze(const std::vector<std::string>& patterns) const {
  NamedTensors frozen, left;
  std::set<std::string> fitting;  // of the patterns
  std::vector<std::string> all;
  for (const auto& parameter : store_->parameters) {
    bool freezes = false;
    all.push_back(parameter.first);
    for (const std::string& pattern : patterns) {
      if (!fits_pattern(pattern, parameter.first)) continue;
      fitting.insert(pattern);
      freezes = true;
    }
    (freezes ? frozen : left).push_back(parameter);
  }
  for (const std::string& pattern : patterns) {
    check(fitting.count(pattern) > 0, "'{}' names no parameter; there are {}", pattern,
          first_names(all));
  }
  check(!left.empty() || patterns.empty(), "with {} frozen, no parameter is left to train",
        fmt::join(patterns, ", "));
  for (auto& [name, t] : frozen) t.set_requires_grad(false);
  store_->parameters = std::move(left);
}

Tensor Params::buffer(const std::string& name, const Shape& shape,
                      const std::function<Tensor()>& make) const {
  const Tensor t = obtain(prefix_ + name, shape, make);
  store_->buffers.emplace_back(prefix_ + name, t);
  return t;
}

void Params::redraw(Tensor parameter, const Init& init) const {
  if (store_->rng != nullptr) refill(parameter, init, *store_->rng);
}

const NamedTensors& Params::parameters() const { return store_->parameters; }
const NamedTensors& Params::buffers() const { return store_->buffers; }
const NamedTensors& Params::tensors() const { return store_->tensors; }
const NamedTensors& Params::checkpoint_tensors() const {
  return quantizes_exactly() ? parameters() : tensors();
}

std::int64_t Params::count() const { return elements_of(parameters()); }
std::int64_t Params::total_count() const {
  std::int64_t count = elements_of(tensors());
  for (const auto& [name, matrix] : store_->quantized) count += matrix->shape().numel();
  return count;
}

void Params::check_all_used() const {
  for (const Params& adapters : store_->offered) adapters.check_all_used();
  check_targets();
  if (!store_->source) return;
  std::vector<std::string> left;
  for (const auto& [name, entry] : store_->source->entries()) {
    if (store_->read.count(name) == 0) left.push_back(name);
  }
  if (left.empty()) return;
  fail("{}: the model has no place for {} of its tensors: {}", store_->source->name(), left.size(),
       first_names(left));
}

}  // namespace tapegrad::nn
