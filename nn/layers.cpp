#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

Linear::Linear(const Params& p, std::int64_t in, std::int64_t out, bool with_bias)
    : weight(p.parameter("weight", {out, in}, kaiming_uniform(in))), precision(p.precision()) {
  if (with_bias) bias = p.parameter("bias", {out}, kaiming_uniform(in));
  adapter = Lora(p, in, out);
}

Embedding::Embedding(const Params& p, std::int64_t rows, std::int64_t channels)
    : weight(p.parameter("weight", {rows, channels}, normal(0, 1))) {}

LayerNorm::LayerNorm(const Params& p, std::int64_t channels, bool with_bias,
                     const LayerNormOptions& how)
    : weight(p.parameter("weight", {channels}, ones())), options(how) {
  if (with_bias) bias = p.parameter("bias", {channels}, zeros());
}

RMSNorm::RMSNorm(const Params& p, std::int64_t channels, double epsilon)
    : weight(p.parameter("weight", {channels}, ones())), eps(epsilon) {}

Tensor activate(const Tensor& x, Activation activation) {
  if (activation == Activation::relu) return relu(x);
  return gelu(x, activation == Activation::gelu ? Gelu::tanh : Gelu::erf);
}

Tensor maybe_dropout(const Tensor& x, double p, Rng* rng) {
  return rng == nullptr ? x : dropout(x, p, *rng);
}

FeedForward::FeedForward(const Params& p, std::int64_t channels, std::int64_t hidden, bool bias,
                         Activation act, double drop, double hidden_drop)
    : c_fc(p / "c_fc", channels, hidden, bias),
      c_proj(p / "c_proj", hidden, channels, bias),
      activation(act),
      dropout(drop),
      hidden_dropout(hidden_drop) {}

Tensor FeedForward::operator()(const Tensor& x, Rng* rng) const {
  const Tensor y = maybe_dropout(activate(c_fc(x), activation), hidden_dropout, rng);
  return maybe_dropout(c_proj(y), dropout, rng);
}

}  // namespace tapegrad::nn
