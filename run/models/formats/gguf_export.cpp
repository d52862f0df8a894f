#include <algorithm>
#include <cmath>
#include <numeric>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/folder/run_checkpoint.h"
#include "tapegrad/run/models/formats/gguf_model.h"
#include "tapegrad/run/models/formats/gguf_names.h"
#include "tapegrad/run/models/formats/gguf_tokenizer.h"
#include "tapegrad/run/models/formats/gpt2_weights.h"

namespace tapegrad::run {
namespace {

using nn::GgufTensor;
using nn::GgufType;

// What llama.cpp cannot compute.
void check_expressible(const nn::GPTConfig& c) {
  if (!c.is_llama()) {
    require_gpt2("GGUF", c);
    check(c.activation == nn::Activation::gelu,
          "GGUF cannot express a model with activation {}: llama.cpp computes GELU by tanh for all "
          "of GPT-2's",
          name_of_enum(c.activation));
    return;
  }
  check(!c.with_bias(), "GGUF cannot express a model of Llama's with biases in all linear layers");
  check(c.rope_factor == 1 || gguf_architecture(c) == kScaledArchitecture,
        "GGUF cannot express a model with rope_factor {} and qkv_bias or qk_norm", c.rope_factor);
  check(!c.qk_norm || !c.with_qkv_bias(),
        "GGUF cannot express a model with both qk_norm and qkv_bias");
}

nn::GgufKeys keys_of(const nn::GPTConfig& c, const std::string& architecture, GgufType type) {
  nn::GgufKeys keys;
  const auto whole = [](std::int64_t value) { return value; };
  const auto key = [&](const char* name) -> nn::GgufValue& {
    return keys[architecture + "." + name];
  };
  keys["general.architecture"] = architecture;
  keys["general.type"] = std::string("model");
  keys["general.file_type"] = whole(type == GgufType::f32    ? 0
                                    : type == GgufType::f16  ? 1
                                    : type == GgufType::q8_0 ? 7
                                                             : 32);
  keys["general.quantization_version"] = whole(2);
  key("context_length") = c.block_size;
  key("embedding_length") = c.n_embd;
  key("block_count") = whole(c.n_layer);
  key("feed_forward_length") = c.inner();
  key("attention.head_count") = whole(c.n_head);
  if (!c.is_llama()) {
    key("attention.layer_norm_epsilon") = c.norm_eps;
    return keys;
  }
  key("attention.layer_norm_rms_epsilon") = c.norm_eps;
  key("attention.head_count_kv") = whole(c.kv_heads());
  key("attention.key_length") = c.channels_per_head();
  key("attention.value_length") = c.channels_per_head();
  key("rope.dimension_count") = c.channels_per_head();
  key("rope.freq_base") = c.rope_base;
  if (c.rope_factor != 1) {  // see rope_divisors(): llama.cpp has no keys for these
    keys[kRopeFactor] = c.rope_factor;
    keys[kRopeLowFreqFactor] = c.rope_low_freq_factor;
    keys[kRopeHighFreqFactor] = c.rope_high_freq_factor;
    keys[kRopeOriginalPositions] = c.rope_original_positions;
  }
  return keys;
}

// How the file keeps a tensor of the model: norms, biases and learned positions as f32, as
// llama.cpp's own tools do; rows that have no whole blocks of Q8_0 as f16.
GgufType stored_type(const GgufName& name, const Shape& shape, GgufType type) {
  if (shape.rank() != 2 || name.theirs == "position_embd.weight") return GgufType::f32;
  if (type == GgufType::q8_0 && shape[1] % nn::kQ8Block != 0) return GgufType::f16;
  return type;
}

// With one row more, the mean of all: see kMeanEndRow.
Tensor with_mean_row(const Tensor& table) {
  const std::int64_t rows = table.dim(0), columns = table.dim(1);
  Tensor longer = Tensor::empty({rows + 1, columns});
  const float* const from = table.data<float>();
  float* const to = longer.mutable_data<float>();
  std::copy(from, from + rows * columns, to);
  for (std::int64_t j = 0; j < columns; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += static_cast<double>(from[i * columns + j]);
    to[rows * columns + j] = static_cast<float>(sum / static_cast<double>(rows));
  }
  return longer;
}

// The rows of Q or K as arch llama has them: see GgufName.
Tensor exchanged(const Tensor& t, std::int64_t heads) {
  const TapePause pause;
  const std::int64_t pairs = t.dim(0) / heads / 2;
  return reshape(permute(t.view({heads, 2, pairs, -1}), {0, 2, 1, 3}), t.shape());
}

// The parameters of a model by its own names. Those of GPT-2's are GPT2Weights'.
class Weights {
 public:
  Weights(const TextModel& model, const nn::GPTConfig& c) {
    if (!c.is_llama()) gpt2_.emplace(model.params, c);
    for (const auto& [name, t] : model.params.tensors()) all_.emplace(name, t);
    if (gpt2_) {
      for (const auto& [name, shape] : gpt2_->entries()) shapes_.emplace(name, shape);
    } else {
      for (const auto& [name, t] : all_) shapes_.emplace(name, t.shape());
    }
  }
  const Shape& shape(const std::string& name) const { return shapes_.at(name); }
  Tensor operator()(const std::string& name) const {
    return gpt2_ ? (*gpt2_)(name) : all_.at(name);
  }

 private:
  std::optional<GPT2Weights> gpt2_;
  std::map<std::string, Tensor> all_;
  std::map<std::string, Shape> shapes_;
};

GgufType type_of(StoredType type) {
  switch (type) {
    case StoredType::f16:
      return GgufType::f16;
    case StoredType::bf16:
      return GgufType::bf16;
    case StoredType::q8_0:
      return GgufType::q8_0;
    case StoredType::f32:
      break;
  }
  return GgufType::f32;
}

}  // namespace

Exported export_gguf(const TextModel& model, const std::filesystem::path& out, StoredType stored) {
  const nn::GPTConfig& c = model.gpt.config();
  check_expressible(c);
  check(model.params.dtype() == DType::f32, "a model of {} cannot be exported: load it in f32",
        name_of(model.params.dtype()));
  check_finite_tensors("the model", model.params.tensors());
  const GgufType type = type_of(stored);
  const std::string architecture = gguf_architecture(c);
  nn::GgufKeys keys = keys_of(c, architecture, type);
  const bool adds_end_row = add_gguf_tokenizer(keys, model.tokenizer);
  if (c.is_llama()) keys[architecture + ".vocab_size"] = c.vocab_size + (adds_end_row ? 1 : 0);

  const Weights weights(model, c);
  std::vector<GgufTensor> tensors;
  for (const GgufName& name : gguf_names(c, architecture)) {
    Shape shape = weights.shape(name.ours);
    const bool is_table = name.theirs == kTokenTable || name.theirs == kHeadTable;
    const bool longer = adds_end_row && is_table;
    if (longer) shape[0] += 1;
    tensors.push_back(
        {name.theirs, stored_type(name, shape, type), shape, [&weights, name, longer] {
           const Tensor t = weights(name.ours);
           if (longer) return with_mean_row(t);
           return name.exchanged_heads > 0 ? exchanged(t, name.exchanged_heads) : t;
         }});
  }
  if (c.rope_factor != 1) {
    const std::vector<float> divisors = rope_divisors(c);
    tensors.push_back({kRopeDivisors, GgufType::f32, {std::ssize(divisors)}, [divisors] {
                         return Tensor::from(divisors, {std::ssize(divisors)});
                       }});
  }
  nn::write_gguf(out, keys, tensors);
  return {{}, "llama-completion -m {0} -no-cnv -p \"…\", and the other programs of llama.cpp"};
}

}  // namespace tapegrad::run
