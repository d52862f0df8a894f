#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tapegrad/nn/name_map.h"

namespace tapegrad::testing {

// The names that a widespread PyTorch tutorial gives the parameters of its encoder–decoder
// ("transformer.encoder.layers.0.attention.wq.weight"): with this map, a Transformer is read from
// the tutorial's state_dict.
// "fnn" in the encoder and "ffn" in the decoder are the tutorial's spellings.
inline nn::NameMap tutorial_names() {
  using Suffixes = std::vector<std::pair<std::string, std::string>>;
  const Suffixes norm = {{"weight", "a_2"}, {"bias", "b_2"}};
  const Suffixes attention = {{"W_query.weight", "wq.weight"},
                              {"W_key.weight", "wk.weight"},
                              {"W_value.weight", "wv.weight"},
                              {"c_proj.weight", "wo.weight"}};
  const Suffixes mlp = {{"c_fc.weight", "w1.weight"}, {"c_proj.weight", "w2.weight"}};
  const std::string encoder = "transformer.encoder.layers.#.",
                    decoder = "transformer.decoder.layers.#.";
  return nn::NameMap({
      {"wte.", "transformer.wte."},
      {"pe", "transformer.wpe.pe"},
      {"encoder.h.#.ln_1.", encoder + "attention_norm.", norm},
      {"encoder.h.#.attn.", encoder + "attention.", attention},
      {"encoder.h.#.ln_2.", encoder + "fnn_norm.", norm},
      {"encoder.h.#.mlp.", encoder + "feed_forward.", mlp},
      {"encoder.ln_f.", "transformer.encoder.norm.", norm},
      {"decoder.h.#.ln_1.", decoder + "attention_norm_1.", norm},
      {"decoder.h.#.attn.", decoder + "mask_attention.", attention},
      {"decoder.h.#.ln_2.", decoder + "attention_norm_2.", norm},
      {"decoder.h.#.cross_attn.", decoder + "attention.", attention},
      {"decoder.h.#.ln_3.", decoder + "ffn_norm.", norm},
      {"decoder.h.#.mlp.", decoder + "feed_forward.", mlp},
      {"decoder.ln_f.", "transformer.decoder.norm.", norm},
  });
}

}  // namespace tapegrad::testing
