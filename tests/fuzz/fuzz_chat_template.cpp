// A chat template: it comes with a model, from anybody, and is a program.

#include "tapegrad/data/jinja/internal/template.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

using data::jinja::Value;

// The variables of templates. Small, so that an input's work is its own.
const std::vector<std::pair<std::string, Value>>& variables() {
  static const auto made = [] {
    const Json json = parse_json<Json>(
        R"({"messages": [{"role": "system", "content": " ä "}, {"role": "user", "content": "a\nb"},)"
        R"({"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",)"
        R"("arguments": {"x": 1.5, "y": [true]}}}]}], "tools": [{"name": "f"}],)"
        R"("add_generation_prompt": true, "bos_token": "<s>"})",
        16);
    std::vector<std::pair<std::string, Value>> all;
    for (const auto& [name, value] : json.items()) {
      all.emplace_back(name, data::jinja::value_of(value));
    }
    return all;
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const data::RenderLimits limits{
      .steps = 20'000, .text_bytes = 100'000, .memory_bytes = 4 << 20, .depth = 200};
  fuzz::accepts("", [&] {
    const data::jinja::Template chat(fuzz::text_of(data, size));
    const auto rendered = chat.render(variables(), limits);
    if (rendered.text.size() > limits.text_bytes) fuzz::finding("a text beyond the limit");
    for (const auto& [begin, end] : rendered.generated) {
      if (begin > end || end > rendered.text.size()) fuzz::finding("a part outside of the text");
    }
  });
  return 0;
}
