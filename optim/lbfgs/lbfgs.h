#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"

namespace tapegrad::optim {

struct LBFGSOptions {
  enum class LineSearch { none, strong_wolfe };

  double lr = 1;                   // the length of a step, or what a line search tries first
  std::int64_t max_iter = 20;      // iterations of one step()
  std::int64_t max_eval = 0;       // calls of the closure in one step(); 0: max_iter·5/4
  double tolerance_grad = 1e-7;    // a step() ends where no gradient is larger
  double tolerance_change = 1e-9;  // … or the loss or all parameters change by less
  std::int64_t history_size = 100;
  LineSearch line_search = LineSearch::none;
};

// L-BFGS (Nocedal & Wright, "Numerical Optimization", 2006, algorithms 7.4 and 7.5), with the
// iterates of torch.optim.LBFGS. A step() evaluates the loss several times, so it takes a function
// that does, always of the same data:
//
//   optim::LBFGS lbfgs(parameters, {.line_search = optim::LBFGSOptions::LineSearch::strong_wolfe});
//   const double loss_before = lbfgs.step([&] {
//     Tape tape;
//     const Tensor loss = mse_loss(model(x), y);
//     tape.backward(loss);
//     return loss.item();
//   });
//
// It keeps up to 2·history_size + 2 times as many numbers as there are parameters.
class LBFGS {
 public:
  // Returns the loss and adds its gradients to the parameters' grad(), which step() drops before.
  using Closure = std::function<double()>;

  // Error unless there are parameters, all of one dtype, and for options that mean nothing.
  explicit LBFGS(NamedTensors parameters, const LBFGSOptions& options = {});

  // Makes up to max_iter iterations and returns the loss before them. A parameter without a grad()
  // has gradient 0. Error if the loss or a gradient is not finite; then, and if the closure throws,
  // the parameters are those of the iteration before.
  double step(const Closure& closure);

  std::int64_t iterations() const { return memory_.iterations; }    // of all steps together
  std::int64_t evaluations() const { return memory_.evaluations; }  // calls of the closure

  // For a checkpoint: the last direction and gradient, and the changes that it remembers, as
  // "lbfgs.…", and counts as metadata.
  NamedTensors state() const;
  Metadata metadata() const;
  // Error, naming the file, if something is missing or does not fit; then nothing is changed.
  void load_state(const TensorSource& file);

 private:
  struct Point {
    double loss = 0;
    Tensor gradient;  // (N), of all parameters one after the other
  };
  // What an iteration changed, from which the next ones know the curvature.
  struct Change {
    Tensor gradient, parameters;  // (N) each: PyTorch's old_dirs and old_stps
    double product;               // of the two
  };
  // What a step() leaves for the next one.
  struct Memory {
    std::int64_t iterations = 0, evaluations = 0;
    Tensor direction, gradient;   // of the last iteration; undefined before the first
    double length = 0;            // of its step along the direction
    std::vector<Change> changes;  // the oldest first
  };

  // A change whose product is not above this says nothing about the curvature.
  static constexpr double kLeastProduct = 1e-10;

  // The inner product, summed in double in chunks of a fixed size.
  static double inner(const Tensor& a, const Tensor& b);
  Tensor flat() const;
  void place(const Tensor& from, double t);
  Point evaluate(const Closure& closure);
  static void check_finite(const Point& point);
  void learn(Tensor gradient_change, Tensor parameter_change);
  void set_direction(const Tensor& gradient);
  Point advance(const Closure& closure, const Point& from, double slope,
                std::int64_t evaluations_left, bool last);

  NamedTensors parameters_;
  LBFGSOptions options_;
  std::int64_t size_ = 0;  // N
  Memory memory_;
};

}  // namespace tapegrad::optim
