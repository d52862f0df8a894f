#include "tapegrad/run/models/families/internal/family_keys.h"

namespace tapegrad::run {
namespace {

// llama.cpp cannot leave a cap or the window out.
Value needed(const Value& value) {
  check(number_of(value) > 0, "GGUF's gemma2 needs a window, attention_softcap and logit_softcap");
  return value;
}

}  // namespace

// Gemma 3 with soft caps in place of norms of queries and keys, a window in each second block, and
// one base for all (Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size",
// 2024, section 2).
Family gemma2_family() {
  Family f = gemma3_family();
  f.name = "gemma2";
  f.model.qk_norm = false;
  f.model.attention_softcap = 50, f.model.logit_softcap = 30;
  f.model.block_size = 8192;
  f.model.rope_base = 1e4, f.model.rope_window_base = 0;
  f.model.window_pattern = "SL";
  f.hf.model_class = "Gemma2ForCausalLM";
  f.hf.base_class = "Gemma2Model";
  f.hf.set_absent({{"vocab_size", 256000}});
  f.hf.key("attn_logit_softcapping") = {
      .key = "attn_logit_softcapping", .option = "attention_softcap", .null = 0.0};
  f.gguf.architecture = "gemma2";
  f.gguf.follow = scale_by_width<46>;
  std::erase_if(f.gguf.keys, [](const FamilyKey& key) { return key.key == "rope.freq_base_swa"; });
  f.gguf.keys.push_back({"attn_logit_softcapping", "attention_softcap"});
  for (FamilyKey& key : f.gguf.keys) {
    const bool is_cap = key.option == "attention_softcap" || key.option == "logit_softcap";
    if (is_cap || key.option == "window") key.theirs = needed;
  }
  return f;
}

}  // namespace tapegrad::run
