// The memory of a training step, measured in a dry run, against what a real step takes.

#include "tapegrad/base/memory/memory.h"
#include "tapegrad/nn/transformer.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/ema.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/run/plan/memory_estimate.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// The peak of the second of two real steps.
template <class LossOf>
double true_peak(std::size_t before, const NamedTensors& parameters, const LossOf& loss_of,
                 bool averages = false) {
  optim::AdamW adamw(parameters);
  std::optional<optim::EMA> ema;
  if (averages) ema.emplace(parameters);
  for (int step = 0; step < 2; ++step) {
    reset_peak_memory();
    Tape tape;
    tape.backward(loss_of());
    adamw.step(1e-3, optim::measure_clipping(parameters, 1.0).factor);
    adamw.zero_grad();
    if (ema) ema->update();
  }
  return static_cast<double>(memory_stats().peak - before);
}

double true_peak(const nn::DecoderConfig& config, std::int64_t B,
                 const run::MemoryOptions& options) {
  Rng rng(1), dropout(2, options.step.dropout);
  const Tensor ids = random_ids(rng, {B, config.block_size}, config.vocab_size);
  const std::size_t before = memory_stats().live;
  const nn::Params params(rng, DType::f32, options.step.precision);
  nn::GPT gpt(params, config);
  gpt.recompute = options.step.recompute;
  return true_peak(
      before, params.parameters(), [&] { return gpt.loss(ids, ids, &dropout); },
      options.step.averages.has_value());
}

double true_peak(const nn::TransformerConfig& config, const run::PairSizes& sizes) {
  Rng rng(1), dropout(2);
  const Tensor source = random_ids(rng, {sizes.rows, sizes.source}, config.vocab_size);
  const Tensor target = random_ids(rng, {sizes.rows, sizes.target}, config.vocab_size);
  const std::size_t before = memory_stats().live;
  const nn::Params params(rng);
  const nn::Transformer model(params, config);
  return true_peak(before, params.parameters(),
                   [&] { return model.loss(source, target, target, {}, &dropout); });
}

nn::DecoderConfig small_config() {
  return {.vocab_size = 500, .block_size = 128, .n_layer = 3, .n_head = 4, .n_embd = 128};
}

}  // namespace

TEST_CASE("a GPT's step takes the memory that its dry run says", "[measure]") {
  nn::DecoderConfig dropping = small_config(), wide = small_config(), other = small_config();
  dropping.dropout = 0.1, dropping.ff_dropout = true;
  wide.vocab_size = 20000, wide.tied = false;
  other.positions = nn::Positions::rotary, other.separate_qkv = true,
  other.activation = nn::Activation::relu;
  struct Case {
    const char* name;
    nn::DecoderConfig config;
    run::MemoryOptions options;
  };
  const Case cases[] = {{"plain", small_config(), {}},
                        {"recomputed", small_config(), {.step = {.recompute = true}}},
                        {"dropout", dropping, {}},
                        {"dropout recomputed", dropping, {.step = {.recompute = true}}},
                        {"averages", small_config(), {.step = {.averages = optim::EMAOptions()}}},
                        {"stored masks", dropping, {.step = {.dropout = Rng::Kind::torch}}},
                        {"bf16", small_config(), {.step = {.precision = Precision::bf16}}},
                        {"wide vocabulary", wide, {}},
                        {"wide vocabulary, bf16", wide, {.step = {.precision = Precision::bf16}}},
                        {"rope, separate, relu", other, {}}};
  for (const Case& c : cases) {
    const double estimate = run::estimate_memory(c.config, 8, c.options).total;
    const double truth = true_peak(c.config, 8, c.options);
    UNSCOPED_INFO(c.name << ": " << estimate << " of " << truth << ": " << estimate / truth);
    CHECK(estimate == Approx(truth).epsilon(0.03));
  }
}

TEST_CASE("a pass whose gradients are sent away takes the memory that the dry run says",
          "[measure]") {
  const nn::DecoderConfig config = small_config();
  const nn::StepMemory estimate = run::estimate_memory(config, 2);
  Rng rng(1);
  const Tensor ids = random_ids(rng, {2, config.block_size}, config.vocab_size);
  const std::size_t before = memory_stats().live;
  const nn::Params params(rng);
  const nn::GPT gpt(params, config);
  double blocks = 0;
  for (const auto& [name, t] : params.parameters()) {
    if (name.starts_with("h.")) blocks += static_cast<double>(t.bytes());
  }
  CHECK(estimate.blocks == blocks);
  CHECK(estimate.largest_block == blocks / 3);
  const auto peak = [&](const auto& take) {
    reset_peak_memory();
    Tape tape;
    tape.backward(gpt.loss(ids, ids), {.take = take});
    return static_cast<double>(memory_stats().peak - before);
  };
  CHECK(estimate.weights + estimate.passes ==
        Approx(peak([](const Tensor&, const Tensor&) {})).epsilon(0.03));
  std::vector<Tensor> kept;  // gradients of no block, and at the end their copies
  const double by_blocks = peak([&](const Tensor& parameter, const Tensor& gradient) {
    for (const auto& [name, t] : params.parameters()) {
      if (t.id() == parameter.id() && !name.starts_with("h.")) kept.push_back(gradient.clone());
    }
  });
  CHECK(estimate.weights + estimate.passes_by_blocks == Approx(by_blocks).epsilon(0.03));
  CHECK(estimate.passes < estimate.total - estimate.weights - estimate.optimizer);
}

TEST_CASE("an encoder-decoder's step takes the memory that its dry run says", "[measure]") {
  nn::TransformerConfig config{.vocab_size = 300, .n_embd = 64, .n_hidden = 256};
  for (const double dropout : {0.0, 0.1}) {
    config.dropout = dropout;
    const run::PairSizes sizes{.rows = 32, .source = 30, .target = 40};
    const double truth = true_peak(config, sizes);
    CHECK(run::estimate_memory(config, sizes).total == Approx(truth).epsilon(0.03));
  }
}

TEST_CASE("a model of a user's own is measured like any other", "[measure]") {
  const Tensor x = Tensor::ones({64, 256});
  const nn::StepMemory memory =
      nn::measure_step([](const nn::Params& p) { return nn::Linear(p, 256, 512, false); },
                       [&](const nn::Linear& layer) { return sum(layer(x)); });
  CHECK(memory.weights == 4 * 256 * 512);
  CHECK(memory.gradients == memory.weights);
  CHECK(memory.optimizer == 0);
  CHECK(memory.activations >= 4 * 64 * 512);
  CHECK(memory.total >= 2 * memory.weights);
}

TEST_CASE("what an update needs beside what is kept counts where it is more", "[measure]") {
  const Tensor x = Tensor::ones({64, 256});
  const auto estimate = [&](std::int64_t floats) {
    return nn::measure_step([](const nn::Params& p) { return nn::Linear(p, 256, 512, false); },
                            [&](const nn::Linear& layer) { return sum(layer(x)); }, Precision::full,
                            {},
                            [=](const NamedTensors& parameters) {
                              CHECK(parameters.at(0).second.grad().defined());
                              const Tensor needed = Tensor::empty({floats});
                            });
  };
  const nn::StepMemory little = estimate(1), much = estimate(10 * 256 * 512);
  CHECK(much.total >= 12 * much.weights);  // with the weights and their gradient
  CHECK(much.total <= 12 * much.weights + little.total);
  CHECK(little.total < 4 * little.weights);
}

TEST_CASE("memory is of the sequences that are trained on, not of all that a model sees",
          "[measure]") {
  nn::DecoderConfig config = small_config();
  config.positions = nn::Positions::rotary;
  config.block_size = 16;
  const nn::StepMemory trained = run::estimate_memory(config, 2);
  config.block_size = 32768;
  CHECK(run::estimate_memory(config, 2, {.block_size = 16}).total == trained.total);
  CHECK(run::estimate_memory(config, 2, {.block_size = 32}).total > trained.total);
}

TEST_CASE("the optimiser says what it keeps", "[measure]") {
  const auto estimate = [](const char* optimizer, double momentum, const std::string& adamw) {
    run::MemoryOptions options;
    options.step.optimizer.optimizer = optim::optimizer_named(optimizer);
    options.step.optimizer.settings.set("momentum", momentum);
    if (!adamw.empty()) options.step.optimizer.optimizer_for = {adamw + "=adamw"};
    return run::estimate_memory(small_config(), 2, options);
  };
  const nn::StepMemory adamw = estimate("adamw", 0, ""), plain = estimate("sgd", 0, "");
  const nn::StepMemory momentum = estimate("sgd", 0.9, ""), mixed = estimate("sgd", 0, "wte*");
  CHECK(adamw.optimizer == 2 * adamw.gradients);
  CHECK(plain.optimizer == 0);
  CHECK(momentum.optimizer == momentum.gradients);
  CHECK(mixed.optimizer == 2 * 4 * 500 * 128);
  CHECK(adamw.total - plain.total == adamw.optimizer);
}

TEST_CASE("where steps are measured first, a copy of the weights counts", "[measure]") {
  nn::StepMemory memory;
  memory.weights = 1e18;  // more than any machine has
  CHECK_NOTHROW(run::check_memory(memory));
  CHECK_THROWS_WITH(run::check_memory(memory, true), ContainsSubstring("a copy for --max-minutes"));
  std::swap(memory.weights, memory.elsewhere);  // of weights that are shared out, too
  CHECK_NOTHROW(run::check_memory(memory));
  CHECK_THROWS_WITH(run::check_memory(memory, true), ContainsSubstring("a copy for --max-minutes"));
}

TEST_CASE("a large model is measured without its memory, and so without its work", "[measure]") {
  const nn::DecoderConfig xl{.n_layer = 48, .n_head = 25, .n_embd = 1600};
  const MemoryStats before = memory_stats();
  reset_peak_memory();
  const nn::StepMemory memory = run::estimate_memory(xl, 8);
  CHECK(memory.weights == 4.0 * 1'557'611'200);
  CHECK(memory.total > 4 * memory.weights);
  CHECK(memory_stats().peak < before.live + (1 << 20));
}

TEST_CASE("the shapes of a model are those of its parameters", "[measure]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::GPT gpt(params, tiny_config());
  const nn::Params shapes = nn::shapes_of<nn::GPT>(tiny_config());
  CHECK(shapes.count() == params.count());
  REQUIRE(shapes.parameters().size() == params.parameters().size());
  for (std::size_t i = 0; i < params.parameters().size(); ++i) {
    CHECK(shapes.parameters()[i].first == params.parameters()[i].first);
    CHECK(shapes.parameters()[i].second.shape() == params.parameters()[i].second.shape());
  }
}
