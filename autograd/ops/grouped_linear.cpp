#include <algorithm>
#include <cstdint>
#include <vector>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/internal/batch_invariant.h"
#include "tapegrad/autograd/ops/expert_ops.h"
#include "tapegrad/autograd/ops/internal/ids.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// The rows [first, first + rows) of one expert.
struct Group {
  std::int64_t expert, first, rows;
};
using Groups = std::vector<Group>;

Groups groups_of(const Tensor& ends, std::int64_t rows) {
  Groups groups;
  std::int64_t first = 0;
  for (const std::int32_t end : ends.values<std::int32_t>()) {
    check(end >= first && end <= rows,
          "[grouped_linear] ends must rise from 0 or more to {}, the rows of x: {} follows {}",
          rows, end, first);
    groups.push_back({std::ssize(groups), first, end - first});
    first = end;
  }
  check(first == rows, "[grouped_linear] the last end must be {}, the rows of x, not {}", rows,
        first);
  return groups;
}

// Runs product(group) for each group. Large ones come one by one, since gemm shares them out among
// threads; threads share out the others.
template <class Product>
void run_products(const Groups& groups, std::int64_t work_of_row, const Product& product) {
  Groups small;
  std::int64_t work = 0;
  for (const Group& group : groups) {
    if (group.rows * work_of_row >= kUncutWork) {
      product(group);
    } else {
      small.push_back(group);
      work += group.rows * work_of_row;
    }
  }
  const std::int64_t mean = work / std::max<std::int64_t>(1, std::ssize(small)) + 1;
  parallel_for(std::ssize(small), std::max<std::int64_t>(1, (1 << 17) / mean),
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto i = begin; i < end; ++i) product(small[static_cast<std::size_t>(i)]);
               });
}

// y = x·weight[e]ᵀ, or x·weight[e].
template <class T>
void multiply(const Tensor& x, const Tensor& weight, bool transposed, const Groups& groups,
              Precision precision, Tensor& y) {
  const std::int64_t size = weight.dim(1) * weight.dim(2), n = y.dim(1), k = x.dim(1);
  const T *from = x.data<T>(), *by = weight.data<T>();
  T* const to = y.mutable_data<T>();
  const bool apart = is_batch_invariant();  // of this thread
  run_products(groups, n * k, [&](const Group& group) {
    if (group.rows == 0) return;
    gemm(Gemm<T>{.tb = transposed,
                 .m = group.rows,
                 .n = n,
                 .k = k,
                 .a = from + group.first * k,
                 .lda = k,
                 .b = by + group.expert * size,
                 .ldb = weight.dim(2),
                 .c = to + group.first * n,
                 .ldc = n,
                 .batch_invariant = apart},
         precision);
  });
}

// sums[e] = aᵀ·b over the rows of each expert.
template <class T>
void multiply_columns(const Tensor& a, const Tensor& b, const Groups& groups, Precision precision,
                      Tensor& sums) {
  const std::int64_t m = a.dim(1), n = b.dim(1);
  const T *left = a.data<T>(), *right = b.data<T>();
  T* const to = sums.mutable_data<T>();
  run_products(groups, m * n, [&](const Group& group) {
    gemm(Gemm<T>{.ta = true,
                 .m = m,
                 .n = n,
                 .k = group.rows,
                 .a = left + group.first * m,
                 .lda = m,
                 .b = right + group.first * n,
                 .ldb = n,
                 .c = to + group.expert * m * n,
                 .ldc = n},
         precision);
  });
}

// Each of these three is linear in two factors, and the gradients of each are the other two.
struct Products {
  Groups groups;
  Precision precision;

  Tensor forward(const Tensor& x, const Tensor& weight) const;   // x·Wᵀ
  Tensor backward(const Tensor& y, const Tensor& weight) const;  // y·W
  Tensor sums(const Tensor& y, const Tensor& x) const;           // (E, out, in), yᵀ·x

 private:
  // What the gradient of a product of a and b needs.
  static void keep_factors(Inputs in, Saved& saved) {
    saved.keep(saved.needs(1) ? in[0] : Tensor());
    saved.keep(saved.needs(0) ? in[1] : Tensor());
  }
  Tensor rows_of(const Tensor& x, const Tensor& weight, bool transposed) const {
    Tensor y = Tensor::empty({x.dim(0), weight.dim(transposed ? 1 : 2)}, x.dtype());
    dispatch(y.dtype(), [&](auto zero) {
      multiply<decltype(zero)>(x, weight, transposed, groups, precision, y);
    });
    return y;
  }
};

Tensor Products::forward(const Tensor& x, const Tensor& weight) const {
  return apply(
      "grouped_linear", {x, weight},
      [p = *this](Inputs in, Saved& saved) {
        keep_factors(in, saved);
        return p.rows_of(in[0], in[1], true);
      },
      [p = *this](const Tensor& dy, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? p.backward(dy, saved[1]) : Tensor(),
                needs[1] ? p.sums(dy, saved[0]) : Tensor()};
      });
}

Tensor Products::backward(const Tensor& y, const Tensor& weight) const {
  return apply(
      "grouped_linear_back", {y, weight},
      [p = *this](Inputs in, Saved& saved) {
        keep_factors(in, saved);
        return p.rows_of(in[0], in[1], false);
      },
      [p = *this](const Tensor& dx, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? p.forward(dx, saved[1]) : Tensor(),
                needs[1] ? p.sums(saved[0], dx) : Tensor()};
      });
}

Tensor Products::sums(const Tensor& y, const Tensor& x) const {
  return apply(
      "grouped_linear_sums", {y, x},
      [p = *this](Inputs in, Saved& saved) {
        keep_factors(in, saved);
        Tensor sums =
            Tensor::empty({std::ssize(p.groups), in[0].dim(1), in[1].dim(1)}, in[0].dtype());
        dispatch(sums.dtype(), [&](auto zero) {
          multiply_columns<decltype(zero)>(in[0], in[1], p.groups, p.precision, sums);
        });
        return sums;
      },
      [p = *this](const Tensor& dw, const Saved& saved, const Needs& needs) -> Grads {
        return {needs[0] ? p.forward(saved[1], dw) : Tensor(),
                needs[1] ? p.backward(saved[0], dw) : Tensor()};
      });
}

}  // namespace

Tensor grouped_linear(const Tensor& x, const Weight& weight, const Tensor& given) {
  check(weight.defined(), "[grouped_linear] quantised weights are matrices, not a tensor of them");
  check(weight.rank() == 3 && x.rank() == 2 && x.dim(1) == weight.dim(2),
        "[grouped_linear] x {} does not fit weight {} (experts, out, in)", x.shape(),
        weight.shape());
  check(x.dtype() == weight.dtype(), "[grouped_linear] dtypes differ: {} and {}",
        name_of(x.dtype()), name_of(weight.dtype()));
  check(weight.precision != Precision::int8,
        "[grouped_linear] products of experts are not rounded to int8");
  const Tensor ends = ids_as_i32("grouped_linear", "ends", given);
  check(ends.shape() == Shape{weight.dim(0)}, "[grouped_linear] ends {} do not fit weight {}",
        ends.shape(), weight.shape());
  return Products{groups_of(ends, x.dim(0)), weight.precision}.forward(x, weight);
}

}  // namespace tapegrad
