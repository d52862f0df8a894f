#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/base/random.h"

namespace tapegrad {

// Small cases of every differentiable op, with which all derivatives of this library are checked:
// one line per case, in op_cases.cpp and the files beside it. A new op gets a line there. Every
// test process fails that has run an op which no case runs.

// How a case draws its inputs, in f64.
enum class Draw {
  normal,    // standard normal
  positive,  // 0.5 + |normal|
  spread,    // shuffled multiples of ¼, plus 0.1: no two are equal, none is near 0 or ±1
};

struct OpCase {
  std::string op;  // the call, with its constants: "sum(0, 2)"
  std::vector<Shape> shapes;
  Draw draw;
  std::function<Tensor(Inputs)> run;

  std::string str() const;  // "mul (3, 4), (4)"
  std::vector<Tensor> inputs(Rng& rng) const;
};

std::span<const OpCase> op_table();

struct OpChecks {
  // Checks of the case's own steps, and of the case as a whole.
  std::vector<GradientCheck> first;
  // Checks of the steps that make its gradient, and of its gradient as a whole.
  std::vector<GradientCheck> second;
};

// Checks the first and second derivatives of a case. A check of the whole is named after the case,
// which tells it from those of its steps: it finds what a step leaves out of its own record.
OpChecks check_op_case(const OpCase& op_case, const GradientCheckOptions& options = {});

// The kinds of inputs on which the cases run one op, in first or second derivatives.
struct OpCoverage {
  bool ordinary = false;
  bool edge = false;       // one that is empty or of rank 0
  bool broadcast = false;  // two of different shapes
};
std::map<std::string, OpCoverage> op_coverage();

// A sentence for each of these ops that lacks a case at ordinary shapes, or one with an input that
// is empty or of rank 0. Ops whose name begins with "test." are a test's own.
std::vector<std::string> missing_cases(const std::vector<std::string>& ops,
                                       const std::map<std::string, OpCoverage>& coverage);

}  // namespace tapegrad
