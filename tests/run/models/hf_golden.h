#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/nn/models.h"
#include "tapegrad/tests/temp_folder.h"

// Models of Hugging Face's layout beside what transformers computes with them.

namespace tapegrad::testing {

inline SafeTensors expected_of(const std::string& golden) {
  return load_safetensors((golden_file(golden) / "expected.safetensors").string());
}

inline nn::Tokens greedy_text(const run::TextModel& model, const SafeTensors& expected) {
  const auto prompt = expected.at("prompt").values<std::int32_t>();
  nn::Decoder gpt = model.gpt;
  gpt.rule_out({});  // transformers draws rows that stand for no token, too
  return nn::stream(gpt, {prompt.begin(), prompt.end()},
                    {.max_new_tokens = expected.at("greedy").numel(), .greedy = true})
      .tokens();
}

// How far logits may be from transformers': on a Zen 5, Ministral 3's are 3.7e-5 away, and Phi-3's
// with LongRoPE 2.8e-5. The smallest mistake would be some 1e-3.
constexpr double kMostOfLogits = 5e-5;

// Logits and a greedy text.
inline void check_computes(const run::TextModel& model, const SafeTensors& expected) {
  CHECK(difference(model.gpt(expected.at("input_ids")), expected.at("logits"), 1e-5,
                   kMostOfLogits) == "");
  const auto greedy = expected.at("greedy").values<std::int32_t>();
  CHECK(greedy_text(model, expected) == nn::Tokens(greedy.begin(), greedy.end()));
}

inline void check_is_golden(const run::TextModel& model, const std::string& golden = "hf_gpt2") {
  check_computes(model, expected_of(golden));
}

// Losses of some steps, within so much of each.
inline void check_fine_tuning(const run::TextModel& model, const SafeTensors& expected,
                              double most) {
  const Tensor& ids = expected.at("input_ids");
  const Tensor inputs = columns(ids, 0, ids.dim(1) - 1), targets = columns(ids, 1, ids.dim(1));
  optim::AdamW adamw(model.params.parameters(), {.beta2 = 0.95, .weight_decay = 0.1});
  for (const float loss : expected.at("fine_tuning").values<float>()) {
    Tape tape;
    const Tensor made = model.gpt.loss(inputs, targets);
    INFO(made.item() << " " << loss);
    CHECK(std::abs(made.item() - static_cast<double>(loss)) <= most * loss);
    tape.backward(made);
    adamw.step(1e-2, optim::measure_clipping(model.params.parameters(), 1.0).factor);
    adamw.zero_grad();
  }
}

// A copy of a golden folder that a test may change.
struct GoldenFolder {
  TempFolder temp;
  std::map<std::string, Tensor> tensors;
  explicit GoldenFolder(const std::string& golden = "hf_gpt2")
      : tensors(load_safetensors((golden_file(golden) / "model.safetensors").string()).tensors) {
    for (const char* name : {"config.json", "tokenizer.json"}) {
      std::filesystem::copy_file(golden_file(golden) / name, temp / name);
    }
  }
  void write(const std::map<std::string, Tensor>& to,
             const std::string& name = "model.safetensors") const {
    NamedTensors named(to.begin(), to.end());
    save_safetensors((temp / name).string(), named);
  }
  void configure(const std::string& key, const nlohmann::json& value) const {
    auto config = nlohmann::json::parse(TempFolder::get(temp / "config.json"));
    config[key] = value;
    temp.put("config.json", config.dump());
  }
  std::filesystem::path path() const { return temp / ""; }
};

}  // namespace tapegrad::testing
