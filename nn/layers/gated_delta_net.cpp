#include "tapegrad/nn/layers/gated_delta_net.h"

#include <cmath>

#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/autograd/state_pieces.h"

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

// The inverse of softplus of exp(U(ln 0.001, ln 0.1)).
Init first_steps() {
  return [](Tensor& t, Rng& rng) {
    uniform(std::log(0.001), std::log(0.1))(t, rng);
    t = log(expm1(exp(t)));
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

namespace {

// Rows of several sequences one behind the other: for each, the inputs before its newest place that
// the convolution sees, those behind it that were kept, and the new ones.
struct PassRows {
  std::vector<Tensor> parts;
  std::vector<StatePiece> pieces;
  std::vector<std::int32_t> fresh;  // the new ones

  void add(const RecurrentRun& run, const Tensor& inputs, std::int64_t before) {
    const RecurrentStates& states = *run.states;
    const RecurrentPlace& place = states.newest();
    const std::int64_t width = inputs.dim(1), begin = end() + before;
    parts.push_back(place.inputs.defined() ? place.inputs
                                           : Tensor::zeros({before, width}, inputs.dtype()));
    if (states.pending().defined()) parts.push_back(states.pending());
    parts.push_back(slice(inputs, 0, run.row, run.row + run.count));
    StatePiece piece{.begin = begin, .end = begin, .state = place.state, .keep = {}};
    piece.end += states.length() - place.position + run.count;
    for (const std::int64_t position : states.places_after(run.count, run.tentative)) {
      piece.keep.push_back(begin + position - place.position - 1);
    }
    for (std::int64_t row = piece.end - run.count; row < piece.end; ++row) {
      fresh.push_back(static_cast<std::int32_t>(row));
    }
    pieces.push_back(std::move(piece));
  }
  std::int64_t end() const { return pieces.empty() ? 0 : pieces.back().end; }
};

// The states behind rows of a pass, and the inputs before and at them that a convolution sees.
std::vector<RecurrentPlace> places_of(const RecurrentRun& run, const StatePiece& piece,
                                      const Tensor& rows, std::int64_t before) {
  std::vector<RecurrentPlace> places;
  const std::int64_t first = run.states->newest().position;
  for (std::size_t i = 0; i < piece.keep.size(); ++i) {
    const std::int64_t behind = piece.keep[i] + 1;
    places.push_back({.position = first + behind - piece.begin,
                      .state = piece.kept[i],
                      .inputs = slice(rows, 0, behind - before, behind)});
  }
  return places;
}

}  // namespace

Tensor GatedDeltaNet::operator()(const Tensor& x, CachedLayer caches) const {
  const std::vector<Tensor> parts =
      outputs_of(x, {&in_proj_qkv, &in_proj_z, &in_proj_b, &in_proj_a});
  const std::int64_t B = x.dim(0), T = x.dim(1), mixed = weight.dim(0), H = config.heads;
  const Tensor inputs = reshape(concat({parts[0], parts[2], parts[3]}, 2), {B * T, mixed + 2 * H});
  const std::vector<RecurrentRun> runs = caches.recurrent_runs(B, T);
  PassRows pass;
  for (const RecurrentRun& run : runs) pass.add(run, inputs, config.kernel - 1);
  const Tensor rows = concat(pass.parts, 0);
  const std::vector<Tensor> seen =
      split(reshape(rows, {1, rows.dim(0), rows.dim(1)}), {mixed, H, H}, 2);
  const Mixed m = mix(seen[0], seen[1], seen[2]);
  const auto row = [](const Tensor& t) { return select(t, 0, 0); };
  const Tensor y =
      gated_delta_rule_pieces(row(m.q), row(m.k), row(m.v), row(m.g), row(m.beta), pass.pieces);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const StatePiece& piece = pass.pieces[i];
    runs[i].states->advance(places_of(runs[i], piece, rows, config.kernel - 1),
                            slice(rows, 0, piece.begin, piece.end));
  }
  return output(gather_rows(y, Tensor::from(pass.fresh, {std::ssize(pass.fresh)})), parts[1]);
}

}  // namespace tapegrad::nn
