#include "tapegrad/autograd/kernels/elementwise.h"

#include <array>

namespace tapegrad {
namespace {

// Strides of a contiguous tensor of `shape`, aligned to the last `rank` dimensions of a broadcast;
// 0 where the tensor is stretched.
std::array<std::int64_t, Shape::kMaxRank> broadcast_strides(const Shape& shape, int rank) {
  std::array<std::int64_t, Shape::kMaxRank> strides{};
  std::int64_t stride = 1;
  for (int i = 1; i <= shape.rank(); ++i) {
    if (shape[-i] != 1) strides[static_cast<std::size_t>(rank - i)] = stride;
    stride *= shape[-i];
  }
  return strides;
}

}  // namespace

BroadcastPlan plan_broadcast(std::string_view op, const Shape& a, const Shape& b) {
  BroadcastPlan plan{broadcast_shapes(op, a, b), {}};
  const int rank = plan.shape.rank();
  const auto a_strides = broadcast_strides(a, rank);
  const auto b_strides = broadcast_strides(b, rank);
  for (int i = 0; i < rank; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const BroadcastPlan::Dim dim{plan.shape[i], a_strides[k], b_strides[k]};
    if (dim.size == 1) continue;
    if (!plan.dims.empty()) {
      BroadcastPlan::Dim& outer = plan.dims.back();
      if (outer.a_stride == dim.a_stride * dim.size && outer.b_stride == dim.b_stride * dim.size) {
        outer = {outer.size * dim.size, dim.a_stride, dim.b_stride};
        continue;
      }
    }
    plan.dims.push_back(dim);
  }
  if (plan.dims.empty()) plan.dims.push_back({1, 0, 0});
  return plan;
}

void add_in_place(Tensor& sum, const Tensor& term) {
  check(sum.shape() == term.shape() && sum.dtype() == term.dtype(),
        "[add_in_place] {} {} cannot be added to {} {}", term.shape(), name_of(term.dtype()),
        sum.shape(), name_of(sum.dtype()));
  dispatch(sum.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* s = sum.mutable_data<T>();
    const T* t = term.data<T>();
    parallel_for(sum.numel(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) s[i] += t[i];
    });
  });
}

}  // namespace tapegrad
