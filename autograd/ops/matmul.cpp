#include <numeric>
#include <utility>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/internal/batch_invariant.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

struct MatmulSizes {
  std::int64_t m, n, k;
  Shape batch;
};

thread_local bool batch_invariant = false;

Shape batch_of(const Shape& shape) { return Shape(std::span(shape.begin(), shape.end() - 2)); }

MatmulSizes matmul_sizes(const Shape& a, const Shape& b, MatmulOptions options) {
  const bool ta = options.transpose_a, tb = options.transpose_b;
  const std::int64_t k = ta ? a[-2] : a[-1];
  check(k == (tb ? b[-1] : b[-2]), "[matmul] inner dimensions differ: a is {}{}, b is {}{}", a,
        ta ? " transposed" : "", b, tb ? " transposed" : "");
  return {ta ? a[-1] : a[-2], tb ? b[-2] : b[-1], k,
          broadcast_shapes("matmul", batch_of(a), batch_of(b))};
}

template <class T>
void run_matmul(const Tensor& a, const Tensor& b, const MatmulSizes& s, MatmulOptions options,
                Tensor& out) {
  const T *pa = a.data<T>(), *pb = b.data<T>();
  T* pc = out.mutable_data<T>();
  const auto one = [&](const T* x, const T* y, T* z, std::int64_t m) {
    gemm(Gemm<T>{.ta = options.transpose_a,
                 .tb = options.transpose_b,
                 .m = m,
                 .n = s.n,
                 .k = s.k,
                 .a = x,
                 .lda = a.dim(-1),
                 .b = y,
                 .ldb = b.dim(-1),
                 .c = z,
                 .ldc = s.n},
         options.precision);
  };
  // One shared matrix on the right: the batch is just more rows of a.
  if (b.rank() == 2 && !options.transpose_a) return one(pa, pb, pc, s.batch.numel() * s.m);

  const BroadcastPlan plan = plan_broadcast("matmul", batch_of(a.shape()), batch_of(b.shape()));
  const std::int64_t batches = plan.shape.numel();
  const std::int64_t work = std::max<std::int64_t>(1, s.m * s.n * s.k);
  const auto [inner, sa, sb] = plan.dims.back();
  const auto run = [&, sa = sa, sb = sb](std::int64_t begin, std::int64_t end) {
    detail::walk_rows(plan, begin, end, [&](auto ia, auto ib, auto i, auto stop) {
      for (; i < stop; ++i, ia += sa, ib += sb) {
        one(pa + ia * s.m * s.k, pb + ib * s.k * s.n, pc + i * s.m * s.n, s.m);
      }
    });
  };
  // Products that gemm does not cut are shared out whole.
  if (work < kUncutWork) {
    parallel_for(batches, std::max<std::int64_t>(1, (1 << 17) / work), run);
  } else {
    run(0, batches);
  }
}

// Input i, its last two dimensions exchanged if it is transposed.
OnnxValue factor(OnnxCall& c, std::size_t i, bool transposed) {
  if (!transposed) return c.in(i);
  OnnxWholes order(static_cast<std::size_t>(c.tensors[i].rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order.back(), order[order.size() - 2]);
  return c("Transpose", {c.in(i)}, {{"perm", order}});
}

Tensor matmul_2d_or_more(const Tensor& a, const Tensor& b, MatmulOptions options) {
  return apply(
      "matmul", {a, b},
      [options](Inputs in, Saved& saved) {
        const MatmulSizes s = matmul_sizes(in[0].shape(), in[1].shape(), options);
        saved.keep(saved.needs(1) ? in[0] : Tensor());
        saved.keep(saved.needs(0) ? in[1] : Tensor());
        Shape shape = s.batch;
        shape.push_back(s.m);
        shape.push_back(s.n);
        Tensor out = Tensor::empty(shape, in[0].dtype());
        dispatch(out.dtype(),
                 [&](auto zero) { run_matmul<decltype(zero)>(in[0], in[1], s, options, out); });
        return out;
      },
      [options, as = a.shape(), bs = b.shape()](const Tensor& dy, const Saved& saved,
                                                const Needs& needs) -> Grads {
        const auto [ta, tb, precision] = options;
        Grads grads(2);
        if (needs[0]) {
          grads[0] =
              sum_to(ta ? matmul(saved[1], dy,
                                 {.transpose_a = tb, .transpose_b = true, .precision = precision})
                        : matmul(dy, saved[1], {.transpose_b = !tb, .precision = precision}),
                     as);
        }
        if (needs[1]) {
          grads[1] =
              sum_to(tb ? matmul(dy, saved[0],
                                 {.transpose_a = true, .transpose_b = ta, .precision = precision})
                        : matmul(saved[0], dy, {.transpose_a = !ta, .precision = precision}),
                     bs);
        }
        return grads;
      },
      {.onnx = [options](OnnxCall& c) {
        return c("MatMul", {factor(c, 0, options.transpose_a), factor(c, 1, options.transpose_b)});
      }});
}

}  // namespace

BatchInvariant::BatchInvariant() : before_(batch_invariant) { batch_invariant = true; }
BatchInvariant::~BatchInvariant() { batch_invariant = before_; }
bool is_batch_invariant() { return batch_invariant; }

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options) {
  check(a.dtype() == b.dtype(), "[matmul] dtypes differ: {} and {}", name_of(a.dtype()),
        name_of(b.dtype()));
  check(a.rank() >= 1 && b.rank() >= 1, "[matmul] a scalar is not a matrix: {} and {}", a.shape(),
        b.shape());
  if (a.rank() == 1) {
    const Tensor row = reshape(a, {1, a.dim(0)});
    const Tensor y = matmul(row, b, {false, options.transpose_b, options.precision});
    return reshape(y, y.shape().without(b.rank() == 1 ? -1 : -2));
  }
  if (b.rank() == 1) {
    const Tensor y =
        matmul(a, reshape(b, {b.dim(0), 1}), {options.transpose_a, false, options.precision});
    return reshape(y, y.shape().without(-1));
  }
  return matmul_2d_or_more(a, b, options);
}

}  // namespace tapegrad
