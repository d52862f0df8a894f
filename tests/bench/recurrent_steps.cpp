// Times the steps of torch_recurrent.py: recurrent_steps lstm|gru|rnn [STEPS [THREADS]] prints the
// median in ms, and that of the processor's time.

#include <fmt/core.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/nn/layers/recurrent.h"

namespace {

using namespace tapegrad;

constexpr std::int64_t kHidden = 256;

double processor_ms() { return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Forward and backward over 128 steps of a batch of 32, with the gradient of x.
template <class Layer>
void time_steps(std::int64_t steps) {
  Rng rng(1);
  const nn::Params params(rng);
  const Layer layer(params, kHidden, kHidden);
  Tensor x = Tensor::randn({128, 32, kHidden}, rng).set_requires_grad();
  const Tensor dy = Tensor::randn({128, 32, kHidden}, rng);
  std::vector<double> times, processor;
  for (std::int64_t i = -3; i < steps; ++i) {
    const Stopwatch watch;
    const double before = processor_ms();
    Tape tape;
    tape.backward(sum(layer(x).y * dy));
    x.zero_grad();
    for (const auto& [name, t] : params.parameters()) Tensor(t).zero_grad();
    if (i < 0) continue;
    times.push_back(1000 * watch.seconds());
    processor.push_back(processor_ms() - before);
  }
  fmt::print("{:.2f} ms, {:.2f} ms of processors\n", median(times), median(processor));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string layer = argc > 1 ? argv[1] : "";
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 20;
  if ((layer != "lstm" && layer != "gru" && layer != "rnn") || steps < 1) {
    fmt::print(stderr, "usage: recurrent_steps lstm|gru|rnn [STEPS [THREADS]]\n");
    return 2;
  }
  try {
    tapegrad::set_num_threads(argc > 3 ? std::atoi(argv[3]) : 2);
    if (layer == "lstm") time_steps<tapegrad::nn::LSTM>(steps);
    if (layer == "gru") time_steps<tapegrad::nn::GRU>(steps);
    if (layer == "rnn") time_steps<tapegrad::nn::RNN>(steps);
    return 0;
  } catch (const tapegrad::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
