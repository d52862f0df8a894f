#include "tapegrad/nn/params.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tapegrad::nn {

struct Params::Store {
  Rng* rng = nullptr;                          // null in a store that draws nothing
  std::shared_ptr<const TensorSource> source;  // null in a store that reads nothing
  NameMap source_names;
  DType dtype = DType::f32;
  Precision precision = Precision::full;
  NamedTensors parameters, tensors;
  std::set<std::string> names, read;  // of the model; of the source
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

Tensor Params::read(const std::string& name, const Shape& shape) const {
  const TensorSource& source = *store_->source;
  const std::string source_name = store_->source_names(name);
  const TensorSource::Entry& entry = source.at(source_name);
  check(entry.shape == shape, "{}: tensor '{}' has shape {}, but the model needs {}", source.name(),
        source_name, entry.shape, shape);
  store_->read.insert(source_name);
  return source.read(source_name, is_float(entry.dtype) ? store_->dtype : entry.dtype);
}

Tensor Params::obtain(const std::string& name, const Shape& shape,
                      const std::function<Tensor()>& make) const {
  check(store_->names.insert(name).second, "parameter '{}' is asked for twice", name);
  const auto obtained = [&] {
    if (store_->source) return read(name, shape);
    return store_->rng != nullptr ? make() : Tensor::empty(shape, store_->dtype);
  };
  store_->tensors.emplace_back(name, obtained());
  return store_->tensors.back().second;
}

Tensor Params::parameter(const std::string& name, const Shape& shape, const Init& init) const {
  Tensor t = obtain(prefix_ + name, shape, [&] {
    Tensor made = Tensor::empty(shape, store_->dtype);
    init(made, *store_->rng);
    return made;
  });
  check(t.dtype() == store_->dtype, "parameter '{}' is stored as {}, not as f32 or f64",
        prefix_ + name, tapegrad::name_of(t.dtype()));
  store_->parameters.emplace_back(prefix_ + name, t.set_requires_grad());
  return t;
}

Tensor Params::buffer(const std::string& name, const Shape& shape,
                      const std::function<Tensor()>& make) const {
  return obtain(prefix_ + name, shape, make);
}

void Params::redraw(Tensor parameter, const Init& init) const {
  if (store_->rng != nullptr) refill(parameter, init, *store_->rng);
}

const NamedTensors& Params::parameters() const { return store_->parameters; }
const NamedTensors& Params::tensors() const { return store_->tensors; }

std::int64_t Params::count() const {
  std::int64_t n = 0;
  for (const auto& [name, t] : parameters()) n += t.numel();
  return n;
}

void Params::check_all_used() const {
  if (!store_->source) return;
  std::vector<std::string> left;
  for (const auto& [name, entry] : store_->source->entries()) {
    if (store_->read.count(name) == 0) left.push_back(name);
  }
  if (left.empty()) return;
  const std::size_t shown = std::min<std::size_t>(left.size(), 5);
  fail("{}: the model has no place for {} of its tensors: {}{}", store_->source->name(),
       left.size(),
       fmt::join(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
       left.size() > shown ? ", …" : "");
}

}  // namespace tapegrad::nn
