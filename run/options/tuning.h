#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/option_schema.h"
#include "tapegrad/nn/make_decoder.h"

namespace tapegrad::run {

// Its section in config.json.
inline constexpr std::string_view kTuningSection = "tuning";

// The start of a run, and the weights that it trains. Of its adapters, these are the options as a
// call gives them and config.json keeps them, null where nothing is said; nn::LoraOptions are what
// they come to, by adapters(), and have a value for everything.
struct TuningOptions {
  std::string started_from = {};               // the folder of a model; empty: new weights
  std::optional<std::string> checkpoint = {};  // of that folder
  std::vector<std::string> freeze = {};
  std::optional<std::int64_t> lora_rank = {};
  std::optional<double> lora_alpha = {};      // [lora_rank]
  std::vector<std::string> lora_target = {};  // [*attn*]
  nn::LoraScaling lora_scaling = nn::LoraScaling::lora;
  // How the model's weights lie in memory: see quantized_weights.h. Then they stay in the
  // file that they are from, which the run refers to by started_from, and whose contents it knows
  // by their fingerprint. Nothing: they are f32, and a part of the run.
  std::optional<std::string> weights = {};
  std::string base = {};  // fingerprint_of(), in tensor_views.h

  // The file that the first adapters are from: see adapters/adapter.h.
  std::optional<std::string> adapter = {};

  // Their rank is 0 if there are none. An element of a list may have several patterns, with commas.
  nn::LoraOptions adapters() const;
  void take(const nn::LoraOptions& adapters);
  std::vector<std::string> frozen() const;
  // How a decoder is made with them.
  nn::DecoderBuildOptions build_options(bool recompute) const {
    return {.adapters = adapters(), .frozen = frozen(), .recompute = recompute};
  }
  void validate() const;  // Error, naming the option

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("started_from", o.started_from, "the folder of the model that the run started from",
      {.option = false, .newer = true});
    t("checkpoint", o.checkpoint, "the checkpoint of it whose weights these were",
      {.option = false, .newer = true});
    t("freeze", o.freeze,
      "do not train the parameters with these names, such as wte* or 'h.[0-3].*'",
      {.value = "PATTERN…", .newer = true});
    t("lora_rank", o.lora_rank,
      "train LoRA adapters of this rank; all other weights stay as they are",
      {.least = 1, .most = 1 << 20, .value = "R", .newer = true});
    t("lora_alpha", o.lora_alpha, "the adapters count alpha / rank times [--lora-rank]",
      {.least = 0, .most = 1 << 20, .value = "X", .newer = true});
    t("lora_target", o.lora_target,
      "the linear layers that get an adapter; all: every one but the head [*attn*]",
      {.value = "all|PATTERN…", .newer = true});
    t("lora_scaling", o.lora_scaling,
      "factor of adapters: alpha / rank, or alpha / √rank (rslora), which suits large ranks",
      {.newer = true});
    t("weights", o.weights,
      "how the weights beside adapters lie in memory: stored, as the files have them, or q8_0, "
      "q4_0, "
      "bf16 …; they stay in the model's own file, and the run keeps adapters alone",
      {.value = "stored|TYPE", .newer = true});
    t("adapter", o.adapter,
      "begin with these adapters, in place of new ones: a folder of PEFT's, or a GGUF of "
      "llama.cpp's",
      {.value = "PATH", .newer = true});
    t("base", o.base, "the fingerprint of these weights", {.option = false, .newer = true});
  }
};

}  // namespace tapegrad::run
