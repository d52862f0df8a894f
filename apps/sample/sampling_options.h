#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/nn/generation/pick_token.h"

namespace tapegrad::sampling {

// How tokens are chosen: options of `sample` and `chat`, and fields of requests to `serve`, by this
// table alone. Its values lie in `generate`, which must outlive it.
struct SamplingOptions {
  nn::GenerateOptions& generate;
  // Lists, as command lines have them; requests have JSON of their own.
  std::vector<std::string> stop_token_ids = {}, logit_bias = {};

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    constexpr double kMostTokens = INT32_MAX;
    nn::GenerateOptions& g = o.generate;
    t("temperature", g.temperature,
      "above 1: more surprising; below 1: more predictable; 0: as --greedy", {.least = 0});
    t("top_k", g.top_k, "choose among the K likeliest tokens only; 0: among all",
      {.least = -1, .most = kMostTokens, .value = "K"});
    t("top_p", g.top_p, "choose among the likeliest tokens that together have probability X",
      {.least = 0, .most = 1, .value = "X"});
    t("min_p", g.min_p, "keep tokens with at least X times the highest probability",
      {.least = 0, .most = 1, .value = "X"});
    t("typical_p", g.typical_p,
      "choose among the tokens nearest to the expected surprise that together have probability X",
      {.least = 0, .most = 1, .value = "X"});
    t("repetition_penalty", g.repetition_penalty,
      "above 1: what the text has already, its prompt included, becomes less likely",
      {.least = nn::kLeastPenalty, .most = nn::kMostPenalty, .value = "X"});
    t("presence_penalty", g.presence_penalty,
      "what the text has already behind its prompt becomes less likely: X is taken from its logit",
      {.least = -nn::kMostAddedPenalty, .most = nn::kMostAddedPenalty, .value = "X"});
    t("frequency_penalty", g.frequency_penalty, "the same, X for each time that the text has it",
      {.least = -nn::kMostAddedPenalty, .most = nn::kMostAddedPenalty, .value = "X"});
    t("min_tokens", g.min_tokens, "no token ends a text before it has so many",
      {.least = 0, .most = kMostTokens});
    t("stop_token_ids", o.stop_token_ids, "further tokens that end a text, by their numbers",
      {.value = "TOKEN…"});
    t("logit_bias", o.logit_bias,
      "tokens by their numbers, and what is added to the logit of each: 13=-100",
      {.value = "TOKEN=X…"});
  }

  // Takes the lists over into `generate`. Error for what is none, with what the user calls the
  // list.
  void read_lists(std::string_view stop_name = "--stop-token-ids",
                  std::string_view bias_name = "--logit-bias") const;
};

// Tokens that end a text, beside those that do so already.
void add_ends(nn::GenerateOptions& options, std::span<const std::int32_t> ends);

// A temperature of 0 is greedy, and a top_k of 0 or -1 is all tokens, as other programs have it.
inline void settle_zeros(nn::GenerateOptions& options) {
  if (options.temperature == 0) {
    options.greedy = true;
    options.temperature = 1;
  }
  if (options.top_k && *options.top_k <= 0) options.top_k.reset();
}

}  // namespace tapegrad::sampling
