#include "tapegrad/nn/layers/mamba2.h"

#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/autograd/state_pieces.h"
#include "tapegrad/nn/layers/internal/first_steps.h"
#include "tapegrad/nn/layers/internal/recurrent_pass.h"

namespace tapegrad::nn {
namespace {

// ln(U(1, 16)).
Init log_of_first_rate() {
  return [](Tensor& t, Rng& rng) {
    uniform(1, 16)(t, rng);
    t = log(t);
  };
}

}  // namespace

Tensor scales_of_channels(const MambaSizes& sizes, const MambaScales& scales, DType dtype) {
  const std::int64_t of_state = sizes.groups * sizes.state_size;
  const std::int64_t counts[] = {sizes.channels(), sizes.channels(), of_state, of_state,
                                 sizes.heads};
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    parts.push_back(Tensor::full({counts[i]}, scales[i], dtype));
  }
  return concat(parts, 0);
}

Mamba2::Mamba2(const Params& p, std::int64_t width, const Mamba2Config& c) : config(c) {
  const std::int64_t mixed = config.sizes.mixed_channels();
  const Params conv = p / c.names.conv;
  weight = conv.parameter("weight", {mixed, 1, c.kernel}, kaiming_uniform(c.kernel));
  if (c.conv_bias) bias = conv.parameter("bias", {mixed}, kaiming_uniform(c.kernel));
  in_proj = Linear(p / c.names.in, width, config.sizes.channels() + mixed + c.sizes.heads, false);
  dt_bias = p.parameter(c.names.step, {c.sizes.heads}, first_steps());
  A_log = p.parameter(c.names.rate, {c.sizes.heads}, log_of_first_rate());
  D = p.parameter(c.names.skip, {c.sizes.heads}, ones());
  if (c.norm_groups > 0) norm = RMSNorm(p / c.names.norm, config.sizes.channels(), c.norm_eps);
  out_proj = Linear(p / c.names.out, config.sizes.channels(), width, false);
  if (c.scales != MambaScales{1, 1, 1, 1, 1}) {
    scales = scales_of_channels(c.sizes, c.scales, p.dtype());
  }
}

Tensor Mamba2::projected(const Tensor& x) const {
  return scales.defined() ? in_proj(x) * scales : in_proj(x);
}

Mamba2::Mixed Mamba2::mix(const Tensor& xBC, const Tensor& steps,
                          const Tensor& document_starts) const {
  const std::int64_t B = xBC.dim(0), T = xBC.dim(1),
                     of_state = config.sizes.groups * config.sizes.state_size;
  const Tensor seen = silu(causal_conv1d(xBC, weight, bias, document_starts));
  const std::vector<Tensor> parts = split(seen, {config.sizes.channels(), of_state, of_state}, 2);
  const Shape groups{B, T, config.sizes.groups, config.sizes.state_size};
  return {.x = reshape(parts[0], {B, T, config.sizes.heads, config.sizes.head_size}),
          .dt = softplus(steps + dt_bias),
          .A = -exp(A_log),
          .B = reshape(parts[1], groups),
          .C = reshape(parts[2], groups)};
}

// Of y and x (…, heads, head_size).
Tensor Mamba2::with_skip(const Tensor& y, const Tensor& x) const { return y + x * unsqueeze(D, 1); }

// Of y with the shape of z (B, T, heads·head_size), or of any shape with as many elements.
Tensor Mamba2::output(const Tensor& y, const Tensor& z) const {
  const Tensor gated = swiglu(z, reshape(y, z.shape()));
  const std::int64_t groups = config.norm_groups;
  if (groups == 0) return out_proj(gated);
  if (groups == 1) return out_proj(norm(gated));
  const std::int64_t part = config.sizes.channels() / groups;
  const Tensor normed = rms_norm(reshape(gated, {z.dim(0), z.dim(1), groups, part}),
                                 Tensor::ones({part}, z.dtype()), norm.eps);
  return out_proj(reshape(normed, z.shape()) * norm.weight);
}

Tensor Mamba2::operator()(const Tensor& x, Rng* rng, const Tensor& document_starts) const {
  const std::vector<Tensor> parts =
      split(projected(x),
            {config.sizes.channels(), config.sizes.mixed_channels(), config.sizes.heads}, 2);
  const Mixed m = mix(parts[1], parts[2], document_starts);
  const Tensor y = state_space_scan(m.x, m.dt, m.A, m.B, m.C, document_starts);
  return maybe_dropout(output(with_skip(y, m.x), parts[0]), config.dropout, rng);
}

Tensor Mamba2::operator()(const Tensor& x, CachedLayer caches) const {
  const std::int64_t B = x.dim(0), T = x.dim(1), mixed = config.sizes.mixed_channels(),
                     H = config.sizes.heads;
  const std::vector<Tensor> parts = split(projected(x), {config.sizes.channels(), mixed + H}, 2);
  RecurrentPass pass(caches.recurrent_runs(B, T), reshape(parts[1], {B * T, mixed + H}),
                     config.kernel - 1);
  const std::vector<Tensor> seen = split(unsqueeze(pass.rows(), 0), {mixed, H}, 2);
  const Mixed m = mix(seen[0], seen[1]);
  const auto row = [](const Tensor& t) { return select(t, 0, 0); };
  const Tensor y =
      state_space_scan_pieces(row(m.x), row(m.dt), m.A, row(m.B), row(m.C), pass.pieces());
  return output(pass.finish(with_skip(y, row(m.x))), parts[0]);
}

}  // namespace tapegrad::nn
