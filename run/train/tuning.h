#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/describe.h"
#include "tapegrad/nn/make_decoder.h"

namespace tapegrad::run {

// Its section in config.json.
inline constexpr std::string_view kTuningSection = "tuning";

// What a run starts from, and which of its weights it trains.
struct TuningOptions {
  std::string started_from = {};               // the folder of a model; empty: new weights
  std::optional<std::string> checkpoint = {};  // of that folder
  std::vector<std::string> freeze = {};
  std::optional<std::int64_t> lora_rank = {};
  std::optional<double> lora_alpha = {};      // [lora_rank]
  std::vector<std::string> lora_target = {};  // [*attn*]

  // Their rank is 0 if there are none. An element of a list may have several patterns, with commas.
  nn::LoraOptions adapters() const;
  std::vector<std::string> frozen() const;
  // How a decoder is made with them.
  nn::DecoderMaking making(bool recompute) const {
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
    t("lora_target", o.lora_target, "the linear layers that get an adapter [*attn*]",
      {.value = "PATTERN…", .newer = true});
  }
};

}  // namespace tapegrad::run
