#include "tapegrad/optim/optimizers/soap.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/optim/internal/eigenvectors.h"
#include "tapegrad/optim/optimizers/muon.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr int kFirstIterations = 5;

// A side of a matrix: what L and A are for its rows, and R and B for its columns. Null: the side
// keeps its own axes.
struct Side {
  Tensor* mean = nullptr;
  Tensor* basis = nullptr;
};

// The tensors that are kept for a matrix, by their places in keeps().
struct Kept {
  Tensor &m, &v;
  Side left, right;
};

// All that is needed to turn a matrix into the axes of its sides, and back. Results are in `one`.
template <class T>
struct Turned {
  const Kept& kept;
  Tensor one, two;

  Turned(const Kept& k, const Shape& shape, DType dtype)
      : kept(k), one(Tensor::empty(shape, dtype)), two(Tensor::empty(shape, dtype)) {}

  // scale·A·x·Bᵀ.
  void turn(const Tensor& x, T scale) { multiply(x, scale, false); }
  // Aᵀ·one·B.
  void turn_back() { multiply(Tensor(one), 1, true); }

 private:
  void multiply(const Tensor& x, T scale, bool back) {
    const std::int64_t rows = one.dim(0), columns = one.dim(1);
    Tensor from = x;
    if (kept.left.basis != nullptr) {
      gemm(Gemm<T>{.ta = back,
                   .m = rows,
                   .n = columns,
                   .k = rows,
                   .a = kept.left.basis->template data<T>(),
                   .lda = rows,
                   .b = from.data<T>(),
                   .ldb = columns,
                   .c = two.mutable_data<T>(),
                   .ldc = columns,
                   .alpha = std::exchange(scale, T{1})});
      from = two;
      std::swap(one, two);
    }
    if (kept.right.basis != nullptr) {
      gemm(Gemm<T>{.tb = !back,
                   .m = rows,
                   .n = columns,
                   .k = columns,
                   .a = from.data<T>(),
                   .lda = columns,
                   .b = kept.right.basis->template data<T>(),
                   .ldb = columns,
                   .c = two.mutable_data<T>(),
                   .ldc = columns,
                   .alpha = scale});
      std::swap(one, two);
    } else if (kept.left.basis == nullptr && !back) {
      const T* values = x.data<T>();
      T* to = one.mutable_data<T>();
      parallel_for(one.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) to[i] = scale * values[i];
      });
    }
  }
};

class SOAPRule : public Optimizer {
 public:
  static constexpr std::string_view kName = "soap";
  using Options = SOAPOptions;

  explicit SOAPRule(const SOAPOptions& options) : options_(options) {
    check_numbers(
        "SOAPOptions",
        {{"beta1", options.beta1, from_to_below(0, 1)},
         {"beta2", options.beta2, from_to_below(0, 1)},
         {"eps", options.eps, above(0)},
         {"weight_decay", options.weight_decay, at_least(0)},
         {"precondition_frequency", static_cast<double>(options.precondition_frequency),
          from_to(1, 0x1p40)},
         {"max_precond_dim", static_cast<double>(options.max_precond_dim), from_to(1, 0x1p40)}});
  }

  std::string_view name() const override { return kName; }
  std::string_view title() const override { return "SOAP"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override {
    std::vector<StateSpec> kept{{"exp_avg", shape}, {"exp_avg_sq", shape}};
    const auto add = [&](std::string_view side, std::int64_t n) {
      if (n > options_.max_precond_dim) return;
      kept.push_back({std::string(side), {n, n}});
      kept.push_back({std::string(side) + "_basis", {n, n}});
    };
    add("left", shape[0]);
    add("right", shape[1]);
    return kept;
  }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::whole; }
  std::int64_t period() const override { return options_.precondition_frequency; }
  bool decays_cautiously() const override { return true; }
  bool suits(const std::string& name, const Shape& shape) const override {
    return is_hidden_matrix(name, shape);
  }

  void update(UpdatedPart& part, const UpdateFactors& f) const override {
    if (part.gradient.numel() == 0) return;
    dispatch(part.gradient.dtype(), [&](auto zero) { update_of<decltype(zero)>(part, f); });
  }

 private:
  Kept kept_of(UpdatedPart& part) const {
    std::size_t next = 2;
    const auto side = [&](std::int64_t n) {
      if (n > options_.max_precond_dim) return Side();
      const Side found{&part.kept[next], &part.kept[next + 1]};
      next += 2;
      return found;
    };
    const Side left = side(part.gradient.dim(0)), right = side(part.gradient.dim(1));
    return {part.kept[0], part.kept[1], left, right};
  }

  template <class T>
  void update_of(UpdatedPart& part, const UpdateFactors& f) const {
    const Kept kept = kept_of(part);
    const bool first = f.step == 1 || !has_basis<T>(kept);
    // A dry run makes a first step alone, and counts the memory of later ones, too.
    if (!first || in_dry_run()) move<T>(part, kept, f);
    add_outer_products<T>(part.gradient, kept, f.grad_factor);
    if (first) {
      for (const Side& side : {kept.left, kept.right}) begin_basis<T>(side);
    }
    if (!first && (f.step - 1) % options_.precondition_frequency != 0) return;
    for (int i = 0; i < (first ? kFirstIterations : 1); ++i) {
      iterate<T>(kept.left, kept.v, true);
      iterate<T>(kept.right, kept.v, false);
    }
  }

  // Without its first gradient, a parameter has none. A basis has no row of zeros.
  template <class T>
  static bool has_basis(const Kept& kept) {
    for (const Side& side : {kept.left, kept.right}) {
      if (side.basis == nullptr) continue;
      const T* row = side.basis->template data<T>();
      return std::any_of(row, row + side.basis->dim(1), [](T x) { return x != 0; });
    }
    return true;
  }

  template <class T>
  static void begin_basis(const Side& side) {
    if (side.basis == nullptr) return;
    T* b = side.basis->template mutable_data<T>();
    const std::int64_t n = side.basis->dim(0);
    parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) b[i * n + i] = 1;
    });
  }

  // Moves the parameter.
  template <class T>
  void move(UpdatedPart& part, const Kept& kept, const UpdateFactors& f) const {
    const T factor = static_cast<T>(f.grad_factor), beta2 = static_cast<T>(options_.beta2);
    const T one_minus_beta1 = static_cast<T>(1 - options_.beta1),
            one_minus_beta2 = static_cast<T>(1 - options_.beta2);
    const T eps = static_cast<T>(options_.eps);
    const std::int64_t n = part.gradient.numel();
    Turned<T> turned(kept, part.gradient.shape(), part.gradient.dtype());
    const T* g = part.gradient.data<T>();
    T *m = kept.m.mutable_data<T>(), *v = kept.v.mutable_data<T>();
    turned.turn(part.gradient, factor);
    const T* t = turned.one.template data<T>();
    parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        m[i] += one_minus_beta1 * (factor * g[i] - m[i]);
        v[i] = beta2 * v[i] + one_minus_beta2 * t[i] * t[i];
      }
    });
    turned.turn(kept.m, 1);
    T* x = turned.one.template mutable_data<T>();
    parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) x[i] /= std::sqrt(v[i]) + eps;
    });
    turned.turn_back();
    const auto steps = static_cast<double>(f.step - 1);
    const T rate = static_cast<T>(f.lr * std::sqrt(1 - std::pow(options_.beta2, steps)) /
                                  (1 - std::pow(options_.beta1, steps)));
    const T keep = static_cast<T>(1 - f.lr * f.weight_decay);
    const bool cautious = f.cautious_decay;
    const T* by = turned.one.template data<T>();
    T* p = part.parameter.mutable_data<T>();
    parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        p[i] = (!cautious || by[i] * p[i] >= 0 ? keep : 1) * p[i] - rate * by[i];
      }
    });
  }

  // L and R.
  template <class T>
  void add_outer_products(const Tensor& gradient, const Kept& kept, double grad_factor) const {
    const std::int64_t rows = gradient.dim(0), columns = gradient.dim(1);
    const T alpha = static_cast<T>((1 - options_.beta2) * grad_factor * grad_factor);
    const auto add = [&](const Side& side, bool left) {
      if (side.mean == nullptr) return;
      const std::int64_t n = left ? rows : columns;
      gemm(Gemm<T>{.ta = !left,
                   .tb = left,
                   .m = n,
                   .n = n,
                   .k = left ? columns : rows,
                   .a = gradient.data<T>(),
                   .lda = columns,
                   .b = gradient.data<T>(),
                   .ldb = columns,
                   .c = side.mean->template mutable_data<T>(),
                   .ldc = n,
                   .alpha = alpha,
                   .beta = static_cast<T>(options_.beta2)});
    };
    add(kept.left, true);
    add(kept.right, false);
  }

  // The basis of a side follows its mean, and V the basis.
  template <class T>
  static void iterate(const Side& side, Tensor& v, bool left) {
    if (side.basis == nullptr) return;
    const std::vector<std::int64_t> order = iterate_eigenvectors(*side.mean, *side.basis);
    const std::int64_t columns = v.dim(1);
    Tensor sorted = Tensor::empty(v.shape(), v.dtype());
    const T* from = v.data<T>();
    T* to = sorted.mutable_data<T>();
    parallel_for(v.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / columns, column = i % columns;
        to[i] = left ? from[order[static_cast<std::size_t>(row)] * columns + column]
                     : from[row * columns + order[static_cast<std::size_t>(column)]];
      }
    });
    v = sorted;
  }

  SOAPOptions options_;
};

ParameterGroups groups_of(const NamedTensors& parameters, const SOAPOptions& o) {
  for (const auto& [name, t] : parameters) {
    check(t.rank() == 2, "SOAP is for matrices, and '{}' is {}", name, t.shape());
  }
  return make_groups(parameters, std::make_shared<SOAPRule>(o), o.weight_decay, false);
}

}  // namespace

SOAP::SOAP(NamedTensors parameters, const SOAPOptions& options)
    : OptimizerState(parameters, groups_of(parameters, options)) {}

std::unique_ptr<OptimizerEntry> soap_row() { return std::make_unique<EntryOf<SOAPRule>>(); }

}  // namespace tapegrad::optim
