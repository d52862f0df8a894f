// Under mpirun: the updates of several processes are those of one, with many small buckets,
// gradients that come in another order than parameters, and a number of batches that the ranks
// cannot share out evenly. Exits with 1, and says what differs, otherwise.

#include <cstdio>
#include <cstring>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/random.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/shared_updates.h"

using namespace tapegrad;

namespace {

constexpr int kBatches = 7, kSteps = 3;
constexpr std::int64_t kWide = 2 * optim::kSquareChunk + 5;

NamedTensors make_parameters() {
  Rng rng(1);
  NamedTensors parameters;
  const auto add = [&](const std::string& name, const Shape& shape) {
    parameters.emplace_back(name, Tensor::randn(shape, rng).set_requires_grad());
  };
  add("first", {kWide});
  add("matrix", {3, kWide});
  add("unused", {40});
  add("late", {kWide});
  add("small", {1});
  add("twice", {kWide});
  return parameters;
}

// Uses the first parameters last and the last ones in the middle; each batch has its own numbers.
Tensor loss_of(const NamedTensors& p, int batch) {
  Rng rng(static_cast<std::uint64_t>(100 + batch));
  const Tensor x = Tensor::randn({kWide}, rng);
  const Tensor a = x * p[5].second * p[4].second;
  const Tensor b = sum(p[1].second * (a + p[3].second), {0});
  return mean(tanh(b * p[5].second + p[0].second));
}

// The parameters after some steps, and the norms of these.
std::vector<double> train(const NamedTensors& parameters, optim::Updates& updates, int ranks,
                          int rank) {
  std::vector<double> norms;
  for (int step = 0; step < kSteps; ++step) {
    for (int first = 0; first < kBatches; first += ranks) {
      updates.round(std::min(ranks, kBatches - first), [&](const auto& take) {
        Tape tape;
        const Tensor loss = loss_of(parameters, step * kBatches + first + rank);
        tape.backward(loss, {.seeds = {Tensor::scalar(1.0 / kBatches)}, .take = take});
      });
    }
    const auto [norm, factor] = updates.measure_clipping(1e-3);
    norms.push_back(norm);
    updates.step(0.01, factor);
    updates.zero_grad();
  }
  return norms;
}

}  // namespace

int main() {
  const auto processes = Processes::join();
  const NamedTensors alone = make_parameters(), shared = make_parameters();
  const auto own = optim::make_updates(alone, {});
  const std::vector<double> norms = train(alone, *own, 1, 0);
  optim::SharedUpdates updates(shared, {}, *processes, Precision::full, 3 * optim::kSquareChunk);
  bool equal = train(shared, updates, processes->size(), processes->rank()) == norms;
  if (!equal) std::fprintf(stderr, "rank %d: the norms differ\n", processes->rank());
  for (std::size_t p = 0; p < alone.size(); ++p) {
    const auto a = alone[p].second.values<float>(), b = shared[p].second.values<float>();
    if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) continue;
    equal = false;
    std::fprintf(stderr, "rank %d: '%s' differs\n", processes->rank(), alone[p].first.c_str());
  }
  return equal ? 0 : 1;
}
