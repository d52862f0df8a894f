#include <algorithm>

#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

void take_gated_delta_nets(Family& f) {
  f.mixer = 'D';
  f.model.mixer_pattern = "DDDA";
  f.model.conv_kernel = 4;
  f.model.delta_heads = 32, f.model.delta_key_heads = 16;
  f.model.delta_key_size = f.model.delta_value_size = 128;
  f.model.attn_gate = true;
  f.model.head_size = 256;
  f.model.norm = nn::NormKind::rms_plus;
  f.hf.window = HfFamily::Window::none;
  f.hf.turned_share = 0.25;
  std::erase_if(f.hf.keys, [](const FamilyKey& key) {
    return key.key == "partial_rotary_factor" || key.key == "use_sliding_window";
  });
  f.hf.set_absent({{"head_dim", 256}});
  f.hf.key("num_key_value_heads").absent_is_not_null = false;
  f.hf.parts_left_out = {
      "mtp."};  // a part that predicts more tokens, which transformers leaves out
  f.hf.keys.push_back(
      {.key = "attn_output_gate", .only = true, .direction = FamilyKey::Direction::in});
  const std::vector<FamilyKey> own = {{"layer_types", kMixers},
                                      {"linear_conv_kernel_dim", "conv_kernel"},
                                      {"linear_key_head_dim", "delta_key_size"},
                                      {"linear_value_head_dim", "delta_value_size"},
                                      {"linear_num_key_heads", "delta_key_heads"},
                                      {"linear_num_value_heads", "delta_heads"}};
  f.hf.keys.insert(f.hf.keys.end(), own.begin(), own.end());
  f.gguf = {};
}

}  // namespace tapegrad::run
