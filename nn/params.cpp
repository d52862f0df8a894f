#include "tapegrad/nn/params.h"

#include <fmt/ranges.h>

#include <optional>
#include <set>

namespace tapegrad::nn {

struct Params::Store {
  Rng* rng = nullptr;  // null when loading
  std::optional<SafeTensors> checkpoint;
  DType dtype = DType::f32;
  Precision precision = Precision::full;
  NamedTensors parameters, tensors;
  std::set<std::string> names;
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

Params::Params(SafeTensors checkpoint, DType dtype, Precision precision)
    : Params(dtype, precision) {
  store_->checkpoint = std::move(checkpoint);
}

Precision Params::precision() const { return store_->precision; }

Params Params::operator/(const std::string& name) const {
  Params scoped = *this;
  scoped.prefix_ += name + ".";
  return scoped;
}

Tensor Params::obtain(const std::string& name, const Shape& shape,
                      const std::function<Tensor()>& make) const {
  check(store_->names.insert(name).second, "parameter '{}' is asked for twice", name);
  Tensor t;
  if (store_->checkpoint) {
    Tensor stored = store_->checkpoint->at(name);
    check(stored.shape() == shape, "{}: tensor '{}' has shape {}, but the model needs {}",
          store_->checkpoint->path, name, stored.shape(), shape);
    const bool converts = is_float(stored.dtype()) && stored.dtype() != store_->dtype;
    t = converts ? stored.to(store_->dtype) : stored;
    store_->checkpoint->tensors[name] = t;  // the unconverted one is not needed any more
  } else {
    t = make();
  }
  store_->tensors.emplace_back(name, t);
  return t;
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
  if (!store_->checkpoint) return;
  std::vector<std::string> left;
  for (const auto& [name, t] : store_->checkpoint->tensors) {
    if (!store_->names.count(name)) left.push_back(name);
  }
  if (left.empty()) return;
  const std::size_t shown = std::min<std::size_t>(left.size(), 5);
  fail("{}: the model has no place for {} of its tensors: {}{}", store_->checkpoint->path,
       left.size(),
       fmt::join(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
       left.size() > shown ? ", …" : "");
}

}  // namespace tapegrad::nn
