// Learning from a teacher.

#include "tapegrad/autograd/ops/head_ops.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/nn/losses/distillation.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/teacher.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

struct Student {
  run::OpenedModel opened = run::open_model(golden_file("hf_llama"));
  nn::Params params{opened.weights};
  nn::Decoder gpt = nn::make_decoder(params, opened.config, {});
};

nn::Decoder golden_teacher() {
  const run::OpenedModel opened = run::open_model(golden_file("hf_qwen3"));
  return {run::teacher_params(opened, Precision::full), opened.config};
}

}  // namespace

TEST_CASE("ten steps beside a teacher have PyTorch's losses", "[golden][distillation]") {
  const SafeTensors golden = load_safetensors(golden_file("distillation.safetensors").string());
  const Tensor inputs = golden.at("inputs"), targets = golden.at("targets");
  const Student student;
  const nn::Decoder teacher = golden_teacher();
  optim::AdamW adamw(student.params.parameters(), {.beta2 = 0.95, .weight_decay = 0.1});
  for (const float loss : golden.at("losses").values<float>()) {
    Tape tape;
    const Tensor made = nn::distillation_loss(student.gpt, teacher, inputs, targets,
                                              {.weight = 0.6, .temperature = 3});
    CHECK(made.item() == Approx(loss).epsilon(1e-5));
    tape.backward(made);
    adamw.step(1e-3, optim::measure_clipping(student.params.parameters(), 1.0).factor);
    adamw.zero_grad();
  }
}

TEST_CASE("a teacher without weight leaves the loss of the targets", "[distillation]") {
  const SafeTensors golden = load_safetensors(golden_file("distillation.safetensors").string());
  const Tensor inputs = golden.at("inputs"), targets = golden.at("targets");
  const Student student;
  const nn::Decoder teacher = golden_teacher();
  const auto loss = [&](const nn::Decoder& from, double weight) {
    return nn::distillation_loss(student.gpt, from, inputs, targets, {.weight = weight}).item();
  };
  CHECK(loss(teacher, 0) == Approx(student.gpt.loss(inputs, targets).item()).epsilon(1e-6));
  // Its own teacher has nothing to teach.
  CHECK(loss(student.gpt, 1) == Approx(0).margin(1e-6));
  CHECK(loss(teacher, 1) > 0.01);
}

TEST_CASE("at a high temperature, the loss is more than the noise of its sums", "[distillation]") {
  Rng rng(3);
  const std::int64_t N = 2, C = 8, V = 50'257;
  const Tensor x = Tensor::randn({N, C}, rng), w = Tensor::randn({V, C}, rng) * 0.1;
  const Tensor logits = Tensor::randn({N, V}, rng), ids = Tensor::zeros({N}, DType::i32);
  const auto loss = [&](DType dtype) {
    const Tensor taught = logits.to(dtype);
    const Teacher teacher{
        .logits = [&](std::int64_t from, std::int64_t n) { return taught.rows(from, from + n); },
        .weight = 1,
        .temperature = 1000};
    return linear_distillation(x.to(dtype), w.to(dtype), ids, teacher).item();
  };
  CHECK(loss(DType::f32) == Approx(loss(DType::f64)).epsilon(0.02));
}

TEST_CASE("the loss of many rows is that of a few at a time", "[distillation]") {
  Rng rng(1);
  const std::int64_t N = kLossChunk + 7, C = 5, V = 9;
  const Tensor x = Tensor::randn({N, C}, rng), w = Tensor::randn({V, C}, rng);
  const Tensor taught = Tensor::randn({N, V}, rng);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < N; ++i) ids.push_back(static_cast<std::int32_t>(i % V));
  const auto loss = [&](std::int64_t first, std::int64_t end) {
    const Teacher teacher{.logits = [&, first](std::int64_t from, std::int64_t n) {
      return taught.rows(first + from, first + from + n);
    }};
    const std::vector<std::int32_t> some(ids.begin() + first, ids.begin() + end);
    return linear_distillation(x.rows(first, end), w, Tensor::from(some, {end - first}), teacher)
        .item();
  };
  const auto half = static_cast<double>(N / 2), all = static_cast<double>(N);
  CHECK(loss(0, N) ==
        Approx((half * loss(0, N / 2) + (all - half) * loss(N / 2, N)) / all).epsilon(1e-5));
}

TEST_CASE("teachers that make no sense are refused", "[distillation]") {
  const Tensor x = Tensor::zeros({2, 3}), w = Tensor::zeros({4, 3});
  const Tensor ids = Tensor::zeros({2}, DType::i32);
  const auto logits = [](std::int64_t, std::int64_t n) { return Tensor::zeros({n, 5}); };
  CHECK_THROWS_WITH(linear_distillation(x, w, ids, {.logits = logits}),
                    ContainsSubstring("the teacher's logits are (2, 5) f32, not (2, 4) f32"));
  CHECK_THROWS_WITH(linear_distillation(x, w, ids, {.logits = logits, .weight = 2}),
                    ContainsSubstring("weight must be from 0 to 1, not 2"));
  CHECK_THROWS_WITH(linear_distillation(x, w, ids, {.logits = logits, .temperature = 0}),
                    ContainsSubstring("temperature must be finite and above 0, not 0"));
}
