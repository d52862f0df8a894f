// Builds a chain of a million ops, runs backward through it and lets go of it. Run under a small
// `ulimit -s`, it shows that nothing of this is recursive.

#include <sys/resource.h>

#include <cstdio>
#include <optional>

#include "tapegrad/autograd/ops.h"

using namespace tapegrad;

namespace {

constexpr int kOps = 1'000'000;
constexpr long kMostKiB = 3L << 20;

// The gradient of x after kOps additions of 1; with `run_back` false the tape dies without a run.
double gradient_of_chain(bool run_back) {
  const Tensor x = Tensor::scalar(2, DType::f64).set_requires_grad();
  const Tensor one = Tensor::scalar(1, DType::f64);
  std::optional<Tape> tape(std::in_place);
  Tensor y = x;
  for (int i = 0; i < kOps; ++i) y = y + one;
  if (run_back) tape->backward(y);
  tape.reset();
  return run_back ? x.grad().item() : 1;
}

}  // namespace

int main() {
  const bool right = gradient_of_chain(true) == 1 && gradient_of_chain(false) == 1;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("gradient %s, %ld MiB\n", right ? "right" : "WRONG", usage.ru_maxrss >> 10);
  return right && usage.ru_maxrss < kMostKiB ? 0 : 1;
}
