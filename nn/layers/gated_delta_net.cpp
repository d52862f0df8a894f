#include "tapegrad/nn/layers/gated_delta_net.h"

#include <cmath>

#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/autograd/state_pieces.h"
#include "tapegrad/nn/layers/internal/first_steps.h"
#include "tapegrad/nn/layers/internal/recurrent_pass.h"

namespace tapegrad::nn {
namespace {

constexpr double kLengthEps = 1e-6;  // that transformers adds to the square of a length

// ln(U(0, 16]).
Init log_of_rate() {
  return [](Tensor& t, Rng& rng) {
    uniform(0, 16)(t, rng);
    t = log(16.0 - t);
  };
}

// x over its length, along the last dimension.
Tensor of_length_one(const Tensor& x) {
  const auto n = static_cast<double>(x.dim(-1));
  const Tensor weight = Tensor::ones({x.dim(-1)}, x.dtype()) * (1 / std::sqrt(n));
  return rms_norm(x, weight, kLengthEps / n);
}

}  // namespace

GatedDeltaNet::GatedDeltaNet(const Params& p, std::int64_t channels, const GatedDeltaNetConfig& c)
    : config(c) {
  const std::int64_t mixed = 2 * key_channels() + value_channels();
  weight = (p / c.names.conv).parameter("weight", {mixed, 1, c.kernel}, kaiming_uniform(c.kernel));
  in_proj_qkv = Linear(p / c.names.qkv, channels, mixed, false);
  in_proj_z = Linear(p / c.names.gate, channels, value_channels(), false);
  in_proj_b = Linear(p / c.names.beta, channels, c.heads, false);
  in_proj_a = Linear(p / c.names.decay, channels, c.heads, false);
  dt_bias = p.parameter(c.names.step, {c.heads}, first_steps());
  A_log = p.parameter(c.names.rate, {c.heads}, log_of_rate());
  norm = RMSNorm(p / c.names.norm, c.value_size, c.norm_eps);
  out_proj = Linear(p / c.names.out, value_channels(), channels, false);
}

GatedDeltaNet::Mixed GatedDeltaNet::mix(const Tensor& qkv, const Tensor& b, const Tensor& a,
                                        const Tensor& document_starts) const {
  const std::int64_t B = qkv.dim(0), T = qkv.dim(1);
  const Tensor seen = silu(causal_conv1d(qkv, weight, {}, document_starts));
  const std::vector<Tensor> parts =
      split(seen, {key_channels(), key_channels(), value_channels()}, 2);
  const Shape keys{B, T, config.key_heads, config.key_size};
  return {.q = of_length_one(reshape(parts[0], keys)),
          .k = of_length_one(reshape(parts[1], keys)),
          .v = reshape(parts[2], {B, T, config.heads, config.value_size}),
          .g = -exp(A_log) * softplus(a + dt_bias),
          .beta = sigmoid(b)};
}

// Of y (B, T, heads·value_size), or of any shape with as many elements.
Tensor GatedDeltaNet::output(const Tensor& y, const Tensor& z) const {
  const Shape heads{z.dim(0), z.dim(1), config.heads, config.value_size};
  return out_proj(swiglu(z, reshape(norm(reshape(y, heads)), z.shape())));
}

Tensor GatedDeltaNet::operator()(const Tensor& x, Rng* rng, const Tensor& document_starts) const {
  const std::vector<Tensor> parts =
      outputs_of(x, {&in_proj_qkv, &in_proj_z, &in_proj_b, &in_proj_a});
  const Mixed m = mix(parts[0], parts[2], parts[3], document_starts);
  const Tensor y = gated_delta_rule(m.q, m.k, m.v, m.g, m.beta, document_starts);
  return maybe_dropout(output(y, parts[1]), config.dropout, rng);
}

Tensor GatedDeltaNet::operator()(const Tensor& x, CachedLayer caches) const {
  const std::vector<Tensor> parts =
      outputs_of(x, {&in_proj_qkv, &in_proj_z, &in_proj_b, &in_proj_a});
  const std::int64_t B = x.dim(0), T = x.dim(1), mixed = weight.dim(0), H = config.heads;
  const Tensor inputs = reshape(concat({parts[0], parts[2], parts[3]}, 2), {B * T, mixed + 2 * H});
  RecurrentPass pass(caches.recurrent_runs(B, T), inputs, config.kernel - 1);
  const std::vector<Tensor> seen = split(unsqueeze(pass.rows(), 0), {mixed, H, H}, 2);
  const Mixed m = mix(seen[0], seen[1], seen[2]);
  const auto row = [](const Tensor& t) { return select(t, 0, 0); };
  const Tensor y =
      gated_delta_rule_pieces(row(m.q), row(m.k), row(m.v), row(m.g), row(m.beta), pass.pieces());
  return output(pass.finish(y), parts[1]);
}

}  // namespace tapegrad::nn
