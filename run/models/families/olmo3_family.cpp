#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {
namespace {

// Scaled positions are those of blocks without the window.
void scale_full_blocks(nn::DecoderConfig& c) {
  const bool scales = c.rope_scaling != nn::RopeScalingKind::none && c.rope_factor != 1;
  c.rope_window_base = c.window > 0 && scales ? c.rope_base : 0;
}

}  // namespace

// OLMo 2 with a window in three of four blocks, whose positions are not scaled (OLMo Team, "Olmo
// 3", 2025, section 3.1). In GGUF it is an olmo2.
Family olmo3_family() {
  Family f = olmo2_family();
  f.name = "olmo3";
  f.model.window = 4096, f.model.window_pattern = "SSSL";
  f.follow = scale_full_blocks;
  f.hf.model_class = "Olmo3ForCausalLM";
  f.hf.base_class = "Olmo3Model";
  f.hf.window = HfFamily::Window::by_layer;
  f.hf.keys.push_back({"sliding_window", kWindows});
  f.gguf = {};
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
