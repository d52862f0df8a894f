// A model, data and loss of your own, trained by tapegrad's loop: a small network learns to tell
// two half moons apart. Evaluation, checkpoints, exact resume, progress and metrics come along.
//
//   two_moons RUN_FOLDER          trains
//   two_moons RUN_FOLDER STEPS    goes on, or begins, until so many steps are made

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

#include <cmath>
#include <filesystem>
#include <numbers>

using namespace tapegrad;

// Points on two half circles that reach into each other, with some noise.
class Moons {
 public:
  explicit Moons(std::uint64_t seed) : rng_(seed) {}

  struct Batch {
    Tensor points, labels;  // (n, 2) f32, and (n) i32: 0 for the upper moon, 1 for the lower one
  };
  Batch next(std::int64_t n) {
    std::vector<float> points;
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto moon = static_cast<std::int32_t>(rng_.randint(2));
      const double angle = std::numbers::pi * rng_.uniform_double();
      const double x = std::cos(angle), y = std::sin(angle);
      float noise[2];
      rng_.normal(std::span<float>(noise), 0, 0.1);
      points.push_back(static_cast<float>(moon == 0 ? x : 1 - x) + noise[0]);
      points.push_back(static_cast<float>(moon == 0 ? y : 0.5 - y) + noise[1]);
      labels.push_back(moon);
    }
    return {Tensor::from(points, {n, 2}), Tensor::from(labels, {n})};
  }

  // A checkpoint keeps the place in the random stream.
  std::string state() const { return rng_.state(); }
  void set_state(std::string_view saved) { rng_.set_state(saved); }

 private:
  Rng rng_;
};

struct Classifier {
  nn::Linear hidden, out;
  explicit Classifier(const nn::Params& p) : hidden(p / "hidden", 2, 32), out(p / "out", 32, 2) {}
  Tensor operator()(const Tensor& points) const { return out(relu(hidden(points))); }
};

// The share of points that get their own moon.
double accuracy(const Classifier& model, const Moons::Batch& batch) {
  const Tensor found = argmax(model(batch.points), -1);
  double right = 0;
  for (std::int64_t i = 0; i < found.numel(); ++i) right += found.at(i) == batch.labels.at(i);
  return right / static_cast<double>(found.numel());
}

bool train(const std::filesystem::path& path, std::int64_t steps) {
  const bool resumes = std::filesystem::exists(path / run::kTrainerFile);
  run::RunFolder folder = run::RunFolder::open(
      {.out_dir = path.string(), .init_from = resumes ? run::kResume : run::kScratch}, "moons");
  Rng rng(1);
  const nn::Params params = folder.params(rng);  // new ones, or those of the checkpoint
  const Classifier model(params);
  Moons moons(2);
  const Moons::Batch train_points = Moons(3).next(512), test_points = Moons(4).next(512);
  if (!resumes) fmt::print("what is learnt, (x, y) of each point:\n{}\n\n", train_points.points);
  const auto loss_of = [&](const Moons::Batch& b) {
    return cross_entropy(model(b.points), b.labels);
  };
  const run::Task task = {
      .params = params,
      .batches = moons,
      .objective = run::objective_of(
          [&] { return run::Loss(loss_of(moons.next(64))); },
          [&] {
            return run::Losses{.train = loss_of(train_points).item(),
                               .val = loss_of(test_points).item(),
                               .val_shares = {{"accuracy", accuracy(model, test_points)}}};
          }),
  };
  return run::train(task, folder,
                    {.optimizer = {.max_iters = steps,
                                   .learning_rate = 1e-2,
                                   .min_lr = 1e-3,
                                   .warmup_iters = 10,
                                   .lr_decay_iters = 300},
                     .evaluation = {.eval_interval = 100, .log_interval = 50}});
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: two_moons RUN_FOLDER [STEPS]\n");
    return 2;
  }
  try {
    return train(argv[1], argc > 2 ? std::atoll(argv[2]) : 300) ? 0 : 130;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
