#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::run {

// The weights of a GPT as those of GPT-2, for formats that know no other: W_query, W_key and
// W_value are one c_attn, and biases that the model does not have are zeros.
class GPT2Weights {
 public:
  // The parameters must be f32: see require_stored_as().
  GPT2Weights(const nn::Params& params, const nn::DecoderConfig& config);

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
  void add_layer(const std::string& prefix, const nn::DecoderConfig& config);
  Tensor joined(const std::string& prefix, const std::string& suffix, const Shape& shape) const;

  std::map<std::string, Tensor> ours_;
  std::vector<Entry> entries_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace tapegrad::run
