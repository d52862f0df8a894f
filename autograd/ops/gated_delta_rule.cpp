#include "tapegrad/autograd/ops/internal/attention_checks.h"
#include "tapegrad/autograd/ops/internal/state_rule.h"
#include "tapegrad/autograd/ops/recurrent_ops.h"

namespace tapegrad {
namespace {

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                  const Tensor& beta, const Tensor& starts) {
  check(v.rank() == 4, "[gated_delta_rule] v must be (B, T, H, C), not {}", v.shape());
  check(k.rank() == 4 && k.dim(0) == v.dim(0) && k.dim(1) == v.dim(1) && k.dim(2) > 0 &&
            k.dim(3) > 0 && v.dim(2) % k.dim(2) == 0,
        "[gated_delta_rule] k {} does not fit v {}: as (B, T, K, A) it has the same B and T, and K "
        "divides the number of heads",
        k.shape(), v.shape());
  check(q.shape() == k.shape(), "[gated_delta_rule] q {} is not of k's shape {}", q.shape(),
        k.shape());
  const Shape numbers{v.dim(0), v.dim(1), v.dim(2)};
  check(g.shape() == numbers && beta.shape() == numbers,
        "[gated_delta_rule] g {} and beta {} must be {}", g.shape(), beta.shape(), numbers);
  for (const Tensor* x : {&q, &k, &g, &beta}) {
    check(x->dtype() == v.dtype(), "[gated_delta_rule] dtypes differ: {} and {}",
          name_of(v.dtype()), name_of(x->dtype()));
  }
  check_document_starts("gated_delta_rule", starts, v.dim(0), v.dim(1));
}

}  // namespace

Tensor gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                        const Tensor& beta, const Tensor& document_starts) {
  check_inputs(q, k, v, g, beta, document_starts);
  return apply_state_rule(kGatedDeltaRule, {q, k, v, g, beta}, document_starts);
}

Tensor gated_delta_rule_steps(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                              const Tensor& beta, const Tensor& document_starts) {
  check_inputs(q, k, v, g, beta, document_starts);
  return state_rule_steps(kGatedDeltaRule, std::vector<Tensor>{q, k, v, g, beta}, document_starts);
}

}  // namespace tapegrad
