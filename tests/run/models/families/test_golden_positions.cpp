// Positions of families: windows with a base of their own, YaRN, LongRoPE.

#include <cstdint>
#include <map>

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/tests/run/models/families/golden_family.h"
#include "tapegrad/tests/run/models/gguf_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("blocks with a window whose base is that of the others say it in GGUF", "[families]") {
  const GoldenFamily golden("gemma3");
  const run::TextModel model = changed(golden, [](nn::DecoderConfig& c) {
    c.rope_window_base = 0, c.rope_scaling = nn::RopeScalingKind::none, c.rope_factor = 1;
  });
  const fs::path file = golden.folder / "model.gguf";
  export_to("gguf", model, file);
  CHECK(std::get<double>(GgufFile(file).keys().at("gemma3.rope.freq_base_swa")) == 5000);
  const Tensor& ids = golden.expected.at("input_ids");
  CHECK(difference(run::load(file).gpt(ids), model.gpt(ids), 0, 0) == "");
}

TEST_CASE("a factor of YaRN's attention is refused in GGUF where windows have a base of their own",
          "[families]") {
  const GoldenFamily golden("gemma3");
  const run::TextModel model = changed(golden, [](nn::DecoderConfig& c) {
    c.rope_scaling = nn::RopeScalingKind::yarn, c.rope_factor = 2, c.rope_original_positions = 16;
  });
  const fs::path file = golden.folder / "model.gguf";
  export_to("gguf", model, file);
  Edited edited(file);
  CHECK(edited.complaint() == "");
  edited.keys["gemma3.rope.scaling.attn_factor"] = 1.25;
  CHECK_THAT(edited.complaint(), ContainsSubstring("attn_factor 1.25 is not supported, only 1"));
}

TEST_CASE("LongRoPE's angles are those of the longest text that is asked for", "[families]") {
  const GoldenFamily golden("phi3_longrope");  // three original positions
  run::TextModel model = golden.load();
  model.gpt.rule_out({});
  const Tensor ids = columns(golden.expected.at("input_ids"), 0, 3);
  const Tensor whole = select(model.gpt(ids), 1, 2);
  for (const std::int64_t most : {3, 12}) {
    nn::KVCache cache(most);
    const Tensor last = model.gpt.last_logits(ids, cache);
    CHECK((difference(last, whole, 1e-5, 2e-5) == "") == (most == 3));
  }
  // One that becomes longer is the same alone, beside a short one, and without a cache.
  const nn::Tokens prompt = {5, 6};
  const auto text = [&](std::int64_t tokens, bool kv_cache) {
    return nn::stream(model.gpt, prompt,
                      {.max_new_tokens = tokens, .greedy = true, .kv_cache = kv_cache})
        .tokens();
  };
  nn::Generation generation(model.gpt);
  const auto short_id = generation.add(prompt, {.max_new_tokens = 2, .greedy = true}, Rng(1));
  const auto long_id = generation.add(prompt, {.max_new_tokens = 9, .greedy = true}, Rng(1));
  std::map<nn::Generation::Id, nn::Tokens> texts;
  while (generation.step()) {
    for (const auto id : {short_id, long_id}) {
      for (const auto& token : generation.take(id).tokens) texts[id].push_back(token.token);
    }
  }
  CHECK(texts[short_id] == text(2, true));
  CHECK(texts[long_id] == text(9, true));
  CHECK(texts[short_id] == text(2, false));
  CHECK(texts[long_id] == text(9, false));
}
