// The loop of the library, with a model of a test's own.

#include <cmath>
#include <fstream>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/run/record/report.h"
#include "tapegrad/run/train/train.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

// Draws numbers x and learns 3x − 1.
struct Numbers {
  Rng rng{5};
  Tensor next() {
    Tensor x = Tensor::empty({8, 1});
    rng.uniform(std::span(x.mutable_data<float>(), 8), -1, 1);
    return x;
  }
  std::string state() const { return rng.state(); }
  void set_state(std::string_view saved) { rng.set_state(saved); }
};

struct Outcome {
  bool done;
  std::vector<float> weights;
  std::vector<std::int64_t> spoken;  // the steps after which the task was asked for a text
};

struct Lesson {
  std::filesystem::path folder;
  std::int64_t max_iters = 20;
  bool resumes = false;
  bool draws_in_evaluation = false;
  double factor = 3;
  std::optional<double> late = {};  // a value that is newer than some runs
  bool breaks = false;              // the loss becomes NaN
  bool check_finite = false;
  std::string optimizer = "adamw";
  std::optional<nn::DecoderConfig> decoder = {};  // its options, in place of the factor
  std::optional<std::int64_t> speaks_every = {};  // steps

  Outcome run() const {
    run::RunFolder run_folder = run::RunFolder::open(
        {.out_dir = folder.string(), .init_from = resumes ? run::kResume : run::kScratch},
        "lesson");
    Rng rng(1);
    const nn::Params params = run_folder.params(rng);
    const nn::Linear line(params / "line", 1, 1);
    Numbers numbers;
    const auto loss = [&](const Tensor& x) { return mse_loss(line(x), x * factor - 1.0); };
    run::Section section{"model", {{"factor", factor}}, {"late"}};
    if (decoder) section = run::section_of("model", *decoder);
    if (late) section.values.emplace_back("late", *late);
    std::vector<std::int64_t> spoken;
    run::Task task = {
        .params = params,
        .batches = numbers,
        .objective = run::objective_of(
            [&] { return run::Loss(loss(numbers.next()) * (breaks ? std::nan("") : 1.0)); },
            [&] {
              const double value =
                  loss(draws_in_evaluation ? numbers.next() : Numbers().next()).item();
              return run::Losses{.train = value, .val = value};
            }),
        .config = {.format = "lesson", .sections = {section}},
        .after_step = [&](run::Report& report, bool) { spoken.push_back(report.iteration()); },
    };
    if (speaks_every) {
      task.after_step_due = [&](std::int64_t step, bool) { return step % *speaks_every == 0; };
    }
    optim::GroupRules rules = run::OptimizerOptions::default_rules();
    rules.optimizer = optim::optimizer_named(optimizer);
    rules.settings.set("momentum", 0.5);
    if (optimizer == "sgd") rules.lr_scale = {"*weight=0.5"};
    const bool done = run::train(task, run_folder,
                                 {.optimizer = {.max_iters = max_iters,
                                                .learning_rate = 0.1,
                                                .schedule = optim::Schedule::Kind::constant,
                                                .warmup_iters = 0,
                                                .rules = rules,
                                                .check_finite = check_finite},
                                  .evaluation = {.eval_interval = 5, .log_interval = 10}});
    const auto w = line.weight.values<float>(), b = line.bias.values<float>();
    return {done, {w[0], b[0]}, spoken};
  }
};

std::size_t lines_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::size_t n = 0;
  for (std::string line; std::getline(file, line);) ++n;
  return n;
}

}  // namespace

TEST_CASE("the loop trains a model of the caller's own and keeps it", "[train]") {
  const TempFolder folder;
  const Outcome end = Lesson{.folder = folder / "run", .max_iters = 200}.run();
  CHECK(end.done);
  CHECK(end.weights[0] == Approx(3).margin(0.2));
  for (const char* name : {"config.json", "model.safetensors", "optimizer.safetensors",
                           "trainer.json", "metrics.jsonl"}) {
    CHECK(std::filesystem::exists(folder / "run" / name));
  }
  CHECK(lines_in(folder / "run/metrics.jsonl") == 41 + 20);  // evaluations and iter lines
}

TEST_CASE("a task is asked for a text after each step, or where it is due", "[train]") {
  const TempFolder folder;
  Lesson lesson{.folder = folder / "each", .max_iters = 3};
  CHECK(lesson.run().spoken == std::vector<std::int64_t>{1, 2, 3});
  lesson.folder = folder / "some", lesson.max_iters = 9, lesson.speaks_every = 4;
  CHECK(lesson.run().spoken == std::vector<std::int64_t>{4, 8});
}

TEST_CASE("a run that stopped ends with the bits of one that did not", "[train]") {
  const bool draws = GENERATE(false, true);
  const std::string optimizer = GENERATE("adamw", "sgd");
  const TempFolder folder;
  const Outcome straight =
      Lesson{.folder = folder / "straight", .draws_in_evaluation = draws, .optimizer = optimizer}
          .run();
  Lesson stopped{.folder = folder / "stopped",
                 .max_iters = 7,
                 .draws_in_evaluation = draws,
                 .optimizer = optimizer};
  CHECK(stopped.run().weights != straight.weights);
  stopped.max_iters = 20, stopped.resumes = true;
  CHECK(stopped.run().weights == straight.weights);
}

TEST_CASE("a checkpoint of another model, and too few steps, are refused", "[train]") {
  const TempFolder folder;
  Lesson lesson{.folder = folder / "run", .max_iters = 6};
  lesson.run();
  lesson.resumes = true;
  lesson.max_iters = 5;
  CHECK_THROWS_WITH(lesson.run(), ContainsSubstring("has made 6 steps already"));
  lesson.max_iters = 8, lesson.factor = 4;
  CHECK_THROWS_WITH(lesson.run(), ContainsSubstring("a model with factor 3.0, not 4.0"));
  lesson.factor = 3, lesson.optimizer = "sgd";
  CHECK_THROWS_WITH(lesson.run(),
                    ContainsSubstring("the state of the optimiser adamw, and not of sgd"));
}

TEST_CASE("a resumed run may tell a part of its model that it had without telling", "[train]") {
  const TempFolder folder;
  nn::DecoderConfig told;
  told.activation = nn::Activation::gelu, told.separate_qkv = false;
  Lesson lesson{.folder = folder / "run", .max_iters = 6, .decoder = told};
  lesson.run();
  lesson.resumes = true, lesson.max_iters = 7, lesson.decoder = nn::DecoderConfig();
  CHECK(lesson.run().done);
  lesson.decoder = told, lesson.max_iters = 8;
  CHECK(lesson.run().done);
  lesson.decoder->activation = nn::Activation::relu;
  CHECK_THROWS_WITH(lesson.run(),
                    ContainsSubstring(R"(a model with activation "gelu", not "relu")"));
}

TEST_CASE("a loss that is not a number ends the run and keeps the last checkpoint", "[train]") {
  const TempFolder folder;
  Lesson lesson{.folder = folder / "run", .max_iters = 6};
  lesson.run();
  const std::string before = TempFolder::get(folder / "run/model.safetensors");
  lesson.resumes = true, lesson.max_iters = 12, lesson.breaks = true;
  CHECK_THROWS_WITH(lesson.run(), ContainsSubstring("step 6: the gradient norm is not a number") &&
                                      !ContainsSubstring("clip the gradients") &&
                                      ContainsSubstring(". The checkpoint of step 6 is complete"));
  CHECK(TempFolder::get(folder / "run/model.safetensors") == before);
}

TEST_CASE("a run with check_finite names step, op and module of the first NaN", "[train]") {
  const TempFolder folder;
  Lesson lesson{.folder = folder / "run", .max_iters = 6};
  lesson.run();
  lesson.resumes = true, lesson.max_iters = 12, lesson.breaks = true;
  CHECK_THROWS_WITH(lesson.run(), ContainsSubstring("check-finite"));
  lesson.check_finite = true;
  CHECK_THROWS_WITH(lesson.run(), ContainsSubstring("step 6: [mul]") && ContainsSubstring("NaN") &&
                                      ContainsSubstring("after module line"));
}

TEST_CASE("a run that is older than an option of its model goes on", "[train]") {
  const TempFolder folder;
  Lesson lesson{.folder = folder / "run", .max_iters = 6};
  lesson.run();
  lesson.resumes = true, lesson.max_iters = 8, lesson.late = 1;
  CHECK(lesson.run().done);
  lesson.max_iters = 9, lesson.late = 2;
  CHECK_THROWS_WITH(lesson.run(), ContainsSubstring("a model with late 1.0, not 2.0"));
}
