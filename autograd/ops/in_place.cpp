#include "tapegrad/autograd/internal/step.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tensor/tracked.h"

namespace tapegrad {
namespace {

void check_unseen(std::string_view op, const Tensor& a, const Tensor& b) {
  for (const Tensor& t : {a, b}) {
    check(!is_tracked(t),
          "[{}] a live tape tracks a tensor of shape {}, and in-place ops are not recorded: write "
          "a = a + b, or change it while a TapePause lives",
          op, t.shape());
  }
  live_tapes().for_each_recording([&](const TapeRecord& tape) {
    check(
        !tape.has_used(a.base_id()),
        "[{}] a tensor of shape {} is a view of one that a live tape tracks, and in-place ops are "
        "not recorded: change it while a TapePause lives, or change a clone() of it",
        op, a.shape());
  });
}

// True if writing to a changes elements of b that are still to be read.
bool disturbs(const Tensor& a, const Tensor& b) {
  return dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::less<const T*> before;
    const T *x = a.data<T>(), *y = b.data<T>();
    const bool apart = !before(x, y + b.numel()) || !before(y, x + a.numel());
    return !apart && !(x == y && a.shape() == b.shape());
  });
}

// `whole` is the op on integers, which checks what it makes.
template <class F>
Tensor& in_place(std::string_view op, Tensor& a, const Tensor& b, const F& f,
                 Tensor (*whole)(const Tensor&, const Tensor&)) {
  check(promoted(op, a.dtype(), b.dtype()) == a.dtype(), "[{}] dtypes differ: {} and {}", op,
        name_of(a.dtype()), name_of(b.dtype()));
  const BroadcastPlan plan = plan_broadcast(op, a.shape(), b.shape());
  check(plan.shape == a.shape(), "[{}] {} does not broadcast to {}", op, b.shape(), a.shape());
  check_unseen(op, a, b);
  if (!is_float(a.dtype())) {
    const Tensor result = whole(a, b);
    check(result.dtype() == a.dtype(), "[{}] {} does not hold the result, of {}", op,
          name_of(a.dtype()), name_of(result.dtype()));
    dispatch_all(a.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::copy_n(result.data<T>(), result.numel(), a.mutable_data<T>());
    });
    return a;
  }
  const Tensor term = disturbs(a, b) ? b.clone() : b;
  dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    zip_to(plan, a.data<T>(), term.data<T>(), a.mutable_data<T>(), f);
  });
  return a;
}

}  // namespace

Tensor& operator+=(Tensor& a, const Tensor& b) {
  return in_place(
      "+=", a, b, [](auto x, auto y) { return x + y; }, add);
}
Tensor& operator-=(Tensor& a, const Tensor& b) {
  return in_place(
      "-=", a, b, [](auto x, auto y) { return x - y; }, sub);
}
Tensor& operator*=(Tensor& a, const Tensor& b) {
  return in_place(
      "*=", a, b, [](auto x, auto y) { return x * y; }, mul);
}
Tensor& operator/=(Tensor& a, const Tensor& b) {
  return in_place(
      "/=", a, b, [](auto x, auto y) { return x / y; }, div);
}
Tensor& assign(Tensor& a, const Tensor& b) {
  return in_place(
      "assign", a, b, [](auto, auto y) { return y; },
      [](const Tensor& x, const Tensor& y) { return broadcast_to(y.to(x.dtype()), x.shape()); });
}

}  // namespace tapegrad
