#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// One of the golden models, with PyTorch's weights.
struct GoldenGPT {
  GoldenGPT(const std::string& name, const std::string& dtype_name)
      : facts(golden_json("gpt.json").at(name)),
        file(with_prefix(load_safetensors(golden_file("gpt.safetensors").string()),
                         name + "/" + dtype_name + "/")),
        numbers(facts.at(dtype_name)),
        params(source_of(with_prefix(file, "param/")),
               dtype_name == "f64" ? DType::f64 : DType::f32),
        gpt(params, golden_config(facts.at("config"))) {}

  nlohmann::json facts;
  SafeTensors file;
  nlohmann::json numbers;
  nn::Params params;
  nn::GPT gpt;

  Tensor loss() const { return cross_entropy(gpt(file.at("idx")), file.at("targets")); }
};

double relative(double a, double b) { return std::abs(a - b) / std::max(std::abs(b), 1e-300); }

}  // namespace

TEST_CASE("a GPT's logits, loss and every gradient are PyTorch's", "[golden]") {
  const std::string name = GENERATE("tied", "untied"), dtype = GENERATE("f32", "f64");
  INFO(name << " " << dtype);
  const double rtol = dtype == "f32" ? 1e-4 : 1e-10, atol = dtype == "f32" ? 1e-6 : 1e-12;
  const GoldenGPT model(name, dtype);
  Tape tape;
  const Tensor logits = model.gpt(model.file.at("idx"));
  const Tensor loss = cross_entropy(logits, model.file.at("targets"));
  // Logits reach 4, and PyTorch's own f32 ones are up to 3.2e-6 away from those in f64.
  const double logits_atol = dtype == "f32" ? 1e-5 : atol;
  CHECK(difference(logits, model.file.at("logits"), rtol, logits_atol) == "");
  CHECK(difference(loss, model.file.at("loss"), rtol, atol) == "");
  tape.backward(loss);
  CHECK(model.params.parameters().size() == (name == "tied" ? 28U : 16U));
  for (const auto& [parameter, t] : model.params.parameters()) {
    INFO(parameter);
    CHECK(difference(t.grad(), model.file.at("grad/" + parameter), rtol, atol) == "");
  }
}

// In f32 some weights have gradients that are nothing but rounding (a key's bias changes no
// attention weight), and Adam makes full steps of them: those weights are compared in f64 alone.
TEST_CASE("ten clipped AdamW steps of a GPT are PyTorch's", "[golden]") {
  const std::string name = GENERATE("tied", "untied"), dtype = GENERATE("f32", "f64");
  INFO(name << " " << dtype);
  const bool f32 = dtype == "f32";
  const double rtol = f32 ? 1e-5 : 1e-10;
  const GoldenGPT model(name, dtype);
  optim::AdamW adamw(model.params.parameters(), {.beta1 = model.facts.at("betas").at(0),
                                                 .beta2 = model.facts.at("betas").at(1),
                                                 .eps = model.facts.at("eps"),
                                                 .weight_decay = model.facts.at("weight_decay")});
  for (std::size_t i = 0; i < 10; ++i) {
    INFO("step " << i);
    Tape tape;
    const Tensor loss = model.loss();
    tape.backward(loss);
    const double norm =
        optim::clip_grad_norm(model.params.parameters(), model.facts.at("grad_clip"));
    CHECK(relative(loss.item(), model.numbers.at("losses").at(i)) < rtol);
    CHECK(relative(norm, model.numbers.at("norms").at(i)) < rtol);
    adamw.step(model.facts.at("lr"));
    adamw.zero_grad();
  }
  CHECK(relative(model.loss().item(), model.numbers.at("final_loss")) < rtol);
  for (const auto& [parameter, t] : model.params.parameters()) {
    INFO(parameter);
    if (f32 && parameter.find("c_attn.bias") != std::string::npos) continue;
    CHECK(difference(t, model.file.at("final/" + parameter), f32 ? 1e-4 : 1e-9,
                     f32 ? 1e-5 : 1e-11) == "");
  }
}

// The ids are what nanoGPT's generate loop draws in PyTorch 2.6 with the f32 weights of
// gpt.safetensors, torch.manual_seed(42) and the prompt [3, 1, 4].
TEST_CASE("generated tokens are those that nanoGPT draws from the same seed", "[golden]") {
  struct Case {
    const char* model;
    nn::GenerateOptions options;
    std::vector<std::int32_t> tokens;
  };
  const std::vector<Case> cases = {
      {"tied", {.temperature = 1.0}, {0,  8,  3, 1,  7,  15, 15, 15, 0,  0,
                                      15, 15, 7, 15, 15, 0,  15, 8,  15, 7}},
      {"tied", {.temperature = 0.8, .top_k = 5}, {16, 15, 0,  0,  5,  15, 10, 15, 0, 0,
                                                  0,  16, 15, 10, 14, 0,  15, 0,  0, 15}},
      {"tied", {.temperature = 1.5, .top_k = 200}, {0, 8,  3, 9,  7,  15, 11, 15, 0, 0,
                                                    7, 15, 7, 15, 15, 4,  9,  0,  4, 15}},
      {"tied", {.greedy = true}, {15, 15, 0, 0, 0, 0, 7, 15, 7, 1, 16, 0, 0, 0, 15, 1, 0, 0, 0, 0}},
      {"untied", {.temperature = 1.0}, {16, 7, 3, 5, 5,  4, 11, 10, 14, 5,
                                        5,  0, 7, 2, 15, 4, 5,  0,  4,  14}},
      {"untied", {.temperature = 2.0, .top_k = 3}, {9,  8, 5, 14, 5,  2,  12, 0, 14, 10,
                                                    14, 5, 5, 2,  14, 10, 5,  0, 10, 14}},
      {"untied", {.greedy = true}, {5, 5, 2, 5,  5,  2,  14, 5,  5, 5,
                                    5, 5, 2, 14, 14, 14, 14, 14, 5, 5}},
  };
  for (Case c : cases) {
    const GoldenGPT model(c.model, "f32");
    c.options.max_new_tokens = static_cast<std::int64_t>(c.tokens.size());
    CHECK(nn::stream(model.gpt, {3, 1, 4}, c.options, 42).tokens() == c.tokens);
  }
}
