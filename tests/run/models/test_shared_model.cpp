// The rule for threads in docs/building.md: those of a program share a model, its tokenizer and its
// masks.

#include <thread>

#include "tapegrad/run/models/json_mask.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

using namespace tapegrad;

namespace {

struct Uses {
  std::vector<data::Token> tokens;
  std::string text, json;
  std::vector<float> logits;
  bool operator==(const Uses&) const = default;
};

Uses use(const run::TextModel& model, run::JsonMasks& masks, std::uint64_t seed) {
  Uses uses;
  uses.tokens = model.tokenizer.encode("What'll it cost in 2027? Ünder 30 €, I'd say " +
                                       std::to_string(seed));
  uses.text = model.stream("Once", {.max_new_tokens = 20}, seed).text();
  const auto mask =
      masks.of_schema(R"({"type": "array", "items": {"type": "boolean"}, "maxItems": 3})");
  uses.json = model.stream("List:", {.max_new_tokens = 12, .mask = mask}, seed).text();
  Tape tape;  // of this thread: nothing of other threads is in it
  const Tensor logits =
      model.gpt(Tensor::from<std::int32_t>({1, static_cast<std::int32_t>(seed), 3}, {1, 3}));
  uses.logits.assign(logits.data<float>(), logits.data<float>() + logits.numel());
  return uses;
}

}  // namespace

TEST_CASE("threads that share a model get what each would get alone", "[models]") {
  const std::string weights = GENERATE("f32", "q8_0");
  const run::TextModel model = run::load_quantized(
      run::open_model(std::string(places::kSources) + "/tests/golden/hf_qwen3"), weights);
  constexpr std::uint64_t kThreads = 6;
  std::vector<Uses> alone, together(kThreads);
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    run::JsonMasks masks(model.tokenizer);
    alone.push_back(use(model, masks, i));
  }
  run::JsonMasks masks(model.tokenizer);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { together[i] = use(model, masks, i); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(together == alone);
  CHECK(alone[0].text != alone[1].text);
}
