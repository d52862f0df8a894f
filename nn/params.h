#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/autograd/weight.h"
#include "tapegrad/nn/init.h"
#include "tapegrad/nn/name_map.h"

namespace tapegrad::nn {

// The factor of adapters: alpha / rank, or alpha / √rank, so that those of any rank learn as fast
// (Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", 2023).
enum class LoraScaling { lora, rslora };
inline constexpr std::array<std::string_view, 2> kLoraScalingNames = {"lora", "rslora"};
inline std::span<const std::string_view> names_of(LoraScaling) { return kLoraScalingNames; }

// Adapters of linear layers, see lora.h.
struct LoraOptions {
  std::int64_t rank = 0;  // 0: there are none
  double alpha = 1;
  // Patterns of the layers' names, such as "*attn*" or "h.[0-3].mlp.*"; see Params::freeze.
  std::vector<std::string> targets = {"*attn*"};
  LoraScaling scaling = LoraScaling::lora;

  double scale() const;
};

// The weights of equal linear layers, such as those of experts: one tensor (E, out, in), or in its
// place E quantised matrices.
struct StackedWeight {
  Weight tensor;
  std::vector<Weight> quantized;
  bool exists() const { return tensor.defined() || !quantized.empty(); }
};

// The parameters of a model, by name. A layer asks for each of its tensors once. Asking registers
// the tensor, and either makes it with the initialiser given or reads it from a source of tensors.
// `p / "attn"` is the same store with "attn." put before each name. Copies share the store.
class Params {
 public:
  // A store that makes new parameters. `rng` must live as long as the store. The precision is what
  // linear layers multiply in. Error for f64 in bf16.
  explicit Params(Rng& rng, DType dtype = DType::f32, Precision precision = Precision::full);
  // A store that reads its tensors from `source`, as `dtype`. `names` says what the source calls
  // them.
  explicit Params(std::shared_ptr<const TensorSource> source, DType dtype = DType::f32,
                  Precision precision = Precision::full, NameMap names = {});
  // A store whose tensors have shapes but no values: nothing is drawn, read or written. For
  // counting parameters, and for steps inside a DryRun.
  static Params shapes_only(DType dtype = DType::f32, Precision precision = Precision::full);

  DType dtype() const;
  Precision precision() const;
  Params operator/(const std::string& name) const;
  Params operator/(std::int64_t index) const { return *this / std::to_string(index); }

  // The parameter `name`, which requires_grad. Errors: the name was asked for already; the source
  // has no such tensor, or one of another shape.
  Tensor parameter(const std::string& name, const Shape& shape, const Init& init) const;
  // The weight of a linear layer or an embedding: a parameter, or quantised by a store that
  // quantises.
  Weight weight(const std::string& name, const Shape& shape, const Init& init) const;
  // The same of a shape (E, out, in).
  StackedWeight stacked_weight(const std::string& name, const Shape& shape, const Init& init) const;
  // A tensor that is saved with the model but not trained. It is made by `make` unless the store
  // has a source or shapes only; then it has the dtype of the parameters.
  Tensor buffer(const std::string& name, const Shape& shape,
                const std::function<Tensor()>& make) const;
  // Draws the values of a parameter anew: PyTorch makes a tied weight twice, once for each layer,
  // and keeps the values of the last. Does nothing in a store that draws nothing.
  void redraw(Tensor parameter, const Init& init) const;

  // From now on, matrices are quantised as this type; null stands for the type that the source has.
  // A matrix whose rows its blocks do not fill, or that is stored as a type without a quantised
  // form, becomes one of f32. They are not among parameters() and tensors(). With `exact`, for
  // training, layers multiply as Weight::exact says, in precision(). Error unless the store is of
  // f32, has values, and is exact or multiplies in f32.
  void quantize(const StoredType* as, bool exact = false) const;
  bool quantizes_exactly() const;
  // The same store for an embedding that stays a tensor, as that of positions.
  Params unquantized() const;
  using QuantizedMatrices =
      std::vector<std::pair<std::string, std::shared_ptr<const QuantizedMatrix>>>;
  const QuantizedMatrices& quantized_matrices() const;

  // From now on, each linear layer that a target names gets an adapter (lora.h), and adapters alone
  // are trained. With `anew`, adapters are drawn from that generator, not read from the source; it
  // must live until the model is made. Error for options that make no sense.
  void adapt(const LoraOptions& options, Rng* anew = nullptr) const;
  // From now on, the same layers also have the adapters of another store, which adapt() has told of
  // them, beside their own; rows of a batch choose among them by their numbers (row_adapters.h).
  // For texts: they are not among parameters().
  void offer(const Params& adapters) const;
  // For lora.h: these stores, each at this prefix.
  std::vector<Params> offered() const;
  // The same store for a layer that never has an adapter: the head, whose weight a loss may take
  // without the layer.
  Params unadapted() const;
  // The same store for a layer that had no adapter in earlier versions: it has one only if the
  // source has some of it, unless adapters are drawn anew.
  Params newly_adapted() const;
  // For lora.h: the adapter that the layer of this prefix has, or null; a parameter of it.
  const LoraOptions* adapter() const;
  Tensor adapter_parameter(const std::string& name, const Shape& shape, const Init& init) const;

  // Parameters that a pattern names are no longer trained: they require no gradient, and are not
  // among parameters(). In a pattern, * is any text, ? any character, [0-3] one of these (POSIX
  // fnmatch). Errors: a pattern names no parameter; none would be left.
  void freeze(const std::vector<std::string>& patterns) const;

  // All parameters that are trained, in the order in which they were asked for.
  const NamedTensors& parameters() const;
  // What buffer() gave.
  const NamedTensors& buffers() const;
  // Parameters, frozen ones and buffers.
  const NamedTensors& tensors() const;
  // The tensors of a checkpoint: tensors(). A store that quantises for training does not have the
  // matrices as tensors: there they stay in the file that they are from, with all that is not
  // trained.
  const NamedTensors& checkpoint_tensors() const;
  std::int64_t count() const;        // elements of parameters()
  std::int64_t total_count() const;  // elements of tensors() and quantized_matrices()
  // For the end of a model's constructor. Error, naming the tensors, if the source holds some that
  // nobody asked for; or if a target of adapt() names no layer.
  void check_all_used() const;

 private:
  struct Store;
  Params(DType dtype, Precision precision);
  enum class Kind { weight, adapter };
  Tensor obtain(const std::string& name, const Shape& shape, const std::function<Tensor()>& make,
                bool anew = false) const;
  Tensor obtain_parameter(const std::string& name, const Shape& shape, const Init& init,
                          Kind kind) const;
  void check_float(const std::string& name) const;
  const std::string& found(const std::string& name, const Shape& shape) const;
  Tensor read(const std::string& name, const Shape& shape) const;
  bool quantizes() const;
  StoredTensor stored_matrix(const std::string& name, const Shape& shape, const Init& init) const;
  Weight quantized_weight(const std::string& name, const StoredTensor& stored) const;
  bool lacks_adapter() const;
  void check_targets() const;

  std::shared_ptr<Store> store_;
  std::string prefix_;
  bool may_adapt_ = true, may_quantize_ = true, newly_adapted_ = false;
};

}  // namespace tapegrad::nn
