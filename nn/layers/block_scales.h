#pragma once

#include <string>
#include <string_view>

#include "tapegrad/nn/layers/mamba2.h"

namespace tapegrad::nn {

// Numbers that parts of blocks with attention and a Mamba-2 side by side are multiplied by: those
// of maximal update parametrisation in Falcon-H1 (Zuo et al., "Falcon-H1: A Family of Hybrid-Head
// Language Models Redefining Efficiency and Performance", 2025).
struct BlockScales {
  double attention_in = 1, key = 1, attention_out = 1;
  double mamba_in = 1, mamba_out = 1;
  // Of the gate z, x, B, C and the steps dt that in_proj makes: "1,0.5,1,1,2". Empty: 1 each.
  std::string mamba_parts = {};
  double gate = 1, mlp = 1;  // of the feed-forward's gate, before its activation, and its output
  bool operator==(const BlockScales&) const = default;
  // mamba_in and mamba_parts as one: of z, x, B, C and dt. Error unless mamba_parts are five
  // numbers.
  MambaScales of_mamba() const;
  // The first option that is not as in a new config; empty: there is none.
  std::string_view first_given() const {
    if (attention_in != 1) return "attention_in_scale";
    if (key != 1) return "key_scale";
    if (attention_out != 1) return "attention_out_scale";
    if (mamba_in != 1) return "mamba_in_scale";
    if (mamba_out != 1) return "mamba_out_scale";
    if (!mamba_parts.empty()) return "mamba_part_scales";
    if (gate != 1) return "gate_scale";
    return mlp != 1 ? "mlp_scale" : "";
  }

  template <class Self, class Table>
  static void describe(Self& c, Table& t) {
    const auto scale = [&](const char* name, auto& member, const char* help) {
      t(name, member, help, {.least = 1e-6, .most = 1e6, .newer = true});
    };
    scale("attention_in_scale", c.attention_in,
          "multiply the input of attention by X, in blocks with attention and a Mamba-2");
    scale("key_scale", c.key, "multiply its keys by X");
    scale("attention_out_scale", c.attention_out, "multiply its output by X");
    scale("mamba_in_scale", c.mamba_in, "multiply the input of the Mamba-2 beside it by X");
    scale("mamba_out_scale", c.mamba_out, "multiply the output of that Mamba-2 by X");
    t("mamba_part_scales", c.mamba_parts,
      "multiply what its first projection makes by five numbers, for z, x, B, C and dt: "
      "1,0.5,1,1,2",
      {.newer = true});
    scale("gate_scale", c.gate, "multiply the gate of these blocks' feed-forward by X");
    scale("mlp_scale", c.mlp, "multiply the output of that feed-forward by X");
  }
};

}  // namespace tapegrad::nn
