#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/nn/gpt.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::run {

// Refuses an option of a model that a format cannot express.
template <class T>
void require_option(std::string_view format, std::string_view option, const T& value,
                    const T& only) {
  check(value == only, "{} cannot express a model with {} {}, only with {}", format, option, value,
        only);
}
// Refuses what no format of GPT-2 can express: another architecture, rotary positions and unbiased
// norms.
void require_gpt2(std::string_view format, const nn::GPTConfig& config);

// Error, naming the tensor, unless all weights are f32 and can be stored so ("F16"): a weight that
// is finite may not become infinite.
void require_stored_as(std::string_view stored, const nn::Params& params);

// The weights of a GPT as those of GPT-2, for formats that know no other: W_query, W_key and
// W_value are one c_attn, and biases that the model does not have are zeros.
class GPT2Weights {
 public:
  // The parameters must be f32: see require_stored_as.
  GPT2Weights(const nn::Params& params, const nn::GPTConfig& config);

  // The names, without "transformer.", with their shapes. Weights of linears are (out, in). The
  // order is the model's. lm_head.weight is there if it is not tied.
  struct Entry {
    std::string name;
    Shape shape;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  // The tensor of that name. It is the model's own, or made anew.
  Tensor operator()(const std::string& name) const;

 private:
  void add_layer(const std::string& prefix, const nn::GPTConfig& config);
  Tensor joined(const std::string& prefix, const std::string& suffix, const Shape& shape) const;

  std::map<std::string, Tensor> ours_;
  std::vector<Entry> entries_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace tapegrad::run
