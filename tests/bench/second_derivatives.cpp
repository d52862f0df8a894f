// Times the steps of torch_second_derivatives.py: second_derivatives [STEPS [THREADS]] prints the
// loss, the median in ms, and that of the processor's time.

#include <fmt/core.h>

#include <cstdlib>
#include <ctime>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/nn/layers.h"

namespace {

using namespace tapegrad;

double milliseconds_of_processors() {
  return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// The mean square of u_t − 0.1·u_xx at 10,000 points (x, t) for a 4 × 64 tanh network u, and its
// gradients for the parameters.
void time_derivatives(std::int64_t steps) {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Linear l1(params / "l1", 2, 64), l2(params / "l2", 64, 64), l3(params / "l3", 64, 64),
      l4(params / "l4", 64, 64), out(params / "out", 64, 1);
  const Tensor points = Tensor::uniform({10000, 2}, rng);
  std::vector<double> times, processor;
  double loss_value = 0;
  for (std::int64_t i = -3; i < steps; ++i) {
    const Stopwatch watch;
    const double before = milliseconds_of_processors();
    Tape tape;
    Tensor u_t, u_xx;
    {
      Tape second;
      second.watch(points);
      Grads du;
      {
        Tape first;
        first.watch(points);
        du = first.gradient(sum(out(tanh(l4(tanh(l3(tanh(l2(tanh(l1(points)))))))))), {points});
      }
      u_t = slice(du[0], 1, 1, 2);
      u_xx = slice(second.gradient(sum(slice(du[0], 1, 0, 1)), {points})[0], 1, 0, 1);
    }
    const Tensor left = u_t - 0.1 * u_xx, loss = mean(left * left);
    tape.backward(loss);
    loss_value = loss.item();
    for (const auto& [name, t] : params.parameters()) Tensor(t).zero_grad();
    if (i < 0) continue;
    times.push_back(1000 * watch.seconds());
    processor.push_back(milliseconds_of_processors() - before);
  }
  fmt::print("loss {:.8f}, {:.2f} ms, {:.2f} ms of processors\n", loss_value, median(times),
             median(processor));
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 20;
  if (argc > 3 || steps < 1) {
    fmt::print(stderr, "usage: second_derivatives [STEPS [THREADS]]\n");
    return 2;
  }
  try {
    tapegrad::set_num_threads(argc > 2 ? std::atoi(argv[2]) : 2);
    time_derivatives(steps);
    return 0;
  } catch (const tapegrad::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
