// Derivative, gradient and tape: one loss of two parameters, by small changes, by the chain rule on
// paper, and by the tape; then descent along the gradient.

#include "tapegrad/autograd/ops.h"

using namespace tapegrad;

namespace {

constexpr double kInput = 3, kTarget = 5;

// The square of what w·x + b is off by. f64: small changes need the digits.
Tensor loss_of(const Tensor& w, const Tensor& b) {
  const Tensor error = w * kInput + b - kTarget;
  return error * error;
}

Tensor number(double value) { return Tensor::scalar(value, DType::f64); }

void print_small_changes() {
  const double before = loss_of(number(2), number(1)).item();
  fmt::print("w = 2, b = 1: loss {}\n\nw grows by    loss grows by    ratio\n", before);
  for (const double h : {1.0, 0.1, 0.01, 0.001}) {
    const double growth = loss_of(number(2 + h), number(1)).item() - before;
    fmt::print("{:<10}    {:<13.6f} {:>8.3f}\n", h, growth, growth / h);
  }
}

void print_chain() {
  const double w = 2, x = kInput, b = 1;
  const double product = w * x, prediction = product + b, error = prediction - kTarget;
  const double d_error = 2 * error;       // loss = error²
  const double d_prediction = d_error;    // error = prediction - target
  const double d_product = d_prediction;  // prediction = product + b
  const double d_b = d_prediction;
  const double d_w = d_product * x;  // product = w · x

  const Tensor tw = number(w), tb = number(b);
  Tape tape;
  tape.watch(tw);
  tape.watch(tb);
  const Tensor t_product = tw * x;
  const Tensor t_prediction = t_product + tb;
  const Tensor t_error = t_prediction - kTarget;
  const Tensor t_loss = t_error * t_error;
  const Grads g = tape.gradient(t_loss, {t_error, t_prediction, t_product, tb, tw}, {.keep = true});

  fmt::print("\n                        value   by hand   tape\n");
  const auto line = [](const char* name, double value, double by_hand, const Tensor& by_tape) {
    fmt::print("d loss / d {:<10}   {:>5}   {:>7}   {:>4}\n", name, value, by_hand, by_tape.item());
  };
  line("error", error, d_error, g[0]);
  line("prediction", prediction, d_prediction, g[1]);
  line("product", product, d_product, g[2]);
  line("b", b, d_b, g[3]);
  line("w", w, d_w, g[4]);
  fmt::print("\nThe tape has {} steps.\n", tape.size());
}

void descend(double rate) {
  Tensor w = number(2), b = number(1);
  w.set_requires_grad();
  b.set_requires_grad();
  fmt::print("\nstep       w       b    loss    d/dw    d/db\n");
  for (int step = 0; step <= 5; ++step) {
    Tape tape;
    const Tensor loss = loss_of(w, b);
    tape.backward(loss);
    fmt::print("{:>4} {:>7.4f} {:>7.4f} {:>7.4f} {:>7.4f} {:>7.4f}\n", step, w.item(), b.item(),
               loss.item(), w.grad().item(), b.grad().item());
    const TapePause pause;
    w -= w.grad() * rate;
    b -= b.grad() * rate;
    w.zero_grad();
    b.zero_grad();
  }
}

int lesson() {
  print_small_changes();
  print_chain();
  descend(0.02);
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
