#include "tapegrad/nn/layers/recurrent.h"

#include <string_view>

#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {
namespace {

// Part `i`, of a layer and direction, of a state (layers, B, H), or zeros.
Tensor state_of(std::string_view layer, const Tensor& state, std::size_t i, std::size_t layers,
                const Shape& shape, DType dtype) {
  if (!state.defined()) return Tensor::zeros(shape, dtype);
  const Shape all{static_cast<std::int64_t>(layers), shape[0], shape[1]};
  check(state.shape() == all, "[{}] a state of {} is not {}", layer, state.shape(), all);
  return select(state, 0, static_cast<std::int64_t>(i));
}

// Runs the layers: one(x's part of the gates, weights, i, (B, H)) runs layers[i] → (T, B, H).
template <class One>
Tensor run_layers(std::string_view name, const Tensor& x,
                  const std::vector<RecurrentWeights>& layers, const RecurrentOptions& options,
                  Rng* rng, const One& one) {
  check(!layers.empty() && x.rank() == 3, "[{}] x {} is not of rank 3, or the layer is absent",
        name, x.shape());
  Tensor y = options.batch_first ? transpose(x, 0, 1) : x;
  const auto run = [&](const Tensor& input, std::size_t i) {
    const RecurrentWeights& w = layers[i];
    return one(linear(input, w.weight_ih, w.bias_ih), w, i,
               Shape{input.dim(1), w.weight_hh.dim(1)});
  };
  const std::size_t directions = options.bidirectional ? 2 : 1;
  for (std::size_t i = 0; i < layers.size(); i += directions) {
    if (i > 0) y = maybe_dropout(y, options.dropout, rng);
    y = directions == 1 ? run(y, i) : concat({run(y, i), flip(run(flip(y, 0), i + 1), 0)}, 2);
  }
  return options.batch_first ? transpose(y, 0, 1) : y;
}

// The tensors of one layer and direction, or of a cell, whose names have no suffix.
RecurrentWeights weights_of(const Params& p, std::int64_t gates, std::int64_t in,
                            std::int64_t hidden, bool bias, const std::string& suffix) {
  check(in > 0 && hidden > 0, "[recurrent] {} channels with {} inputs", hidden, in);
  const Init init = kaiming_uniform(hidden);
  RecurrentWeights w;
  w.weight_ih = p.weight("weight_ih" + suffix, {gates * hidden, in}, init);
  w.weight_hh = p.parameter("weight_hh" + suffix, {gates * hidden, hidden}, init);
  if (bias) {
    w.bias_ih = p.parameter("bias_ih" + suffix, {gates * hidden}, init);
    w.bias_hh = p.parameter("bias_hh" + suffix, {gates * hidden}, init);
  }
  return w;
}

// What x (B, in) adds to the gates of a cell, as a sequence of one step: (1, B, G·H).
Tensor gates_of_step(std::string_view cell, const Tensor& x, const RecurrentWeights& w) {
  check(w.weight_ih.exists(), "[{}] the layer is absent", cell);
  check(x.rank() == 2, "[{}] x must be (B, in), not {}", cell, x.shape());
  return unsqueeze(linear(x, w.weight_ih, w.bias_ih), 0);
}

// A cell's state (B, H), or zeros.
Tensor state_of_step(std::string_view cell, const Tensor& state, const Tensor& x,
                     const RecurrentWeights& w) {
  const Shape shape{x.dim(0), w.weight_hh.dim(1)};
  if (!state.defined()) return Tensor::zeros(shape, w.weight_hh.dtype());
  check(state.shape() == shape, "[{}] a state of {} is not {}", cell, state.shape(), shape);
  return state;
}

}  // namespace

std::vector<RecurrentWeights> recurrent_weights(const Params& p, std::int64_t gates,
                                                std::int64_t in, std::int64_t hidden,
                                                const RecurrentOptions& options) {
  check_numbers("RecurrentOptions", {{"layers", static_cast<double>(options.layers), at_least(1)},
                                     {"dropout", options.dropout, from_to(0, 1)}});
  std::vector<RecurrentWeights> layers;
  const std::int64_t directions = options.bidirectional ? 2 : 1;
  for (std::int64_t i = 0; i < options.layers * directions; ++i) {
    const std::int64_t layer = i / directions, inputs = layer == 0 ? in : hidden * directions;
    const std::string suffix = fmt::format("_l{}{}", layer, i % directions == 1 ? "_reverse" : "");
    layers.push_back(weights_of(p, gates, inputs, hidden, options.bias, suffix));
  }
  return layers;
}

RNN::RNN(const Params& p, std::int64_t in, std::int64_t hidden, const RecurrentOptions& how,
         Nonlinearity f)
    : layers(recurrent_weights(p, 1, in, hidden, how)), options(how), nonlinearity(f) {}

RNN::Result RNN::operator()(const Tensor& x, const Tensor& h, Rng* rng) const {
  std::vector<Tensor> last;
  const auto one = [&](const Tensor& gates, const RecurrentWeights& w, std::size_t i,
                       const Shape& shape) {
    const Tensor h0 = state_of("RNN", h, i, layers.size(), shape, gates.dtype());
    const RecurrentSteps steps = rnn(gates, h0, w.weight_hh, w.bias_hh, nonlinearity);
    last.push_back(steps.h);
    return steps.y;
  };
  const Tensor y = run_layers("RNN", x, layers, options, rng, one);
  return {y, stack(last)};
}

GRU::GRU(const Params& p, std::int64_t in, std::int64_t hidden, const RecurrentOptions& how)
    : layers(recurrent_weights(p, 3, in, hidden, how)), options(how) {}

GRU::Result GRU::operator()(const Tensor& x, const Tensor& h, Rng* rng) const {
  std::vector<Tensor> last;
  const auto one = [&](const Tensor& gates, const RecurrentWeights& w, std::size_t i,
                       const Shape& shape) {
    const Tensor h0 = state_of("GRU", h, i, layers.size(), shape, gates.dtype());
    const RecurrentSteps steps = gru(gates, h0, w.weight_hh, w.bias_hh);
    last.push_back(steps.h);
    return steps.y;
  };
  const Tensor y = run_layers("GRU", x, layers, options, rng, one);
  return {y, stack(last)};
}

LSTM::LSTM(const Params& p, std::int64_t in, std::int64_t hidden, const RecurrentOptions& how)
    : layers(recurrent_weights(p, 4, in, hidden, how)), options(how) {}

LSTM::Result LSTM::operator()(const Tensor& x, const State& state, Rng* rng) const {
  check(state.h.defined() == state.c.defined(), "[LSTM] a state has both h and c, or neither");
  std::vector<Tensor> hs, cs;
  const auto one = [&](const Tensor& gates, const RecurrentWeights& w, std::size_t i,
                       const Shape& shape) {
    const Tensor h0 = state_of("LSTM", state.h, i, layers.size(), shape, gates.dtype());
    const Tensor c0 = state_of("LSTM", state.c, i, layers.size(), shape, gates.dtype());
    const LstmSteps steps = lstm(gates, h0, c0, w.weight_hh, w.bias_hh);
    hs.push_back(steps.h);
    cs.push_back(steps.c);
    return steps.y;
  };
  const Tensor y = run_layers("LSTM", x, layers, options, rng, one);
  return {y, {stack(hs), stack(cs)}};
}

RNNCell::RNNCell(const Params& p, std::int64_t in, std::int64_t hidden, bool bias, Nonlinearity f)
    : weights(weights_of(p, 1, in, hidden, bias, "")), nonlinearity(f) {}

Tensor RNNCell::operator()(const Tensor& x, const Tensor& h) const {
  const Tensor gates = gates_of_step("RNNCell", x, weights);
  const Tensor h0 = state_of_step("RNNCell", h, x, weights);
  return rnn(gates, h0, weights.weight_hh, weights.bias_hh, nonlinearity).h;
}

GRUCell::GRUCell(const Params& p, std::int64_t in, std::int64_t hidden, bool bias)
    : weights(weights_of(p, 3, in, hidden, bias, "")) {}

Tensor GRUCell::operator()(const Tensor& x, const Tensor& h) const {
  const Tensor gates = gates_of_step("GRUCell", x, weights);
  const Tensor h0 = state_of_step("GRUCell", h, x, weights);
  return gru(gates, h0, weights.weight_hh, weights.bias_hh).h;
}

LSTMCell::LSTMCell(const Params& p, std::int64_t in, std::int64_t hidden, bool bias)
    : weights(weights_of(p, 4, in, hidden, bias, "")) {}

LSTM::State LSTMCell::operator()(const Tensor& x, const LSTM::State& state) const {
  check(state.h.defined() == state.c.defined(), "[LSTMCell] a state has both h and c, or neither");
  const Tensor gates = gates_of_step("LSTMCell", x, weights);
  const Tensor h0 = state_of_step("LSTMCell", state.h, x, weights);
  const Tensor c0 = state_of_step("LSTMCell", state.c, x, weights);
  const LstmSteps steps = lstm(gates, h0, c0, weights.weight_hh, weights.bias_hh);
  return {steps.h, steps.c};
}

}  // namespace tapegrad::nn
