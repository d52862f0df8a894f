#include "tapegrad/optim/processes/internal/outer_step.h"

#include "tapegrad/base/parallel.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;

// Calls work(i) for each of n elements, by all threads.
template <class Work>
void for_each(std::int64_t n, const Work& work) {
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) work(i);
  });
}

}  // namespace

void add_to(Tensor& sum, std::int64_t at, const Tensor& term) {
  for_each(term.numel(), [t = term.data<float>(),
                          s = sum.mutable_data<float>() + at](std::int64_t i) { s[i] += t[i]; });
}

void divide(Tensor& sum, std::int64_t n) {
  for_each(sum.numel(), [s = sum.mutable_data<float>(),
                         count = static_cast<float>(n)](std::int64_t i) { s[i] /= count; });
}

void make_outer_step(const LocalSteps& local, Tensor& gradient, Tensor& momentum) {
  for_each(gradient.numel(),
           [g = gradient.mutable_data<float>(), b = momentum.mutable_data<float>(),
            lr = static_cast<float>(local.learning_rate),
            mu = static_cast<float>(local.momentum)](std::int64_t i) {
             b[i] = mu * b[i] + g[i];
             g[i] = lr * (g[i] + mu * b[i]);
           });
}

void subtract(const float* a, const float* b, float* to, std::int64_t n) {
  for_each(n, [=](std::int64_t i) { to[i] = a[i] - b[i]; });
}

void move_anchor(const float* step, float* anchor, float* weights, std::int64_t n) {
  for_each(n, [=](std::int64_t i) { weights[i] = anchor[i] -= step[i]; });
}

}  // namespace tapegrad::optim
