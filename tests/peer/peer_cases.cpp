// Runs random cases of every op of the op table in f32 and writes inputs, results and gradients to
// a file, which compare.py compares with PyTorch's:  peer_cases FILE [SEEDS]

#include <fmt/core.h>

#include <cstdlib>
#include <set>

#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

// Factors of inputs.
constexpr double kSizes[] = {0.01, 1, 5, 30, 1000};
constexpr std::int64_t kMostElements = 4096;

Tensor random_f32(const Shape& shape, Rng& rng) {
  Tensor t = Tensor::empty(shape);
  rng.normal(std::span(t.mutable_data<float>(), static_cast<std::size_t>(t.numel())), 0, 1);
  return t;
}

// True if the op takes inputs of these shapes.
bool takes(const OpCase& op_case, const std::vector<Shape>& shapes) {
  std::vector<Tensor> inputs;
  try {
    for (const Shape& shape : shapes) {
      if (shape.numel() > kMostElements) return false;
      inputs.push_back(Tensor::ones(shape, DType::f32));
    }
    return op_case.run(inputs).numel() <= kMostElements;
  } catch (const Error&) {
    return false;
  }
}

// Random shapes for a case, made from its own by changes that the op agrees to. Sizes that are
// equal are multiplied alike, so that matrices fit each other and heads divide the channels. Inputs
// get more dimensions in front, or lose one, or are stretched along one.
std::vector<Shape> random_shapes(const OpCase& op_case, Rng& rng) {
  std::vector<Shape> shapes = op_case.shapes;
  const auto change = [&](const auto& f) {
    std::vector<Shape> changed = shapes;
    f(changed);
    if (takes(op_case, changed)) shapes = changed;
  };
  std::set<std::int64_t> sizes;
  for (const Shape& shape : shapes) sizes.insert(shape.begin(), shape.end());
  for (const std::int64_t size : sizes) {
    constexpr std::int64_t kFactors[] = {1, 2, 3, 5, 17, 150};
    const std::int64_t factor = kFactors[rng.randint(std::size(kFactors))];
    change([&](std::vector<Shape>& changed) {
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        for (int d = 0; d < shapes[i].rank(); ++d) {
          if (shapes[i][d] == size) changed[i][d] = size * factor;
        }
      }
    });
  }
  if (rng.randint(3) == 0) {
    const std::int64_t more = 1 + rng.randint(3);
    change([&](std::vector<Shape>& changed) {
      for (Shape& shape : changed) shape = shape.inserted(0, more);
    });
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::int64_t what = rng.randint(6), more = 1 + rng.randint(4);
    if (what == 0) change([&](auto& changed) { changed[i] = shapes[i].inserted(0, more); });
    if (shapes[i].rank() == 0) continue;
    const auto d = static_cast<int>(rng.randint(shapes[i].rank()));
    if (what == 1) change([&](auto& changed) { changed[i] = shapes[i].without(0); });
    if (what == 2) change([&](auto& changed) { changed[i][d] = 1; });
  }
  return shapes;
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
  std::size_t cases = 0;
  for (const OpCase& op_case : op_table()) {
    for (int seed = 0; seed < seeds; ++seed) {
      Rng rng(static_cast<std::uint64_t>(seed));
      OpCase random = op_case;
      if (seed > 0) random.shapes = random_shapes(op_case, rng);
      for (const double size : kSizes) {
        // As "log|log (2, 5)|17|in0": what is called, the line of the table, the case, the tensor.
        add_case(random, fmt::format("{}|{}|{}|", op_case.op, op_case.str(), cases++), size, rng,
                 tensors);
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
