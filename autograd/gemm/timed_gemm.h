#pragma once

#include <vector>

#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad {

// A product of random numbers, for measuring how long it takes. Operands and result are dense.
class TimedGemm {
 public:
  explicit TimedGemm(const GemmShape& shape);

  // Seconds of one product as gemm() computes it. With a precision other than the shape's, the time
  // includes rounding both operands; in int8, it does in any case.
  double seconds(Precision precision);
  double seconds() { return seconds(shape_.precision); }
  // The same for the whole product by one library, with so many threads of the library's own.
  // Nothing if the library is not there or cannot multiply numbers of this precision.
  std::optional<double> seconds(GemmLibrary library, int threads);

 private:
  double seconds_in_int8();
  template <class T>
  Gemm<T> product(const std::vector<T>& a, const std::vector<T>& b);

  GemmShape shape_;
  std::vector<float> a_, b_, c_;
  std::vector<bf16> low_a_, low_b_;  // if the shape is of bf16
};

}  // namespace tapegrad
