#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::nn {

// Recurrent networks: plain structs as those of layers.h. Names, initial values and the draws for
// them are PyTorch's, so that a state_dict of the same layers is read as it is.
//
// x is (T, B, in), or (B, T, in) with batch_first, as is the output with H channels. A state is
// (layers, B, H) in both cases; an undefined one stands for zeros. A bidirectional network reads
// the sequence in both directions: its output has 2H channels, those of the reading from the end
// last, and a state is (2·layers, B, H), the two directions of a layer side by side. The result has
// the last state: to train on a long text in pieces, give it to the next call. What it was computed
// from is not known to the next Tape, so gradients end there (truncated backpropagation); inside of
// one tape, a detach() of it ends them.

struct RecurrentOptions {
  std::int64_t layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // of the outputs of all layers but the last, if the call has an Rng
  bool bidirectional = false;
};

// The tensors of one layer, under the names weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0; of
// its second direction, weight_ih_l0_reverse and so on.
struct RecurrentWeights {
  Weight weight_ih;         // (G·H, in)
  Tensor weight_hh;         // (G·H, H)
  Tensor bias_ih, bias_hh;  // (G·H) or undefined
};
// Those of all layers; of a bidirectional network, two for each.
std::vector<RecurrentWeights> recurrent_weights(const Params& p, std::int64_t gates,
                                                std::int64_t in, std::int64_t hidden,
                                                const RecurrentOptions& options);

// See rnn in recurrent_ops.h.
struct RNN {
  struct Result {
    Tensor y, h;
  };
  std::vector<RecurrentWeights> layers;
  RecurrentOptions options;
  Nonlinearity nonlinearity = Nonlinearity::tanh;
  RNN() = default;
  RNN(const Params& p, std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh);
  Result operator()(const Tensor& x, const Tensor& h = {}, Rng* rng = nullptr) const;
};

// See gru in recurrent_ops.h.
struct GRU {
  using Result = RNN::Result;
  std::vector<RecurrentWeights> layers;
  RecurrentOptions options;
  GRU() = default;
  GRU(const Params& p, std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {});
  Result operator()(const Tensor& x, const Tensor& h = {}, Rng* rng = nullptr) const;
};

// See lstm in recurrent_ops.h.
struct LSTM {
  struct State {
    Tensor h, c;
  };
  struct Result {
    Tensor y;
    State state;
  };
  std::vector<RecurrentWeights> layers;
  RecurrentOptions options;
  LSTM() = default;
  LSTM(const Params& p, std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {});
  Result operator()(const Tensor& x, const State& state = {}, Rng* rng = nullptr) const;
};

// One step at a time: x (B, in) and a state (B, H), undefined for zeros, → the next state. Names,
// initial values and draws are those of PyTorch's cells: weight_ih, weight_hh, bias_ih, bias_hh.
struct RNNCell {
  RecurrentWeights weights;
  Nonlinearity nonlinearity = Nonlinearity::tanh;
  RNNCell() = default;
  RNNCell(const Params& p, std::int64_t in, std::int64_t hidden, bool bias = true,
          Nonlinearity nonlinearity = Nonlinearity::tanh);
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const;
};
// As RNNCell, with the step of gru in recurrent_ops.h.
struct GRUCell {
  RecurrentWeights weights;
  GRUCell() = default;
  GRUCell(const Params& p, std::int64_t in, std::int64_t hidden, bool bias = true);
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const;
};
// As RNNCell, with the step of lstm in recurrent_ops.h and two states.
struct LSTMCell {
  RecurrentWeights weights;
  LSTMCell() = default;
  LSTMCell(const Params& p, std::int64_t in, std::int64_t hidden, bool bias = true);
  LSTM::State operator()(const Tensor& x, const LSTM::State& state = {}) const;
};

}  // namespace tapegrad::nn
