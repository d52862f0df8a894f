#include "tapegrad/nn/layers/short_conv.h"

namespace tapegrad::nn {

ShortConv::ShortConv(const Params& p, std::int64_t channels, const ShortConvConfig& c) : config(c) {
  const Params conv = p / c.names.conv;
  weight = conv.parameter("weight", {channels, 1, c.kernel}, kaiming_uniform(c.kernel));
  if (c.bias) bias = conv.parameter("bias", {channels}, kaiming_uniform(c.kernel));
  in_proj = Linear(p / c.names.in, channels, 3 * channels, c.bias);
  out_proj = Linear(p / c.names.out, channels, channels, c.bias);
}

ShortConv::Gated ShortConv::gated(const Tensor& x) const {
  const std::int64_t C = weight.dim(0);
  const std::vector<Tensor> parts = split(in_proj(x), {C, C, C}, 2);
  return {parts[1], parts[0] * parts[2]};
}

Tensor ShortConv::operator()(const Tensor& x, Rng* rng, const Tensor& document_starts) const {
  const auto [gate, conv_in] = gated(x);
  const Tensor y = out_proj(gate * causal_conv1d(conv_in, weight, bias, document_starts));
  return maybe_dropout(y, config.dropout, rng);
}

Tensor ShortConv::operator()(const Tensor& x, CachedLayer caches) const {
  const auto [gate, conv_in] = gated(x);
  const std::int64_t T = x.dim(1), before = config.kernel - 1;
  caches.append_states(conv_in);
  const Tensor seen = causal_conv1d(caches.latest_states(before + T), weight, bias);
  return out_proj(gate * slice(seen, 1, before, before + T));
}

}  // namespace tapegrad::nn
