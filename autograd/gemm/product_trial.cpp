#include "tapegrad/autograd/gemm/internal/product_trial.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

struct Shape {
  std::int64_t m, n, k;
};
// AVX-512 kernels have blocks of 16 to 64 rows or columns; AMX has tiles of 16 rows and 32 of k.
constexpr Shape kShapes[] = {{1, 70, 300}, {70, 1, 37}, {1, 1, 65}, {33, 35, 1}, {20, 67, 36}};

// How the matrices lie, and what becomes of C.
struct Layout {
  bool ta, tb;
  bool apart;  // stored rows lie further apart than they are long
  bool add;    // beta is 1
};

// Not all combinations: oneDNN compiles a kernel for each, which takes 0.1 ms and more.
constexpr Layout kLayouts[] = {
    {.ta = false, .tb = false, .apart = false, .add = false},
    {.ta = false, .tb = false, .apart = true, .add = true},
    {.ta = true, .tb = false, .apart = true, .add = false},
    {.ta = false, .tb = true, .apart = true, .add = false},
    {.ta = true, .tb = true, .apart = true, .add = true},
    {.ta = true, .tb = true, .apart = false, .add = false},
};

// The elements of C before the product, and those between stored rows: a number that shows where it
// is read.
constexpr double kBefore = 3, kBetween = 1000;

template <class T>
T rounded(double x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

template <class T>
double value(T x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return static_cast<double>(to_float(x));
  } else {
    return static_cast<double>(x);
  }
}

// A dense matrix of numbers in [-0.5, 0.5] that T can hold.
template <class T>
std::vector<double> numbers(std::int64_t size, std::int64_t first) {
  std::vector<double> x(static_cast<std::size_t>(size));
  for (std::int64_t i = first; double& v : x) {
    v = value(rounded<T>(static_cast<double>(i++ * 7919 % 1009) / 1009 - 0.5));
  }
  return x;
}

// A matrix as a product takes it.
template <class T>
struct Stored {
  std::int64_t ld;
  std::vector<T> data;

  Stored(const std::vector<double>& x, std::int64_t rows, bool transposed, std::int64_t gap) {
    const std::int64_t columns = static_cast<std::int64_t>(x.size()) / rows;
    ld = (transposed ? rows : columns) + gap;
    data.assign(static_cast<std::size_t>((transposed ? columns : rows) * ld), rounded<T>(kBetween));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        data[static_cast<std::size_t>(transposed ? j * ld + i : i * ld + j)] =
            rounded<T>(x[static_cast<std::size_t>(i * columns + j)]);
      }
    }
  }
};

// The products of one shape.
template <class T>
class Products {
  using Sum = typename Gemm<T>::Sum;

 public:
  explicit Products(const Shape& shape)
      : shape_(shape),
        a_(numbers<T>(shape.m * shape.k, 0)),
        b_(numbers<T>(shape.k * shape.n, 500)),
        sums_(static_cast<std::size_t>(shape.m * shape.n)),
        sizes_(sums_.size()) {
    for (std::int64_t i = 0; i < shape.m; ++i) {
      for (std::int64_t l = 0; l < shape.k; ++l) {
        const double x = a_[static_cast<std::size_t>(i * shape.k + l)];
        const auto row = static_cast<std::size_t>(i * shape.n);
        for (std::size_t j = 0; j < static_cast<std::size_t>(shape.n); ++j) {
          const double term = x * b_[static_cast<std::size_t>(l * shape.n) + j];
          sums_[row + j] += term;
          sizes_[row + j] += std::abs(term);
        }
      }
    }
  }

  // The fault of `multiply`, or "".
  std::string fault(void (*multiply)(const Gemm<T>& g), const Layout& how) const {
    const auto& [m, n, k] = shape_;
    // Far enough apart for kernels that read whole tiles of a row.
    const Stored<T> a(a_, m, how.ta, how.apart ? 28 : 0), b(b_, k, how.tb, how.apart ? 5 : 0);
    // With beta = 0, what C held must not count.
    const double before = how.add ? kBefore : std::numeric_limits<double>::quiet_NaN();
    Stored<Sum> c(std::vector<double>(sums_.size(), before), m, false, how.apart ? 4 : 0);
    multiply({.ta = how.ta,
              .tb = how.tb,
              .m = m,
              .n = n,
              .k = k,
              .a = a.data.data(),
              .lda = a.ld,
              .b = b.data.data(),
              .ldb = b.ld,
              .c = c.data.data(),
              .ldc = c.ld,
              .beta = how.add ? Sum{1} : Sum{0}});
    double most = 0;  // of the errors that are larger than roundings can be
    const double epsilon = std::numeric_limits<Sum>::epsilon();
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < c.ld; ++j) {
        const auto at = static_cast<std::size_t>(i * n + j);
        const double is = c.data[static_cast<std::size_t>(i * c.ld + j)], added = how.add * kBefore;
        const double error = std::abs(is - (j < n ? sums_[at] + added : kBetween));
        const double bound =
            j < n ? static_cast<double>(k + 2) * epsilon * (sizes_[at] + added) : 0;
        if (!(error <= bound) && !(error <= most)) most = error;  // a NaN is larger
      }
    }
    return most == 0 ? "" : describe(how, most);
  }

 private:
  std::string describe(const Layout& how, double error) const {
    std::vector<std::string_view> kind;
    if (how.ta) kind.push_back("A transposed");
    if (how.tb) kind.push_back("B transposed");
    if (how.apart) kind.push_back("rows apart");
    if (how.add) kind.push_back("added to C");
    return fmt::format("{}×{}×{}{} is off by {:.2g}", shape_.m, shape_.n, shape_.k,
                       kind.empty() ? "" : fmt::format(" ({})", fmt::join(kind, ", ")), error);
  }

  Shape shape_;
  std::vector<double> a_, b_;
  // For each element of C: the sum of its k terms, and of their magnitudes. No order of adding is
  // off by more than k + 2 roundings of the latter.
  std::vector<double> sums_, sizes_;
};

}  // namespace

template <class T>
std::string trial(const Multiplier<T>& by) {
  for (const Shape& shape : kShapes) {
    const Products<T> products(shape);
    for (const Layout& how : kLayouts) {
      std::string fault = products.fault(by.multiply, how);
      if (fault.empty() && shape.m == 1 && by.multiply_row != nullptr) {
        fault = products.fault(by.multiply_row, how);
      }
      if (!fault.empty()) return fault;
    }
  }
  return "";
}

namespace {

// A product of 8 bits. Its first rows and columns have the largest magnitudes, whose sums show
// kernels that add up in 16 bits or in floats.
class Int8Product {
 public:
  Int8Product(const Shape& shape, bool ta, bool tb)
      : g_{.ta = ta,
           .tb = tb,
           .m = shape.m,
           .n = shape.n,
           .k = shape.k,
           .lda = (ta ? shape.m : shape.k) + kGap,
           .ldb = (tb ? shape.k : shape.n) + kGap,
           .ldc = shape.n + kGap},
        a_(size((ta ? g_.k : g_.m) * g_.lda), kBetween),
        b_(size((tb ? g_.n : g_.k) * g_.ldb), kBetween),
        c_(size(g_.m * g_.ldc), kBetween),
        sums_(c_) {
    for (std::int64_t l = 0; l < g_.k; ++l) {
      for (std::int64_t i = 0; i < g_.m; ++i) {
        a_[size(ta ? l * g_.lda + i : i * g_.lda + l)] = number(i, l);
      }
      for (std::int64_t j = 0; j < g_.n; ++j) {
        b_[size(tb ? j * g_.ldb + l : l * g_.ldb + j)] = number(j, l);
      }
    }
    for (std::int64_t i = 0; i < g_.m; ++i) {
      for (std::int64_t j = 0; j < g_.n; ++j) {
        std::int32_t sum = 0;
        for (std::int64_t l = 0; l < g_.k; ++l) sum += number(i, l) * number(j, l);
        sums_[size(i * g_.ldc + j)] = sum;
      }
    }
  }

  bool right(void (*multiply)(const Gemm<std::int8_t>& g)) {
    g_.a = a_.data(), g_.b = b_.data(), g_.c = c_.data();
    multiply(g_);
    return c_ == sums_;
  }

 private:
  static constexpr std::int64_t kGap = 5;
  static constexpr std::int8_t kBetween = 101;
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  static std::int8_t number(std::int64_t row, std::int64_t l) {
    return static_cast<std::int8_t>(row < 2 ? 127 - 254 * row : (row * 89 + l * 7919) % 255 - 127);
  }

  Gemm<std::int8_t> g_;
  std::vector<std::int8_t> a_, b_;
  std::vector<std::int32_t> c_, sums_;
};

}  // namespace

template <>
std::string trial(const Multiplier<std::int8_t>& by) {
  constexpr Shape kOdd{20, 67, 1301};  // 1301·127² is odd, and above 2^24: no float
  for (const Shape& shape : {kShapes[0], kShapes[1], kShapes[2], kShapes[3], kOdd}) {
    for (const auto& [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}}) {
      if (Int8Product(shape, ta, tb).right(by.multiply)) continue;
      return fmt::format("{}×{}×{}{}{} of 8 bits", shape.m, shape.n, shape.k,
                         ta ? " (A transposed)" : "", tb ? " (B transposed)" : "");
    }
  }
  return "";
}
template std::string trial(const Multiplier<float>& by);
template std::string trial(const Multiplier<double>& by);
template std::string trial(const Multiplier<bf16>& by);

}  // namespace tapegrad
