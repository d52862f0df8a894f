#pragma once

#include <cstdint>

#include "tapegrad/autograd/kernels/internal/vector_math.h"

namespace tapegrad {

// One step of a recurrent network for one row of a batch, forward and backward, in one pass over
// its n channels. The parts of a row of gates stand side by side, n each.

// What a step reads and writes; T is const in backward. `before` is c of the step before in an
// LSTM, and h in a GRU.
template <class T>
struct CellStep {
  std::int64_t n;
  const T* x;       // the input's part of the gates
  T* gates;         // before forward: the state's part; afterwards: the gates themselves
  const T* before;  // (n)
  T* memory;        // (n): an LSTM's c, a GRU's h·W_hnᵀ + b_hn
  T* h;             // (n)
};
// `dh` has the gradient of this step's h, and gets the part of the gradient of the last step's h
// that does not come through the weights.
template <class T>
struct CellGradients {
  T *dh, *dc;  // (n); dc is an LSTM's, and becomes that of the last step's c
  T* state;    // of the state's part of the gates
  T* input;    // of the input's part, if that is another: a GRU's
};

struct LstmCell {
  static constexpr std::int64_t kGates = 4;
  static constexpr bool kHasC = true, kHasMemory = true, kSplitGradients = false;

  template <class T>
  static void forward(const CellStep<T>& s) {
    const std::int64_t n = s.n;
    const T* __restrict x = s.x;
    T* __restrict g = s.gates;
    T* __restrict c = s.memory, * __restrict h = s.h;
    for (std::int64_t j = 0; j < 2 * n; ++j) g[j] = fast_sigmoid(x[j] + g[j]);
    for (std::int64_t j = 2 * n; j < 3 * n; ++j) g[j] = fast_tanh(x[j] + g[j]);
    for (std::int64_t j = 3 * n; j < 4 * n; ++j) g[j] = fast_sigmoid(x[j] + g[j]);
    for (std::int64_t j = 0; j < n; ++j) {
      c[j] = g[n + j] * s.before[j] + g[j] * g[2 * n + j];
      h[j] = g[3 * n + j] * fast_tanh(c[j]);
    }
  }

  template <class T>
  static void backward(const CellStep<const T>& s, const CellGradients<T>& d) {
    const std::int64_t n = s.n;
    const T* __restrict i = s.gates, * __restrict f = i + n, * __restrict g = i + 2 * n, * __restrict o = i + 3 * n;
    T* __restrict dh = d.dh, * __restrict dc = d.dc, * __restrict to = d.state;
    for (std::int64_t j = 0; j < n; ++j) {
      const T t = fast_tanh(s.memory[j]);
      const T total = dc[j] + dh[j] * o[j] * (1 - t * t);
      to[j] = total * g[j] * i[j] * (1 - i[j]);
      to[n + j] = total * s.before[j] * f[j] * (1 - f[j]);
      to[2 * n + j] = total * i[j] * (1 - g[j] * g[j]);
      to[3 * n + j] = dh[j] * t * o[j] * (1 - o[j]);
      dc[j] = total * f[j];
      dh[j] = 0;
    }
  }
};

struct GruCell {
  static constexpr std::int64_t kGates = 3;
  static constexpr bool kHasC = false, kHasMemory = true, kSplitGradients = true;

  template <class T>
  static void forward(const CellStep<T>& s) {
    const std::int64_t n = s.n;
    const T* __restrict x = s.x;
    T* __restrict g = s.gates;
    T* __restrict memory = s.memory, * __restrict h = s.h;
    for (std::int64_t j = 0; j < 2 * n; ++j) g[j] = fast_sigmoid(x[j] + g[j]);
    for (std::int64_t j = 0; j < n; ++j) {
      memory[j] = g[2 * n + j];
      const T candidate = fast_tanh(x[2 * n + j] + g[j] * memory[j]);
      g[2 * n + j] = candidate;
      h[j] = (s.before[j] - candidate) * g[n + j] + candidate;
    }
  }

  template <class T>
  static void backward(const CellStep<const T>& s, const CellGradients<T>& d) {
    const std::int64_t n = s.n;
    const T* __restrict r = s.gates, * __restrict z = r + n, * __restrict c = r + 2 * n;
    T* __restrict dh = d.dh, * __restrict state = d.state, * __restrict input = d.input;
    for (std::int64_t j = 0; j < n; ++j) {
      const T dc = dh[j] * (1 - z[j]) * (1 - c[j] * c[j]);
      input[j] = dc * s.memory[j] * r[j] * (1 - r[j]);
      input[n + j] = dh[j] * (s.before[j] - c[j]) * z[j] * (1 - z[j]);
      input[2 * n + j] = dc;
      state[j] = input[j];
      state[n + j] = input[n + j];
      state[2 * n + j] = dc * r[j];
      dh[j] *= z[j];
    }
  }
};

template <bool kRelu>
struct RnnCell {
  static constexpr std::int64_t kGates = 1;
  static constexpr bool kHasC = false, kHasMemory = false, kSplitGradients = false;

  template <class T>
  static void forward(const CellStep<T>& s) {
    const T* __restrict x = s.x;
    T* __restrict g = s.gates, * __restrict h = s.h;
    for (std::int64_t j = 0; j < s.n; ++j) {
      const T a = x[j] + g[j];
      h[j] = g[j] = kRelu ? (a <= 0 ? 0 : a) : fast_tanh(a);
    }
  }

  template <class T>
  static void backward(const CellStep<const T>& s, const CellGradients<T>& d) {
    const T* __restrict y = s.gates;
    T* __restrict dh = d.dh, * __restrict to = d.state;
    for (std::int64_t j = 0; j < s.n; ++j) {
      to[j] = kRelu ? (y[j] <= 0 ? 0 : dh[j]) : dh[j] * (1 - y[j] * y[j]);
      dh[j] = 0;
    }
  }
};

}  // namespace tapegrad
