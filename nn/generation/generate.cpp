#include "tapegrad/nn/generation/generate.h"

#include <optional>

namespace tapegrad::nn {
namespace {

using OnToken = std::function<bool(std::size_t, std::int32_t)>;

// One of several texts that is being made.
struct Running {
  std::size_t text;
  Generation::Id id;
};

// Passes on what a step has made of a text. Returns how many tokens that were if on_token wants no
// more.
std::optional<std::int64_t> pass_on(const Running& running, const std::vector<NewToken>& tokens,
                                    const OnToken& on_token, Tokens& text) {
  std::int64_t passed = 0;
  for (const NewToken& t : tokens) {
    text.push_back(t.token);
    ++passed;
    if (on_token && !on_token(running.text, t.token)) return passed;
  }
  return std::nullopt;
}

}  // namespace

Tokens generate(const Decoder& gpt, const Tokens& prompt, const GenerateOptions& options, Rng& rng,
                const std::function<bool(std::int32_t)>& on_token) {
  const auto on_indexed = [&](std::size_t, std::int32_t token) { return on_token(token); };
  return generate(gpt, std::vector<Tokens>{prompt}, options, std::span(&rng, 1),
                  on_token ? OnToken(on_indexed) : OnToken())[0];
}

std::vector<Tokens> generate(const Decoder& gpt, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options, std::span<Rng> rngs,
                             const std::function<bool(std::size_t, std::int32_t)>& on_token) {
  check(rngs.size() == prompts.size(), "{} prompts need as many generators, not {}", prompts.size(),
        rngs.size());
  Generation generation(gpt, {.kept_positions = 0});
  std::vector<Tokens> texts(prompts.size());
  std::vector<Running> running;
  for (std::size_t next = 0; next < prompts.size() || !running.empty();) {
    while (next < prompts.size() && generation.has_room(std::ssize(prompts[next]), options)) {
      running.push_back({next, generation.add(prompts[next], options, rngs[next])});
      ++next;
    }
    generation.step();
    std::erase_if(running, [&](const Running& r) {
      const Generation::Taken taken = generation.take(r.id);
      if (const auto left = pass_on(r, taken.tokens, on_token, texts[r.text])) {
        // The sequence's own generator may be ahead.
        skip_tokens(rngs[r.text], options, gpt.config.vocab_size, *left);
      } else {
        rngs[r.text] = generation.rng(r.id);
        if (!taken.end) return false;
      }
      generation.remove(r.id);
      return true;
    });
  }
  return texts;
}

}  // namespace tapegrad::nn
