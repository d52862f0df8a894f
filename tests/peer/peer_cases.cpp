// Runs random cases of every op of the op table in f32 and writes inputs, results and gradients to
// a file, which compare.py compares with PyTorch's:  peer_cases FILE [SEEDS]

#include <fmt/core.h>

#include <cstdlib>

#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tensor/safetensors.h"

namespace tapegrad {
namespace {

// What inputs are multiplied by.
constexpr double kSizes[] = {0.01, 1, 5, 30, 1000};

Tensor random_f32(const Shape& shape, Rng& rng) {
  Tensor t = Tensor::empty(shape);
  rng.normal(std::span(t.mutable_data<float>(), static_cast<std::size_t>(t.numel())), 0, 1);
  return t;
}

void add_case(const OpCase& op_case, const std::string& prefix, double size, Rng& rng,
              NamedTensors& tensors) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : op_case.inputs(rng)) inputs.push_back((x * size).to(DType::f32));
  Tape tape;
  for (const Tensor& x : inputs) tape.watch(x);
  const Tensor y = op_case.run(inputs), dy = random_f32(y.shape(), rng);
  const Grads grads = tape.gradient(y, inputs, {.seeds = {dy}});
  tensors.emplace_back(prefix + "out", y.clone());
  tensors.emplace_back(prefix + "dy", dy);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    tensors.emplace_back(prefix + "in" + std::to_string(i), inputs[i]);
    if (grads[i].defined()) {
      tensors.emplace_back(prefix + "grad" + std::to_string(i), grads[i].clone());
    }
  }
}

int run(const std::string& path, int seeds) {
  NamedTensors tensors;
  std::size_t number = 0, cases = 0;
  for (const OpCase& op_case : op_table()) {
    bool empty = false;
    for (const Shape& shape : op_case.shapes) empty = empty || shape.numel() == 0;
    for (int seed = 0; seed < seeds && !empty; ++seed) {
      Rng rng(static_cast<std::uint64_t>(seed));
      for (const double size : kSizes) {
        // As "log|17|in0": what is called, the case, and the tensor.
        add_case(op_case, fmt::format("{}|{}|", op_case.op, number++), size, rng, tensors);
        ++cases;
      }
    }
  }
  save_safetensors(path, tensors, {});
  fmt::print("{} cases in {}\n", cases, path);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: peer_cases FILE [SEEDS]\n");
    return EXIT_FAILURE;
  }
  try {
    return tapegrad::run(argv[1], argc > 2 ? std::max(1, std::atoi(argv[2])) : 20);
  } catch (const tapegrad::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
