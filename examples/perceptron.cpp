// A perceptron with a hidden layer learns the column "label" of a CSV from the columns before it.
//   perceptron FILE.csv [PREDICTIONS.npy]

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

using namespace tapegrad;

int main(int argc, char** argv) try {
  check(argc > 1, "usage: perceptron FILE.csv [PREDICTIONS.npy]");
  const arrays::Csv csv = arrays::load_csv(argv[1], {.header = true});
  check(csv.columns.back() == "label", "{}: the last column must be 'label'", argv[1]);
  const Tensor inputs = slice(csv.values, 1, 0, -1), labels = csv.column("label").to(DType::i32);
  const auto classes = static_cast<std::int64_t>(max(csv.column("label")).item()) + 1;

  Rng rng(1);
  const nn::Params params(rng);
  const nn::Linear hidden(params / "hidden", inputs.dim(1), 16), out(params / "out", 16, classes);
  const auto model = [&](const Tensor& x) { return out(relu(hidden(x))); };

  arrays::ArrayLoader loader({inputs, labels}, {.batch_size = 16}, Rng(2));
  optim::Adam adam(params.parameters());
  const optim::OneCycleLR rate{.max_lr = 0.05, .total_steps = 30 * loader.batches_per_epoch()};
  for (std::int64_t step = 0; step < rate.total_steps; ++step) {
    const arrays::Rows batch = loader.next();
    Tape tape;
    tape.backward(cross_entropy(model(batch[0]), batch[1]));
    adam.step(rate(step));
    adam.zero_grad();
  }

  const Tensor found = argmax(model(inputs), -1);
  int right = 0;
  for (std::int64_t i = 0; i < found.numel(); ++i) right += found.at(i) == labels.at(i);
  fmt::print("{} of {} rows are right\n", right, found.numel());
  if (argc > 2) arrays::save_npy(argv[2], found);
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
