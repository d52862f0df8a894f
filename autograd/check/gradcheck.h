#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tape.h"

namespace tapegrad {

struct GradientCheckOptions {
  std::uint64_t seed = 0;
  // Largest |analytic − numeric| / max(|analytic|, |numeric|) that passes, beyond what rounding of
  // the differences explains. In f32, how far rounding and curvature may put the two apart is
  // measured for each input, and this is not used.
  double tolerance = 1e-6;
};

// The verdict on one input of one recorded op.
struct GradientCheck {
  std::string op;
  std::size_t input = 0;
  std::string shapes;   // of all inputs and the outputs: "(2, 3), (3) → (2, 3)"
  double analytic = 0;  // ⟨vjp(u), v⟩
  double numeric = 0;   // ⟨u, (f(x + h·v) − f(x − h·v)) / 2h⟩
  double error = 0;     // gradient_error of the two
  double step = 0;      // h
  bool passed = false;
  // If it has not passed: the element of the input whose derivative is furthest off. -1: not
  // looked for, or not found.
  struct Element {
    std::int64_t index = -1;  // in the flattened input
    std::string place = {};   // the same in its shape: "(1, 4)"
    double analytic = 0, numeric = 0, step = 0;
  } worst = {};
  std::string str() const;  // one line that names all of this
};

// |analytic − numeric| / max(|analytic|, |numeric|), but with a larger divisor where the values are
// so small that `rounding`, the error of the numeric one, matters: a difference of no more than
// that is always within the tolerance.
double gradient_error(double analytic, double numeric, double rounding,
                      const GradientCheckOptions& options);

// Runs each step that a checkable tape has recorded again and compares its vjp with central
// differences: u and v are random directions in the space of the outputs and of one input, so that
// one number stands for the whole Jacobian (the check of HIPS/autograd). The tape must not have run
// backward yet. It may hold f32 tensors, in which errors of less than about 1e-3 can hide.
std::vector<GradientCheck> check_gradients(const Tape& tape,
                                           const GradientCheckOptions& options = {});
// Checks a function with whatever ops it runs, as if it were one op of this name. The inputs are
// different tensors.
std::vector<GradientCheck> check_function(const std::string& name,
                                          const std::function<Tensor(Inputs)>& f,
                                          const std::vector<Tensor>& inputs,
                                          const GradientCheckOptions& options = {});
// The same for a function of parameters: a model and its loss. Each parameter is moved in place,
// and put back. `f` must give the same result each time: no dropout, one batch.
std::vector<GradientCheck> check_function(
    const std::string& name, const std::function<Tensor()>& f,
    std::span<const std::pair<std::string, Tensor>> parameters,
    const GradientCheckOptions& options = {});

}  // namespace tapegrad
