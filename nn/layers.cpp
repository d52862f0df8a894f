#include "tapegrad/nn/layers.h"

#include "tapegrad/autograd/ops/internal/ids.h"
#include "tapegrad/autograd/quantized/internal/quantized_products.h"

namespace tapegrad::nn {

Embedding::Embedding(const Params& p, std::int64_t rows, std::int64_t channels,
                     std::optional<std::int64_t> padding)
    : weight(p.weight("weight", {rows, channels},
                      zero_row(normal(0, 1), padding_row("Embedding", padding, rows)))),
      padding_idx(padding) {}

Linear::Linear(const Params& p, std::int64_t in, std::int64_t out, bool with_bias)
    : weight(p.weight("weight", {out, in}, kaiming_uniform(in))) {
  if (with_bias) bias = p.parameter("bias", {out}, kaiming_uniform(in));
  adapter = Lora(p, in, out);
  for (const Params& adapters : p.offered()) offered.emplace_back(adapters, in, out);
}

Tensor Linear::operator()(const Tensor& x) const {
  return with_adapters(x, linear(x, weight, bias));
}

Tensor Linear::with_adapters(const Tensor& x, const Tensor& y) const {
  return with_chosen(x, adapter.exists() ? y + adapter(x) : y, offered);
}

std::vector<Tensor> outputs_of(const Tensor& x, std::initializer_list<const Linear*> layers) {
  std::vector<WeightAndBias> quantized;
  std::vector<Tensor> outputs;
  for (const Linear* layer : layers) {
    if (layer->weight.quantized) quantized.push_back({layer->weight, layer->bias});
  }
  if (quantized.size() != layers.size()) {
    for (const Linear* layer : layers) outputs.push_back((*layer)(x));
    return outputs;
  }
  outputs = quantized::products(x, quantized);
  std::size_t i = 0;
  for (const Linear* layer : layers) {
    outputs[i] = layer->with_adapters(x, outputs[i]);
    ++i;
  }
  return outputs;
}

LayerNorm::LayerNorm(const Params& p, std::int64_t channels, bool with_bias,
                     const LayerNormOptions& how)
    : weight(p.parameter("weight", {channels}, ones())), options(how) {
  if (with_bias) bias = p.parameter("bias", {channels}, zeros());
}

RMSNorm::RMSNorm(const Params& p, std::int64_t channels, double epsilon)
    : weight(p.parameter("weight", {channels}, ones())), eps(epsilon) {}

namespace {

bool has_bias(const NormOptions& how) {
  return how.bias && (how.kind == NormKind::layer || how.kind == NormKind::unbiased);
}

}  // namespace

Norm::Norm(const Params& p, std::int64_t width, const NormOptions& how)
    : options(how), channels(width) {
  if (how.kind == NormKind::rms_bare) return;
  weight = p.parameter("weight", {width}, how.kind == NormKind::rms_plus ? zeros() : ones());
  if (has_bias(how)) bias = p.parameter("bias", {width}, zeros());
}

Tensor Norm::operator()(const Tensor& x) const {
  if (options.kind == NormKind::rms || options.kind == NormKind::rms_bare) {
    return rms_norm(x, weight, options.eps);
  }
  if (options.kind == NormKind::rms_plus) return rms_norm(x, weight + 1, options.eps);
  return layer_norm(x, weight, bias,
                    {.eps = options.eps, .unbiased = options.kind == NormKind::unbiased});
}

Tensor activate(const Tensor& x, Activation activation) {
  if (activation == Activation::relu) return relu(x);
  if (activation == Activation::relu2) return relu2(x);
  if (activation == Activation::silu) return silu(x);
  check(activation != Activation::clamped_swiglu, "[activate] clamped-swiglu needs a gate");
  return gelu(x, activation == Activation::gelu ? Gelu::tanh : Gelu::erf);
}

Tensor activate_gated(const Tensor& gate, const Tensor& up, Activation activation) {
  if (activation == Activation::silu) return swiglu(gate, up);
  if (activation == Activation::clamped_swiglu) return clamped_swiglu(gate, up);
  return activate(gate, activation) * up;
}

Tensor maybe_dropout(const Tensor& x, double p, Rng* rng) {
  return rng == nullptr ? x : dropout(x, p, *rng);
}

FeedForward::FeedForward(const Params& p, std::int64_t channels, const FeedForwardConfig& c)
    : config(c),
      c_gate(c.gated && !c.joined_gate ? Linear(p / c.names.gate, channels, c.hidden, c.bias)
                                       : Linear()),
      c_fc(c.gated && c.joined_gate ? Linear(p / c.names.both, channels, 2 * c.hidden, c.bias)
                                    : Linear(p / c.names.in, channels, c.hidden, c.bias)),
      c_proj(p / c.names.out, c.hidden, channels, c.bias) {}

Tensor FeedForward::operator()(const Tensor& x, Rng* rng) const {
  const auto inner = [&] {
    if (!config.gated) return activate(c_fc(x), config.activation);
    const std::vector<Tensor> parts = config.joined_gate
                                          ? split(c_fc(x), {config.hidden, config.hidden}, -1)
                                          : outputs_of(x, {&c_gate, &c_fc});
    const Tensor gate = config.gate_scale == 1 ? parts[0] : parts[0] * config.gate_scale;
    return activate_gated(gate, parts[1], config.activation);
  };
  return maybe_dropout(c_proj(maybe_dropout(inner(), config.hidden_dropout, rng)), config.dropout,
                       rng);
}

}  // namespace tapegrad::nn
