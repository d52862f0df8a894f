#pragma once

#include <memory>
#include <string>

#include "tapegrad/autograd/gemm/precision.h"
#include "tapegrad/autograd/tensor/safetensors.h"
#include "tapegrad/nn/init.h"

namespace tapegrad::nn {

// The parameters of a model, by name. A layer asks for its tensors, and that is all it does: asking
// registers the tensor, and either makes it with the initialiser given or takes it from the
// checkpoint that the store was opened on. `p / "attn"` is the same store with "attn." put before
// each name. Copies share the store.
class Params {
 public:
  // A store that makes new parameters. Outlived by `rng`. The precision is what linear layers
  // multiply in. Error for f64 in bf16.
  explicit Params(Rng& rng, DType dtype = DType::f32, Precision precision = Precision::full);
  // A store that hands out the tensors of a checkpoint, converted to `dtype`.
  explicit Params(SafeTensors checkpoint, DType dtype = DType::f32,
                  Precision precision = Precision::full);

  Precision precision() const;
  Params operator/(const std::string& name) const;
  Params operator/(std::int64_t index) const { return *this / std::to_string(index); }

  // The parameter `name`, which requires_grad. Errors: the name was asked for already; the
  // checkpoint has no such tensor, or one of another shape.
  Tensor parameter(const std::string& name, const Shape& shape, const Init& init) const;
  // A tensor that is saved with the model but not trained, made by `make` unless loaded.
  Tensor buffer(const std::string& name, const Shape& shape,
                const std::function<Tensor()>& make) const;
  // Draws the values of a parameter anew: PyTorch makes a tied weight twice, once for each layer,
  // and keeps the values of the last. Does nothing when loading.
  void redraw(Tensor parameter, const Init& init) const;

  // All parameters, in the order in which they were asked for.
  const NamedTensors& parameters() const;
  // Parameters and buffers: what a checkpoint holds.
  const NamedTensors& tensors() const;
  std::int64_t count() const;  // elements of all parameters
  // When loading: Error, naming the tensors, if the checkpoint holds some that nobody asked for.
  void check_all_used() const;

 private:
  struct Store;
  Params(DType dtype, Precision precision);
  Tensor obtain(const std::string& name, const Shape& shape,
                const std::function<Tensor()>& make) const;

  std::shared_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace tapegrad::nn
