#include "tapegrad/autograd/ops/internal/factor_products.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

template <class T>
bool is_normal(T x) {
  return std::abs(x) >= std::numeric_limits<T>::min() &&
         std::abs(x) <= std::numeric_limits<T>::max();
}

// Elements that several passes go over one after the other: what one reads, the one before has left
// in the cache.
constexpr std::int64_t kPiece = 1024;

template <class T>
using Rows = std::vector<const T*>;

// Without a branch, so that it becomes vector code. Whether all steps were normal, or 0 as before.
template <class T, class F>
bool step(const T* with, std::int64_t n, T* y, const F& f) {
  int odd = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T before = y[i];
    y[i] = f(before, with[i]);
    odd |= static_cast<int>(!is_normal(y[i])) & static_cast<int>(before != 0);
  }
  return odd == 0;
}

template <class T>
T by_exponents(const Rows<T>& factors, const Rows<T>& divisors, std::int64_t i) {
  T mantissa = 1;
  int exponent = 0, part = 0;
  for (const T* factor : factors) {
    mantissa *= std::isfinite(factor[i]) ? std::frexp(factor[i], &part) : factor[i];
    exponent += std::isfinite(factor[i]) ? part : 0;
  }
  for (const T* divisor : divisors) {
    mantissa /= std::isfinite(divisor[i]) ? std::frexp(divisor[i], &part) : divisor[i];
    exponent -= std::isfinite(divisor[i]) ? part : 0;
  }
  return std::ldexp(mantissa, exponent);
}

// Elements [begin, end) of y.
template <class T>
void quotients(const Rows<T>& factors, const Rows<T>& divisors, std::int64_t begin,
               std::int64_t end, T* y) {
  const std::int64_t n = end - begin;
  const auto times = [](T a, T b) { return a * b; };
  std::copy_n(factors[factors.size() > 1 ? 1 : 0] + begin, n, y + begin);
  bool normal = true;
  for (const T* divisor : divisors) {
    normal &= step(divisor + begin, n, y + begin, [](T a, T b) { return a / b; });
  }
  for (std::size_t k = 2; k < factors.size(); ++k) {
    normal &= step(factors[k] + begin, n, y + begin, times);
  }
  if (factors.size() > 1) step(factors[0] + begin, n, y + begin, times);
  if (normal) return;
  for (std::int64_t i = begin; i < end; ++i) {
    T partial = factors[factors.size() > 1 ? 1 : 0][i];
    bool kept = true;
    for (const T* divisor : divisors) kept &= is_normal(partial /= divisor[i]);
    for (std::size_t k = 2; k < factors.size(); ++k) kept &= is_normal(partial *= factors[k][i]);
    if (!kept) y[i] = by_exponents(factors, divisors, i);
  }
}

Tensor evaluate(Inputs in, std::size_t factor_count) {
  Shape shape = in[0].shape();
  for (const Tensor& t : in) shape = broadcast_shapes("quotient_of_products", shape, t.shape());
  Tensor out = Tensor::empty(shape, in[0].dtype());
  std::vector<Tensor> whole;
  for (const Tensor& t : in) whole.push_back(broadcast_to(t, shape));
  dispatch(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Rows<T> factors, divisors;
    for (const Tensor& t : whole) {
      (factors.size() < factor_count ? factors : divisors).push_back(t.data<T>());
    }
    T* y = out.mutable_data<T>();
    parallel_for(shape.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += kPiece) {
        quotients(factors, divisors, i, std::min(end, i + kPiece), y);
      }
    });
  });
  return out;
}

}  // namespace

Tensor quotient_of_products(const std::vector<Tensor>& factors,
                            const std::vector<Tensor>& divisors) {
  std::vector<Tensor> all = factors;
  all.insert(all.end(), divisors.begin(), divisors.end());
  const std::size_t count = factors.size();
  return apply_many(
      "quotient_of_products", all,
      [count](Inputs in, Saved& saved) {
        for (const Tensor& t : in) saved.keep(t);
        return std::vector{evaluate(in, count)};
      },
      [count](Inputs dys, const Saved& saved, const Needs& needs) {
        Grads grads(needs.size());
        for (std::size_t i = 0; i < needs.size(); ++i) {
          if (!needs[i]) continue;
          // A factor leaves its place to dy, and a divisor comes in once more.
          std::vector<Tensor> above{i < count ? dys[0] : -dys[0]}, below;
          for (std::size_t k = 0; k < needs.size(); ++k) {
            if (k != i || i >= count) (k < count ? above : below).push_back(saved[k]);
          }
          if (i >= count) below.push_back(saved[i]);
          grads[i] = sum_to(quotient_of_products(above, below), saved[i].shape());
        }
        return grads;
      })[0];
}

Tensor times_slope(std::string_view name, const Tensor& dy, const Tensor& x,
                   const TimesSlope& values, Curvature curvature) {
  return apply(
      name, {dy, x},
      [values](Inputs in, Saved& saved) {
        for (const Tensor& t : in) saved.keep(t);
        return values(in[0], in[1]);
      },
      [=](const Tensor& d, const Saved& saved, const Needs& needs) -> Grads {
        Grads grads(2);
        if (needs[0]) grads[0] = times_slope(name, d, saved[1], values, curvature);
        if (needs[1]) grads[1] = quotient_of_products({d, saved[0], curvature(saved[1])});
        return grads;
      });
}

}  // namespace tapegrad
