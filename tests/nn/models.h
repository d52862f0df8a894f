#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/golden/golden.h"

namespace tapegrad::testing {

// The config of a golden model, in whose terms "gelu": "none" is the erf form.
inline nn::DecoderConfig golden_config(const nlohmann::json& json) {
  nn::DecoderConfig config;
  config.vocab_size = json.at("vocab_size");
  config.block_size = json.at("block_size");
  config.n_layer = json.at("n_layer");
  config.n_head = json.at("n_head");
  config.n_embd = json.at("n_embd");
  config.bias = json.at("bias");
  config.tied = json.at("tied");
  config.activation = json.at("gelu") == "none" ? nn::Activation::gelu_erf : nn::Activation::gelu;
  return config;
}

inline nn::DecoderConfig tiny_config() {
  nn::DecoderConfig config;
  config.vocab_size = 11;
  config.block_size = 6;
  config.n_layer = 2;
  config.n_head = 2;
  config.n_embd = 8;
  return config;
}

// Tensors in memory, as a model reads them.
inline std::shared_ptr<const TensorSource> source_of(const SafeTensors& file) {
  return memory_source(file.tensors, file.path, file.metadata);
}

// The tensors whose names start with `prefix`, by the rest of their names.
inline SafeTensors with_prefix(const SafeTensors& file, const std::string& prefix) {
  SafeTensors part;
  part.path = file.path;
  for (const auto& [name, t] : file.tensors) {
    if (name.rfind(prefix, 0) == 0) part.tensors[name.substr(prefix.size())] = t;
  }
  return part;
}

// True if the parameter is the weight of a norm.
inline bool is_gain(const std::string& name) {
  return (name.find("ln_") != std::string::npos || name.find("norm.") != std::string::npos) &&
         name.ends_with(".weight");
}

// Random weights that are far from a fresh model's, so that every path counts.
inline void randomize(const NamedTensors& parameters, Rng& rng, double scale = 0.3) {
  for (const auto& [name, parameter] : parameters) {
    Tensor t = parameter;
    const Tensor values =
        (normal(rng, t.shape(), DType::f64, scale) + (is_gain(name) ? 1.0 : 0.0)).to(t.dtype());
    dispatch(t.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::copy_n(values.data<T>(), t.numel(), t.mutable_data<T>());
    });
  }
}

inline Tensor random_ids(Rng& rng, const Shape& shape, std::int64_t vocab_size) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::int32_t& id : values) id = static_cast<std::int32_t>(rng.randint(vocab_size));
  return Tensor::from(values, shape);
}

// Columns of ids (B, T).
inline Tensor columns(const Tensor& ids, std::int64_t begin, std::int64_t end) {
  return slice(ids.to(DType::f64), 1, begin, end).to(DType::i32);
}

// Clones of the gradients, in the order of the parameters.
inline std::vector<Tensor> gradients(const NamedTensors& parameters) {
  std::vector<Tensor> grads;
  for (const auto& [name, t] : parameters) {
    grads.push_back(t.grad().defined() ? t.grad().clone() : Tensor());
  }
  return grads;
}

inline void clear_gradients(const NamedTensors& parameters) {
  for (auto [name, t] : parameters) t.zero_grad();
}

// "" if the f32 values are, bit by bit, those that the golden fingerprint vouches for.
inline std::string fingerprint_difference(std::span<const float> values,
                                          const nlohmann::json& fingerprint) {
  const std::vector<double> head = fingerprint.at("head");
  for (std::size_t i = 0; i < std::min(head.size(), values.size()); ++i) {
    if (static_cast<double>(values[i]) != head[i]) {
      return fmt::format("element {} is {:.9g}, not {:.9g}", i, values[i], head[i]);
    }
  }
  return crc32(values) == fingerprint.at("crc32").get<std::uint32_t>() ? "" : "the CRC-32 differs";
}

}  // namespace tapegrad::testing
