#include <type_traits>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/autograd/ops/internal/recurrent_cells.h"
#include "tapegrad/autograd/ops/recurrent_ops.h"

namespace tapegrad {
namespace {

// Inputs of the ops, in this order; a GRU and an RNN have no c0.
enum : std::size_t { kX, kH0, kC0, kWeight, kBias };

struct Sizes {
  std::int64_t steps, batch, hidden;

  explicit Sizes(Inputs in) : steps(in[kX].dim(0)), batch(in[kX].dim(1)), hidden(in[kH0].dim(1)) {}
  std::int64_t states() const { return batch * hidden; }  // elements of one step's h
  std::int64_t grain() const { return 1 + kElementGrain / (4 * hidden + 1); }
};

// What a cell keeps of all steps, see CellStep; T is const in backward.
template <class Cell, class T>
struct Kept {
  Sizes sizes;
  const T *x, *h0, *c0;
  T *gates, *memory, *y;

  std::int64_t width() const { return Cell::kGates * sizes.hidden; }
  const T* h_before(std::int64_t t) const { return t == 0 ? h0 : y + (t - 1) * sizes.states(); }
  CellStep<T> row(std::int64_t t, std::int64_t b) const {
    const std::int64_t n = sizes.hidden, at = (t * sizes.batch + b) * n;
    const auto before = [&] {  // a cell without c keeps no memory
      if constexpr (!Cell::kHasC) return h_before(t);
      return t == 0 ? c0 : memory + (t - 1) * sizes.states();
    };
    return {.n = n,
            .x = x + at * Cell::kGates,
            .gates = gates + at * Cell::kGates,
            .before = before() + b * n,
            .memory = Cell::kHasMemory ? memory + at : nullptr,
            .h = y + at};
  }
};

template <class Cell, class T>
Kept<Cell, T> kept(Inputs in, T* gates, T* memory, T* y) {
  using Element = std::remove_const_t<T>;
  return {.sizes = Sizes(in),
          .x = in[kX].data<Element>(),
          .h0 = in[kH0].data<Element>(),
          .c0 = Cell::kHasC ? in[kC0].data<Element>() : nullptr,
          .gates = gates,
          .memory = memory,
          .y = y};
}

template <class Cell, class T>
void run_steps(const Kept<Cell, T>& k, const T* weight, const T* bias) {
  const auto [steps, batch, n] = k.sizes;
  const std::int64_t width = k.width();
  for (std::int64_t t = 0; t < steps; ++t) {
    T* gates = k.gates + t * batch * width;
    if (bias != nullptr) lay_rows(bias, width, batch, gates);
    gemm(Gemm<T>{.tb = true,
                 .m = batch,
                 .n = width,
                 .k = n,
                 .a = k.h_before(t),
                 .lda = n,
                 .b = weight,
                 .ldb = n,
                 .c = gates,
                 .ldc = width,
                 .beta = static_cast<T>(bias != nullptr ? 1 : 0)});
    parallel_for(batch, k.sizes.grain(), [=, &k](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) Cell::forward(k.row(t, b));
    });
  }
}

// y (T, B, H); an LSTM's has c after the last step behind it, (T + 1, B, H). The notes are the
// gates, the memory and y.
template <class Cell>
FusedOp::Output forward(Inputs in) {
  const Sizes sizes(in);
  const DType dtype = in[kX].dtype();
  const Shape shape{sizes.steps, sizes.batch, sizes.hidden};
  Tensor gates = Tensor::empty(in[kX].shape(), dtype);
  Tensor memory = Cell::kHasMemory ? Tensor::empty(shape, dtype) : Tensor();
  Tensor y = Tensor::empty(shape.with(0, sizes.steps + (Cell::kHasC ? 1 : 0)), dtype);
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto k =
        kept<Cell>(in, gates.mutable_data<T>(),
                   Cell::kHasMemory ? memory.mutable_data<T>() : nullptr, y.mutable_data<T>());
    run_steps(k, in[kWeight].data<T>(), in[kBias].defined() ? in[kBias].data<T>() : nullptr);
    if (!Cell::kHasC) return;
    const std::int64_t last = (sizes.steps - 1) * sizes.states();
    lay_rows(k.memory + last, sizes.states(), 1, k.y + last + sizes.states());
  });
  return {y, {gates, memory, y}};
}

// From the last step to the first. dh and dc have what comes to the last states from outside, and
// become the gradients of h0 and c0; `state` and `input` are those of the gates, see CellGradients.
template <class Cell, class T>
void run_back(const Kept<Cell, const T>& k, const T* weight, const T* dy, T* dh, T* dc, T* state,
              T* input) {
  const auto [steps, batch, n] = k.sizes;
  const std::int64_t width = k.width();
  for (std::int64_t t = steps; t-- > 0;) {
    const std::int64_t at = t * batch;
    parallel_for(batch, k.sizes.grain(), [=, &k, n = n](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        T* row = dh + b * n;
        for (std::int64_t j = 0; j < n; ++j) row[j] += dy[(at + b) * n + j];
        Cell::backward(k.row(t, b), CellGradients<T>{.dh = row,
                                                     .dc = Cell::kHasC ? dc + b * n : nullptr,
                                                     .state = state + (at + b) * width,
                                                     .input = input + (at + b) * width});
      }
    });
    gemm(Gemm<T>{.m = batch,
                 .n = n,
                 .k = width,
                 .a = state + at * width,
                 .lda = width,
                 .b = weight,
                 .ldb = n,
                 .c = dh,
                 .ldc = n,
                 .beta = 1});
  }
}

// Σ over the steps of state_tᵀ·h_{t − 1}: one product for h0, and one for all others.
template <class Cell, class T>
void weight_gradient(const Kept<Cell, const T>& k, const T* state, T* dw) {
  const std::int64_t n = k.sizes.hidden, batch = k.sizes.batch;
  Gemm<T> g{.ta = true, .m = k.width(), .n = n, .k = batch, .a = state, .lda = k.width()};
  g.b = k.h0;
  g.ldb = g.ldc = n;
  g.c = dw;
  gemm(g);
  if (k.sizes.steps == 1) return;
  g.k = (k.sizes.steps - 1) * batch;
  g.a = state + batch * k.width();
  g.b = k.y;
  g.beta = 1;
  gemm(g);
}

template <class Cell>
Grads backward(const Tensor& dy, Inputs in, Inputs notes, const Needs& needs) {
  const Sizes sizes(in);
  const DType dtype = dy.dtype();
  Tensor dh = Tensor::zeros(in[kH0].shape(), dtype);
  Tensor dc = Cell::kHasC ? select(dy, 0, sizes.steps).clone() : Tensor();
  Tensor state = Tensor::empty(in[kX].shape(), dtype);
  Tensor input = Cell::kSplitGradients ? Tensor::empty(in[kX].shape(), dtype) : state;
  Tensor dw = needs[kWeight] ? Tensor::empty(in[kWeight].shape(), dtype) : Tensor();
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto k = kept<Cell>(in, notes[0].data<T>(),
                              Cell::kHasMemory ? notes[1].data<T>() : nullptr, notes[2].data<T>());
    run_back(k, in[kWeight].data<T>(), dy.data<T>(), dh.mutable_data<T>(),
             Cell::kHasC ? dc.mutable_data<T>() : nullptr, state.mutable_data<T>(),
             input.mutable_data<T>());
    if (dw.defined()) weight_gradient(k, state.data<T>(), dw.mutable_data<T>());
  });
  const Tensor dbias = needs[kBias] ? sum(state, {0, 1}) : Tensor();
  return {input, dh, dc, dw, dbias};
}

// --- The same steps as ops ---

Tensor lstm_reference(Inputs in) {
  Tensor h = in[kH0], c = in[kC0];
  std::vector<Tensor> all;
  for (std::int64_t t = 0; t < in[kX].dim(0); ++t) {
    const auto a = chunk(select(in[kX], 0, t) + linear(h, in[kWeight], in[kBias]), 4, 1);
    c = sigmoid(a[1]) * c + sigmoid(a[0]) * tanh(a[2]);
    h = sigmoid(a[3]) * tanh(c);
    all.push_back(h);
  }
  all.push_back(c);
  return stack(all);
}

Tensor gru_reference(Inputs in) {
  Tensor h = in[kH0];
  std::vector<Tensor> all;
  for (std::int64_t t = 0; t < in[kX].dim(0); ++t) {
    const auto x = chunk(select(in[kX], 0, t), 3, 1);
    const auto b = chunk(linear(h, in[kWeight], in[kBias]), 3, 1);
    const Tensor z = sigmoid(x[1] + b[1]);
    const Tensor candidate = tanh(x[2] + sigmoid(x[0] + b[0]) * b[2]);
    h = (h - candidate) * z + candidate;
    all.push_back(h);
  }
  return stack(all);
}

Tensor rnn_reference(Inputs in, Tensor (*f)(const Tensor&)) {
  Tensor h = in[kH0];
  std::vector<Tensor> all;
  for (std::int64_t t = 0; t < in[kX].dim(0); ++t) {
    h = f(select(in[kX], 0, t) + linear(h, in[kWeight], in[kBias]));
    all.push_back(h);
  }
  return stack(all);
}

// --- Ops ---

void check_inputs(std::string_view op, std::int64_t gates, const std::vector<Tensor>& in) {
  const Tensor &x = in[kX], &h0 = in[kH0], &w = in[kWeight];
  check(w.rank() == 2 && w.dim(1) > 0 && w.dim(0) % gates == 0 && w.dim(0) / gates == w.dim(1),
        "[{}] weight_hh {} is not ({}·H, H)", op, w.shape(), gates);
  check(x.rank() == 3 && x.dim(0) > 0 && x.dim(2) == w.dim(0),
        "[{}] x {} is not (steps, batch, {}), with a step or more", op, x.shape(), w.dim(0));
  const Shape state{x.dim(1), w.dim(1)};
  check(h0.shape() == state, "[{}] h0 {} is not {}", op, h0.shape(), state);
  check(!in[kC0].defined() || in[kC0].shape() == state, "[{}] c0 {} is not {}", op,
        in[kC0].defined() ? in[kC0].shape() : Shape{}, state);
  check(!in[kBias].defined() || in[kBias].shape() == Shape{w.dim(0)},
        "[{}] bias_hh {} does not fit weight_hh {}", op,
        in[kBias].defined() ? in[kBias].shape() : Shape{}, w.shape());
  for (const Tensor& t : in) {
    check(!t.defined() || t.dtype() == x.dtype(), "[{}] dtypes differ: {} and {}", op,
          name_of(x.dtype()), name_of(t.defined() ? t.dtype() : x.dtype()));
  }
}

template <class Cell>
Tensor recurrent(std::string_view name, std::string_view backward_name,
                 const std::vector<Tensor>& in, std::function<Tensor(Inputs)> reference) {
  check_inputs(name, Cell::kGates, in);
  return apply_fused(in, {.name = name,
                          .backward_name = backward_name,
                          .forward = [](Inputs x, const Needs&) { return forward<Cell>(x); },
                          .backward = backward<Cell>,
                          .reference = std::move(reference)});
}

RecurrentSteps with_last(const Tensor& y) { return {y, select(y, 0, -1)}; }

}  // namespace

LstmSteps lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weight_hh,
               const Tensor& bias_hh) {
  check(c0.defined(), "[lstm] there is no c0");
  const Tensor all =
      recurrent<LstmCell>("lstm", "lstm_backward", {x, h0, c0, weight_hh, bias_hh}, lstm_reference);
  const std::int64_t steps = x.dim(0);
  return {slice(all, 0, 0, steps), select(all, 0, steps - 1), select(all, 0, steps)};
}

RecurrentSteps gru(const Tensor& x, const Tensor& h0, const Tensor& weight_hh,
                   const Tensor& bias_hh) {
  return with_last(
      recurrent<GruCell>("gru", "gru_backward", {x, h0, {}, weight_hh, bias_hh}, gru_reference));
}

RecurrentSteps rnn(const Tensor& x, const Tensor& h0, const Tensor& weight_hh,
                   const Tensor& bias_hh, Nonlinearity nonlinearity) {
  const std::vector<Tensor> in{x, h0, {}, weight_hh, bias_hh};
  if (nonlinearity == Nonlinearity::relu) {
    return with_last(recurrent<RnnCell<true>>("rnn_relu", "rnn_relu_backward", in,
                                              [](Inputs i) { return rnn_reference(i, relu); }));
  }
  return with_last(recurrent<RnnCell<false>>("rnn", "rnn_backward", in,
                                             [](Inputs i) { return rnn_reference(i, tanh); }));
}

}  // namespace tapegrad
