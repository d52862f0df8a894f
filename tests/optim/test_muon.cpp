#include <cmath>

#include "tapegrad/optim/optimizers/muon.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/optim/two_tensors.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::Muon;
using optim::MuonOptions;

namespace {

// The parameters of golden_muon.py.
NamedTensors matrices_of(const nlohmann::json& golden, DType dtype) {
  NamedTensors parameters;
  for (const auto& [name, shape] : golden["shapes"].items()) {
    std::vector<double> values;
    const int rows = shape[0], columns = shape[1];
    for (int i = 0; i < rows * columns; ++i) values.push_back(((7 * i + 3) % 17 - 8) / 8.0);
    parameters.emplace_back(
        name, Tensor::from<double>(values, {rows, columns}).to(dtype).set_requires_grad());
  }
  return parameters;
}

// The gradients of step t: those of Σp³/t.
void gradients_of(const NamedTensors& parameters, int t) {
  for (auto [name, p] : parameters) p.set_grad(p * p * 3 / t);
}

// Steps `from` to `to` − 1, counted from 1.
void train(Muon& muon, const NamedTensors& parameters, int from, int to, double lr) {
  for (int t = from; t < to; ++t) {
    gradients_of(parameters, t);
    muon.step(lr);
  }
}

MuonOptions options_of(const nlohmann::json& json) {
  MuonOptions o;
  o.momentum = json.value("momentum", o.momentum);
  o.momentum_warmup = json.value("momentum_warmup", o.momentum_warmup);
  o.nesterov = json.value("nesterov", o.nesterov);
  o.ns_steps = json.value("ns_steps", o.ns_steps);
  o.weight_decay = json.value("weight_decay", o.weight_decay);
  if (json.value("adjust_lr", "") == "original") o.adjust_lr = optim::AdjustLr::original;
  return o;
}

// The same by the names and the defaults of torch.optim.Muon.
MuonOptions options_of_torch(const nlohmann::json& json) {
  MuonOptions o = options_of(json);
  const std::string adjust = json.value("adjust_lr_fn", "original");
  o.adjust_lr = adjust == "original" ? optim::AdjustLr::original : optim::AdjustLr::match_rms_adamw;
  return o;
}

// Those of golden_muon_torch.py: step 0 is for the parameters.
Tensor numbers_of_torch(const nlohmann::json& shape, std::int64_t t, DType dtype) {
  const std::int64_t rows = shape[0], columns = shape[1];
  std::vector<double> values;
  for (std::int64_t k = 0; k < rows * columns; ++k) {
    const std::int64_t number = (37 * k * k + 101 * k * t + 13 * t + 5 * k) % 1021 - 510;
    values.push_back(static_cast<double>(number) / 1024);
  }
  return Tensor::from<double>(values, {rows, columns}).to(dtype);
}

// The largest difference of a value from what it should be, in multiples of the largest value.
double worst(const Tensor& t, const std::vector<double>& expected) {
  double difference = 0, largest = 0;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double value = expected[static_cast<std::size_t>(i)];
    difference = std::max(difference, std::abs(t.at(i) - value));
    largest = std::max(largest, std::abs(value));
  }
  return difference / largest;
}

// A matrix of numbers that look random.
Tensor noise(const Shape& shape, DType dtype = DType::f64) {
  Rng rng(7);
  return Tensor::randn(shape, rng).to(dtype);
}

// What one step with learning rate 1 subtracts.
Tensor step_of(const std::string& name, const Tensor& gradient, const MuonOptions& options) {
  Tensor p = Tensor::zeros(gradient.shape(), gradient.dtype()).set_requires_grad();
  p.set_grad(gradient);
  Muon({{name, p}}, options).step(1);
  return p * -1;
}

}  // namespace

TEST_CASE("Muon makes the steps of its formula, in f64 and f32", "[muon]") {
  const nlohmann::json golden = golden_json("muon.json");
  const DType dtype = GENERATE(DType::f64, DType::f32);
  const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-6;
  for (const auto& [label, golden_case] : golden["cases"].items()) {
    if (golden_case["options"].contains("cautious")) continue;
    const NamedTensors parameters = matrices_of(golden, dtype);
    Muon muon(parameters, options_of(golden_case["options"]));
    train(muon, parameters, 1, golden["steps"].get<int>() + 1, golden["lr"]);
    for (const auto& [name, p] : parameters) {
      INFO(label << ", " << name);
      CHECK(worst(p, golden_case["final"][name]) <= tolerance);
    }
  }
}

// PyTorch's own optimiser: without its rounding to bf16, and as it is.
TEST_CASE("Muon makes the steps of torch.optim.Muon, but for bf16", "[muon]") {
  const nlohmann::json golden = golden_json("muon_torch.json");
  const auto [kind, dtype, tolerance] = GENERATE(table<std::string, DType, double>(
      {{"f64", DType::f64, 1e-13}, {"f32", DType::f32, 1e-6}, {"bf16", DType::f32, 0.01}}));
  for (const auto& [label, golden_case] : golden["cases"].items()) {
    NamedTensors parameters;
    for (const auto& [name, shape] : golden["shapes"].items()) {
      parameters.emplace_back(name, numbers_of_torch(shape, 0, dtype).set_requires_grad());
    }
    Muon muon(parameters, options_of_torch(golden_case["options"]));
    for (int t = 1; t <= golden["steps"].get<int>(); ++t) {
      for (auto [name, p] : parameters) {
        p.set_grad(numbers_of_torch(golden["shapes"][name], t, dtype));
      }
      muon.step(golden["lr"]);
    }
    for (const auto& [name, p] : parameters) {
      INFO(label << ", " << name << ", " << kind);
      CHECK(worst(p, golden_case[kind][name]) <= tolerance);
    }
  }
}

// The singular values of the update of a matrix with more rows than columns, and of its transpose.
TEST_CASE("Muon's update is nearly orthogonal, and has the root mean square of AdamW's", "[muon]") {
  const Tensor gradient = noise({60, 20});
  const MuonOptions options{.momentum = 0, .nesterov = false};
  const Tensor tall = step_of("w", gradient, options);
  const Tensor wide = step_of("w", transpose(gradient, 0, 1), options);
  CHECK(difference(transpose(wide, 0, 1), tall, 0, 1e-12) == "");
  const double square = sum(tall * tall).item() / static_cast<double>(tall.numel());
  CHECK(std::sqrt(square) == Approx(0.2).epsilon(0.15));
  const Tensor gram = matmul(transpose(tall, 0, 1), tall) / (0.2 * 0.2 * 60);
  for (std::int64_t i = 0; i < 20; ++i) {
    CHECK(gram.at(i * 20 + i) > 0.4);
    CHECK(gram.at(i * 20 + i) < 1.5);
  }
}

// More rows than a block of gemm_symmetric() has.
TEST_CASE("Muon's iterations on X·Xᵀ alone are those on X", "[muon]") {
  for (const Shape& shape : {Shape{70, 150}, Shape{70, 70}}) {
    const Tensor g = noise(shape);
    const double ratio = static_cast<double>(shape[1]) / static_cast<double>(shape[0]);
    Tensor x = g / std::sqrt(sum(g * g).item());
    for (int steps = 1; steps <= 7; ++steps) {
      INFO(shape[0] << " by " << shape[1] << ", " << steps << " iterations");
      const Tensor gram = matmul(x, transpose(x, 0, 1));
      x = x * 3.4445 + matmul(gram * -4.7750 + matmul(gram, gram) * 2.0315, x);
      const MuonOptions options{.ns_steps = steps, .adjust_lr = optim::AdjustLr::original};
      CHECK(difference(step_of("w", g, options), x, 0, 1e-12) == "");
      const Tensor tall = step_of("w", transpose(g, 0, 1), options);
      CHECK(difference(transpose(tall, 0, 1), x * std::sqrt(ratio), 0, 1e-12) == "");
    }
  }
}

TEST_CASE("Muon's update does not depend on the size of the gradient", "[muon]") {
  const Tensor gradient = noise({5, 9});
  CHECK(difference(step_of("w", gradient, {}), step_of("w", gradient * 1e-3, {}), 0, 1e-12) == "");
  CHECK(list(step_of("w", Tensor::zeros({2, 2}), {})) == std::vector<double>(4, 0));
}

TEST_CASE("fused queries, keys and values are orthogonalised as three matrices", "[muon]") {
  const auto pieces = [](std::string_view name, const Shape& shape) {
    return optim::muon_pieces(name, shape);
  };
  using Rows = std::vector<std::int64_t>;
  CHECK(pieces("h.0.attn.c_attn.weight", {12, 4}) == Rows{0, 4, 8, 12});
  CHECK(pieces("layers.0.self_attn.qkv_proj.weight", {12, 4}) == Rows{0, 4, 8, 12});
  CHECK(pieces("h.0.attn.c_attn.weight", {8, 4}) == Rows{0, 4, 6, 8});  // shared keys and values
  CHECK(pieces("h.0.attn.c_attn.weight", {4, 4}) == Rows{0, 4});
  CHECK(pieces("h.0.attn.c_attn.weight", {16, 4}) == Rows{0, 16});
  CHECK(pieces("h.0.attn.c_attn.weight", {9, 4}) == Rows{0, 9});
  CHECK(pieces("h.0.mlp.c_fc.weight", {12, 4}) == Rows{0, 12});
  CHECK(pieces("h.0.attn.c_attn.lora_B.weight", {12, 4}) == Rows{0, 12});
  CHECK(pieces("h.0.attn.other_c_attn.weight", {12, 4}) == Rows{0, 12});

  const Tensor gradient = noise({30, 10});
  const Tensor fused = step_of("h.0.attn.c_attn.weight", gradient, {});
  for (const std::int64_t begin : {0, 10, 20}) {
    const Tensor alone = step_of("w", gradient.rows(begin, begin + 10).clone(), {});
    CHECK(difference(fused.rows(begin, begin + 10), alone, 0, 1e-13) == "");
  }
}

TEST_CASE("Muon is for hidden matrices; AdamW has embeddings, the head and vectors", "[muon]") {
  const auto suits = [](std::string_view name, const Shape& shape) {
    return optim::is_hidden_matrix(name, shape);
  };
  CHECK(suits("h.0.attn.c_attn.weight", {12, 4}));
  CHECK(suits("layers.0.self_attn.q_proj.weight", {4, 4}));
  CHECK(suits("encoder.h.1.mlp.c_fc.weight", {16, 4}));
  for (const char* name : {"wte.weight", "wpe.weight", "embed_tokens.weight",
                           "embed_positions.weight", "lm_head.weight", "model.wte.weight"}) {
    CHECK_FALSE(suits(name, {12, 4}));
  }
  CHECK_FALSE(suits("h.0.ln_1.weight", {4}));
  CHECK_FALSE(suits("h.0.conv.weight", {4, 4, 3}));

  const NamedTensors model{{"wte.weight", Tensor::zeros({10, 4})},
                           {"h.0.ln_1.weight", Tensor::zeros({4})},
                           {"h.0.attn.c_attn.weight", Tensor::zeros({12, 4})}};
  const optim::GroupRules rules{.optimizer = optim::optimizer_named("muon")};
  const optim::ParameterGroups groups = optim::make_groups(model, rules);
  CHECK(groups.of(0).optimizer->name() == "adamw");
  CHECK(groups.of(1).optimizer->name() == "adamw");
  CHECK(groups.of(2).optimizer->name() == "muon");
  CHECK(rules.used() == std::vector{optim::optimizer_named("muon"), optim::OptimizerId{}});
  CHECK(optim::bytes_kept(model, groups) == 4 * (2 * (40 + 4) + 48));
  // Beside another optimiser, that one has what Muon is not made for.
  const optim::GroupRules beside{.optimizer = optim::optimizer_named("sgd"),
                                 .optimizer_for = {"h.*=muon"}};
  CHECK(optim::make_groups(model, beside).of(1).optimizer->name() == "sgd");
  CHECK(optim::make_groups(model, beside).of(2).optimizer->name() == "muon");
  CHECK(beside.used().size() == 2);
  CHECK_THROWS_WITH(Muon({{"b", Tensor::zeros({4})}}),
                    ContainsSubstring("Muon is for matrices, and 'b' is (4)"));
}

TEST_CASE("Muon decays cautiously, as its formula", "[muon]") {
  const nlohmann::json golden = golden_json("muon.json");
  const NamedTensors parameters = matrices_of(golden, DType::f64);
  const nlohmann::json& cautious = golden["cases"]["cautious"];
  const optim::GroupRules rules{.optimizer = optim::optimizer_named("muon"),
                                .weight_decay = cautious["options"]["weight_decay"],
                                .cautious_decay = true};
  optim::OptimizerState state(parameters, optim::make_groups(parameters, rules));
  for (int t = 1; t <= golden["steps"].get<int>(); ++t) {
    gradients_of(parameters, t);
    state.step(golden["lr"]);
  }
  for (const auto& [name, p] : parameters) CHECK(worst(p, cautious["final"][name]) <= 1e-13);
}

TEST_CASE("a run of Muon that is saved and resumed ends at the bits of one that was not",
          "[muon]") {
  const TempFolder folder;
  const std::string path = (folder / "state.safetensors").string();
  const nlohmann::json golden = golden_json("muon.json");
  const MuonOptions options{.momentum_warmup = 5};
  const NamedTensors whole = matrices_of(golden, DType::f32),
                     parts = matrices_of(golden, DType::f32);
  Muon muon(whole, options);
  train(muon, whole, 1, 7, 0.1);
  {
    Muon first(parts, options);
    train(first, parts, 1, 4, 0.1);
    save_safetensors(path, first.state(), first.metadata());
  }
  CHECK(load_safetensors(path).tensors.count("momentum_buffer.wide.weight") == 1);
  Muon second(parts, options);
  second.load_state(*open_safetensors(path));
  CHECK(second.steps() == 3);
  train(second, parts, 4, 7, 0.1);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(same_bits(parts[i].second, whole[i].second));
  }
}

TEST_CASE("a gradient of zeros, or of no elements, changes nothing by Muon", "[muon]") {
  const MuonOptions least{.weight_decay = 0, .eps = 1e-30};
  const Tensor step = step_of("a", Tensor::zeros({3, 4}, DType::f32), least);
  for (std::int64_t i = 0; i < step.numel(); ++i) CHECK(step.at(i) == 0);
  CHECK_NOTHROW(step_of("a", Tensor::zeros({0, 4}), {}));
}

TEST_CASE("Muon options that mean nothing are errors that name them", "[muon]") {
  const NamedTensors w{{"w", Tensor::zeros({2, 2})}};
  CHECK_THROWS_WITH(Muon(w, {.momentum = 1}), ContainsSubstring("[MuonOptions] momentum"));
  CHECK_THROWS_WITH(Muon(w, {.momentum_warmup = -1}),
                    ContainsSubstring("[MuonOptions] momentum_warmup"));
  CHECK_THROWS_WITH(Muon(w, {.ns_steps = 0}), ContainsSubstring("ns_steps"));
  CHECK_THROWS_WITH(Muon(w, {.eps = 0}), ContainsSubstring("eps"));
  CHECK_THROWS_WITH(Muon(w, {.weight_decay = -1}), ContainsSubstring("weight_decay"));
}
