#include "tapegrad/run/record/layer_stats.h"

#include <cmath>

#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/autograd/module_names.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/optim/clip.h"

namespace tapegrad::run {
namespace {

constexpr std::int64_t kMostSamples = 65'536;
// Elements that are summed up by themselves. Processes share out parameters at multiples of it.
constexpr std::int64_t kChunk = optim::kSquareChunk;

std::int64_t chunks_in(std::int64_t elements) { return (elements + kChunk - 1) / kChunk; }

template <class T>
double magnitude(T x) {
  return std::abs(static_cast<double>(x));
}

}  // namespace

LayerStats::LayerStats(const NamedTensors& parameters, Processes* processes, std::int64_t every)
    : processes_(processes), every_(every) {
  for (const auto& [name, t] : parameters) {
    const std::string module = module_of(name);
    // Most often the last one.
    std::size_t m = modules_.size();
    while (m > 0 && modules_[m - 1] != module) --m;
    if (m == 0) {
      modules_.push_back(module);
      sizes_.push_back(0);
      m = modules_.size();
    }
    sizes_[m - 1] += static_cast<double>(t.numel());
    const std::int64_t step = std::max<std::int64_t>(1, (t.numel() - 1) / kMostSamples + 1);
    sampled_.push_back({t, m - 1, step, chunks_, {}});
    chunks_ += static_cast<std::size_t>(chunks_in(t.numel()));
  }
}

// Sums term(sample, element) over the samples among elements [begin, begin + size) of a parameter.
// `begin` is a multiple of kChunk.
template <class Term>
void LayerStats::add_up(const Sampled& of, std::int64_t begin, std::int64_t size, Sums& sums,
                        const Term& term) const {
  double* to = sums.data() + of.first_chunk + begin / kChunk;
  const std::int64_t step = of.step;
  parallel_for(chunks_in(size), step, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c) {
      const std::int64_t from = of.samples_before(begin + c * kChunk);
      const std::int64_t until = of.samples_before(begin + std::min((c + 1) * kChunk, size));
      to[c] = step == 1 ? sum_row<double>(until - from,
                                          [&](std::int64_t i) { return term(from + i, from + i); })
                        : sum_row<double>(until - from, [&](std::int64_t i) {
                            return term(from + i, (from + i) * step);
                          });
    }
  });
}

void LayerStats::before(const optim::GradientSync& sync) {
  gradient_.assign(chunks_, 0);
  for (const auto& [p, begin, gradient] : sync.gradients()) {
    dispatch(gradient.dtype(), [&, p = p, at = begin, &g = gradient](auto zero) {
      const auto* values = g.template data<decltype(zero)>();
      add_up(sampled_[p], at, g.numel(), gradient_,
             [=](std::int64_t, std::int64_t element) { return magnitude(values[element - at]); });
    });
  }
  const int ranks = processes_ == nullptr ? 1 : processes_->size();
  if (ranks > 1) {
    // A chunk is of one rank, and 0 in the others.
    const std::size_t bytes = gradient_.size() * sizeof(double);
    Sums all(processes_->rank() == 0 ? gradient_.size() * static_cast<std::size_t>(ranks) : 0);
    processes_->gather_parts(std::as_bytes(std::span(gradient_)),
                             std::as_writable_bytes(std::span(all)),
                             std::vector<std::size_t>(static_cast<std::size_t>(ranks), bytes));
    if (processes_->rank() > 0) return;
    for (std::size_t i = chunks_; i < all.size(); ++i) all[i % chunks_] += all[i];
    gradient_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(chunks_));
  }
  weight_.assign(chunks_, 0);
  for (Sampled& s : sampled_) {
    s.before = Tensor::empty({s.samples()}, s.parameter.dtype());
    dispatch(s.parameter.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* now = s.parameter.data<T>();
      T* kept = s.before.mutable_data<T>();
      add_up(s, 0, s.parameter.numel(), weight_, [=](std::int64_t sample, std::int64_t element) {
        return magnitude(kept[sample] = now[element]);
      });
    });
  }
}

std::vector<LayerMeans> LayerStats::after() {
  if (processes_ != nullptr && processes_->rank() > 0) return {};
  Sums update(chunks_);
  for (Sampled& s : sampled_) {
    dispatch(s.parameter.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T *now = s.parameter.data<T>(), *kept = s.before.data<T>();
      add_up(s, 0, s.parameter.numel(), update, [=](std::int64_t sample, std::int64_t element) {
        return magnitude(now[element] - kept[sample]);
      });
    });
    s.before = Tensor();
  }
  const std::vector<double> gradients = means(gradient_), weights = means(weight_),
                            sync = means(update);
  std::vector<LayerMeans> layers;
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    layers.push_back({modules_[m], gradients[m], weights[m], sync[m]});
  }
  return layers;
}

std::vector<double> LayerStats::means(const Sums& sums) const {
  std::vector<double> means(modules_.size());
  for (const Sampled& s : sampled_) {
    double sum = 0;
    for (std::int64_t c = 0; c < chunks_in(s.parameter.numel()); ++c) {
      sum += sums[s.first_chunk + static_cast<std::size_t>(c)];
    }
    if (s.samples() == 0) continue;
    const double share = static_cast<double>(s.parameter.numel()) / sizes_[s.module];
    means[s.module] += share * sum / static_cast<double>(s.samples());
  }
  return means;
}

}  // namespace tapegrad::run
