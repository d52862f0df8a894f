#include "tapegrad/autograd/ops/internal/attention_checks.h"
#include "tapegrad/autograd/ops/internal/state_rule.h"
#include "tapegrad/autograd/ops/recurrent_ops.h"

namespace tapegrad {
namespace {

void check_inputs(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B,
                  const Tensor& C, const Tensor& starts) {
  check(x.rank() == 4, "[state_space_scan] x must be (B, T, H, P), not {}", x.shape());
  check(B.rank() == 4 && B.dim(0) == x.dim(0) && B.dim(1) == x.dim(1) && B.dim(2) > 0 &&
            B.dim(3) > 0 && x.dim(2) % B.dim(2) == 0,
        "[state_space_scan] B {} does not fit x {}: as (B, T, G, N) it has the same B and T, and G "
        "divides the number of heads",
        B.shape(), x.shape());
  check(C.shape() == B.shape(), "[state_space_scan] C {} is not of B's shape {}", C.shape(),
        B.shape());
  const Shape steps{x.dim(0), x.dim(1), x.dim(2)};
  check(dt.shape() == steps, "[state_space_scan] dt {} must be {}", dt.shape(), steps);
  check(A.shape() == Shape{x.dim(2)}, "[state_space_scan] A {} must be {}", A.shape(),
        Shape{x.dim(2)});
  for (const Tensor* t : {&dt, &A, &B, &C}) {
    check(t->dtype() == x.dtype(), "[state_space_scan] dtypes differ: {} and {}",
          name_of(x.dtype()), name_of(t->dtype()));
  }
  check_document_starts("state_space_scan", starts, x.dim(0), x.dim(1));
}

}  // namespace

Tensor state_space_scan(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B,
                        const Tensor& C, const Tensor& document_starts) {
  check_inputs(x, dt, A, B, C, document_starts);
  return apply_state_rule(kStateSpaceScan, {C, B, x, dt * A, dt}, document_starts);
}

Tensor state_space_scan_steps(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B,
                              const Tensor& C, const Tensor& document_starts) {
  check_inputs(x, dt, A, B, C, document_starts);
  return state_rule_steps(kStateSpaceScan, std::vector<Tensor>{C, B, x, dt * A, dt},
                          document_starts);
}

}  // namespace tapegrad
