// Times the steps of torch_overhead.py and python_steps.py, which are so small that what surrounds
// the arithmetic counts: overhead_steps perceptron|add|decoder [STEPS [THREADS]] prints the median
// of a step, and that of the processor's time.

#include <fmt/core.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/optim/optimizers/sgd.h"

namespace {

using namespace tapegrad;

// The medians of `count` in `unit`s, of which a second has `per_second`. A time is that of ten
// calls of step(), which does `parts` of what is measured.
template <class Step>
void print_median(std::int64_t count, double per_second, std::string_view unit, int parts,
                  const Step& step) {
  constexpr int calls = 10;
  const double factor = per_second / (calls * parts);
  std::vector<double> times, processor;
  for (std::int64_t i = -3; i < count; ++i) {
    const Stopwatch watch;
    const std::clock_t before = std::clock();
    for (int k = 0; k < calls; ++k) step();
    if (i < 0) continue;
    times.push_back(factor * watch.seconds());
    processor.push_back(factor * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
  }
  fmt::print("{:.2f} {}, {:.2f} {} of processors\n", median(times), unit, median(processor), unit);
}

// A step of SGD of a perceptron 784-256-10 with ReLU on 64 rows.
void perceptron(std::int64_t count) {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Linear fc1(params / "fc1", 784, 256), fc2(params / "fc2", 256, 10);
  optim::SGD sgd(params.parameters());
  const Tensor x = Tensor::randn({64, 784}, rng);
  std::vector<std::int32_t> labels;
  for (std::int32_t i = 0; i < 64; ++i) labels.push_back(i % 10);
  const Tensor targets = Tensor::from(labels, {64});
  print_median(count, 1e6, "us", 1, [&] {
    Tape tape;
    tape.backward(cross_entropy(fc2(relu(fc1(x))), targets));
    sgd.step(1e-2);
    sgd.zero_grad();
  });
}

// An add of two scalars, forward and backward, in a chain of 1,000 that begins at a parameter.
void add_scalars(std::int64_t count) {
  constexpr int length = 1000;
  Tensor x = Tensor::scalar(1).set_requires_grad();
  const Tensor one = Tensor::scalar(1);
  print_median(count, 1e9, "ns", length, [&] {
    Tape tape;
    Tensor sum = x;
    for (int i = 0; i < length; ++i) sum = sum + one;
    tape.backward(sum);
    x.zero_grad();
  });
}

// A step of AdamW of a small GPT on 8 rows of 64 tokens.
void decoder(std::int64_t count) {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder gpt = nn::make_decoder(
      params, {.vocab_size = 65, .block_size = 64, .n_layer = 4, .n_head = 4, .n_embd = 128},
      {.gpt2_weights = &rng});
  optim::AdamW adamw(params.parameters());
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 8 * 64; ++i) ids.push_back(i % 65);
  const Tensor rows = Tensor::from(ids, {8, 64});
  print_median(count, 1e3, "ms", 1, [&] {
    Tape tape;
    tape.backward(gpt.loss(rows, rows));
    optim::clip_grad_norm(params.parameters(), 1.0);
    adamw.step(1e-3);
    adamw.zero_grad();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string config = argc > 1 ? argv[1] : "";
  const std::int64_t count = argc > 2 ? std::atoll(argv[2]) : 100;
  const auto run = config == "perceptron" ? perceptron
                   : config == "decoder"  ? decoder
                   : config == "add"      ? add_scalars
                                          : nullptr;
  if (run == nullptr || count < 1) {
    fmt::print(stderr, "usage: overhead_steps perceptron|add|decoder [STEPS [THREADS]]\n");
    return 2;
  }
  try {
    tapegrad::set_num_threads(argc > 3 ? std::atoi(argv[3]) : 2);
    run(count);
    return 0;
  } catch (const tapegrad::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
