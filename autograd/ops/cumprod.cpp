// Products along lines of numbers, and their derivatives of every order, in which no product of
// some factors leaves the range: see products_along in cumprod.h.

#include "tapegrad/autograd/ops/internal/cumprod.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/internal/scaled.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/lines.h"
#include "tapegrad/autograd/ops/internal/marked_dims.h"

namespace tapegrad {
namespace {

// A product of factors x + Σ tᵢ·vᵢ. It has a coefficient for each set of t's, whose bits are the
// set's. What has the square of a t is left out.
class Coefficients {
 public:
  Coefficients(std::size_t directions, double constant)
      : values_(std::size_t{1} << directions, Scaled()) {
    values_[0] = Scaled(constant);
  }

  // Multiplies by the factor made of element i of each tensor: x, then the directions.
  template <class T>
  void multiply(const std::vector<const T*>& tensors, std::int64_t i) {
    for (std::size_t set = values_.size(); set-- > 0;) {
      Scaled sum = values_[set] * Scaled(static_cast<double>(tensors[0][i]));
      for (std::size_t k = 1; k < tensors.size(); ++k) {
        const std::size_t bit = std::size_t{1} << (k - 1);
        if ((set & bit) == 0) continue;
        sum = sum + values_[set ^ bit] * Scaled(static_cast<double>(tensors[k][i]));
      }
      values_[set] = sum;
    }
  }
  void add(double constant) { values_[0] = values_[0] + Scaled(constant); }
  const Scaled& of_all() const { return values_.back(); }
  const std::vector<Scaled>& values() const { return values_; }
  // The coefficient of all t's in the product with another's values.
  Scaled of_all_with(const Scaled* other) const {
    Scaled sum;
    for (std::size_t set = 0; set < values_.size(); ++set) {
      sum = sum + values_[set] * other[values_.size() - 1 - set];
    }
    return sum;
  }

 private:
  std::vector<Scaled> values_;
};

template <class T>
std::vector<const T*> pointers_to(Inputs tensors) {
  std::vector<const T*> pointers;
  for (const Tensor& t : tensors) pointers.push_back(t.data<T>());
  return pointers;
}

// The values of products_along, `tensors` being x and the directions.
template <class T>
void multiply_along(Inputs tensors, const Axis& axis, T* out) {
  const std::vector<const T*> from = pointers_to<T>(tensors);
  for_each_line(axis, [&](auto first, auto stride, auto n) {
    Coefficients product(tensors.size() - 1, 1);
    for (std::int64_t i = first; i < first + n * stride; i += stride) {
      product.multiply(from, i);
      out[i] = static_cast<T>(static_cast<double>(product.of_all()));
    }
  });
}

// The values of products_backward. Element k is what stands before k, times
// dy[k] + factor[k + 1]·(dy[k + 1] + …): nothing is divided by x, which may be 0.
template <class T>
void multiply_others(const T* dy, Inputs tensors, const Axis& axis, T* out) {
  const std::vector<const T*> from = pointers_to<T>(tensors);
  const std::size_t directions = tensors.size() - 1;
  for_each_line(axis, [&](auto first, auto stride, auto n) {
    // What stands before each element is kept for one piece of the line at a time, and made again
    // from what stands before the piece: for a whole line, it would be several times the tensor.
    constexpr std::int64_t kPiece = 1024;
    Coefficients product(directions, 1), tail(directions, 0);
    const auto sets = static_cast<std::int64_t>(product.values().size());
    std::vector<Coefficients> pieces;  // what stands before each
    for (std::int64_t k = 0; k < n; ++k) {
      if (k % kPiece == 0) pieces.push_back(product);
      product.multiply(from, first + k * stride);
    }
    std::vector<Scaled> before(static_cast<std::size_t>(std::min<std::int64_t>(n, kPiece) * sets));
    for (std::int64_t begin = (std::ssize(pieces) - 1) * kPiece; begin >= 0; begin -= kPiece) {
      const std::int64_t end = std::min<std::int64_t>(n, begin + kPiece);
      product = pieces[static_cast<std::size_t>(begin / kPiece)];
      for (std::int64_t k = begin; k < end; ++k) {
        std::copy(product.values().begin(), product.values().end(),
                  before.begin() + (k - begin) * sets);
        product.multiply(from, first + k * stride);
      }
      for (std::int64_t k = end; k-- > begin;) {
        const std::int64_t i = first + k * stride;
        tail.add(static_cast<double>(dy[i]));
        const Scaled sum = tail.of_all_with(before.data() + (k - begin) * sets);
        out[i] = static_cast<T>(static_cast<double>(sum));
        tail.multiply(from, i);
      }
    }
  });
}

// The product of x[0], x[stride], … of n elements.
template <class T>
Scaled product_of_line(const T* x, std::int64_t stride, std::int64_t n) {
  // The factor 2^exponent is taken out only where the product would leave the range without.
  double product = 1;
  std::int64_t exponent = 0;
  for (std::int64_t i = 0; i < n * stride; i += stride) {
    const auto factor = static_cast<double>(x[i]);
    const double next = product * factor, size = std::abs(next);
    if (size > 0x1p-500 && size < 0x1p500) {
      product = next;
      continue;
    }
    const Scaled exact = Scaled(product, exponent) * Scaled(factor);
    product = exact.mantissa;
    exponent = exact.exponent;
  }
  return Scaled(product, exponent);
}

// The same of a long line by all threads: chunks of a fixed size, so that the result does not
// depend on the threads.
template <class T>
Scaled product_of_long_line(const T* x, std::int64_t stride, std::int64_t n) {
  constexpr std::int64_t kFactors = 8192;
  if (n <= kFactors) return product_of_line(x, stride, n);
  std::vector<Scaled> products(static_cast<std::size_t>((n + kFactors - 1) / kFactors));
  parallel_for(std::ssize(products), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      products[static_cast<std::size_t>(c)] =
          product_of_line(x + c * kFactors * stride, stride, std::min(kFactors, n - c * kFactors));
    }
  });
  Scaled product(1);
  for (const Scaled& of_chunk : products) product = product * of_chunk;
  return product;
}

std::vector<Tensor> with_first(const Tensor& first, const std::vector<Tensor>& others) {
  std::vector<Tensor> all{first};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

std::vector<Tensor> without(std::vector<Tensor> tensors, std::size_t i) {
  tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
  return tensors;
}

std::vector<Tensor> kept_from(const Saved& saved, std::size_t first) {
  std::vector<Tensor> tensors;
  for (std::size_t i = first; i < saved.size(); ++i) tensors.push_back(saved[i]);
  return tensors;
}

}  // namespace

Tensor products_along(const Tensor& x, const std::vector<Tensor>& directions, int dim) {
  const auto forward = [=](Inputs in, Saved& saved) {
    for (const Tensor& t : in) saved.keep(t);
    Tensor y = Tensor::empty(in[0].shape(), in[0].dtype());
    dispatch(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      multiply_along<T>(in, Axis(y.shape(), dim), y.mutable_data<T>());
    });
    return std::vector<Tensor>{y};
  };
  const auto vjp = [=](Inputs dys, const Saved& saved, const Needs& needs) {
    const std::vector<Tensor> v = kept_from(saved, 1);
    Grads grads(saved.size());
    if (needs[0]) grads[0] = products_backward(dys[0], saved[0], v, dim);
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (needs[i + 1]) grads[i + 1] = products_backward(dys[0], saved[0], without(v, i), dim);
    }
    return grads;
  };
  return apply_many("cumprod", with_first(x, directions), forward, vjp)[0];
}

Tensor products_backward(const Tensor& dy, const Tensor& x, const std::vector<Tensor>& directions,
                         int dim) {
  const auto forward = [=](Inputs in, Saved& saved) {
    for (const Tensor& t : in) saved.keep(t);
    Tensor y = Tensor::empty(in[0].shape(), in[0].dtype());
    dispatch(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      multiply_others<T>(in[0].data<T>(), in.subspan(1), Axis(y.shape(), dim), y.mutable_data<T>());
    });
    return std::vector<Tensor>{y};
  };
  // What comes into a gradient is one more direction.
  const auto vjp = [=](Inputs dys, const Saved& saved, const Needs& needs) {
    const Tensor& from = saved[1];
    const std::vector<Tensor> v = kept_from(saved, 2), all = with_first(dys[0], v);
    Grads grads(saved.size());
    if (needs[0]) grads[0] = products_along(from, all, dim);
    if (needs[1]) grads[1] = products_backward(saved[0], from, all, dim);
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (needs[i + 2]) {
        grads[i + 2] = products_backward(saved[0], from, without(all, i + 1), dim);
      }
    }
    return grads;
  };
  return apply_many("cumprod_backward", with_first(dy, with_first(x, directions)), forward, vjp)[0];
}

Tensor cumprod(const Tensor& x, int dim) {
  if (x.rank() == 0) {
    check(dim == 0 || dim == -1, "[cumprod] there is no dimension {} in {}", dim, x.shape());
    return reshape(cumprod(reshape(x, {1}), dim), {});
  }
  dim = axis_index("cumprod", x.shape(), dim);
  if (is_float(x.dtype())) return products_along(x, {}, dim);
  return running_integers("cumprod", x, dim, [](std::int64_t a, std::int64_t b, std::int64_t* c) {
    return __builtin_mul_overflow(a, b, c);
  });
}

// The last of the products along lines of the marked dimensions.
Tensor prod(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  if (!is_float(x.dtype())) return prod(x.to(DType::f64), dims, keepdim);
  const std::vector<bool> marked = marked_dims("prod", x.shape(), dims);
  const Shape shape = kept_shape(x.shape(), marked, keepdim);
  const std::int64_t n = marked_count(x.shape(), marked);
  std::vector<int> order;
  for (const bool first : {true, false}) {
    for (int i = 0; i < x.rank(); ++i) {
      if (marked[static_cast<std::size_t>(i)] == first) order.push_back(i);
    }
  }
  const Tensor products = apply(
      "prod", {reshape(permute(x, order), {n, shape.numel()})},
      [](Inputs in, Saved& saved) {
        const Axis axis(saved.keep(in[0]).shape(), 0);
        Tensor y = Tensor::empty({axis.inner}, in[0].dtype());
        dispatch(y.dtype(), [&](auto zero) {
          using T = decltype(zero);
          const T* from = in[0].template data<T>();
          T* out = y.mutable_data<T>();
          for_each_line(axis, [=](auto first, auto stride, auto count) {
            const T* line = count == 0 ? from : from + first;
            const Scaled product = product_of_long_line(line, stride, count);
            out[first] = static_cast<T>(static_cast<double>(product));
          });
        });
        return y;
      },
      [n](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        if (n == 0) return {Tensor::zeros(saved[0].shape(), dy.dtype())};
        const Tensor row = reshape(dy, {1, dy.numel()});
        return {products_backward(pad(row, 0, n - 1, n), saved[0], {}, 0)};
      },
      {.onnx = [](OnnxCall& c) {
        return c("ReduceProd", {c.in(0)}, {{"axes", OnnxWholes{0}}, {"keepdims", std::int64_t{0}}});
      }});
  return reshape(products, shape);
}

}  // namespace tapegrad
