#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tapegrad/base/random.h"
#include "tapegrad/nn/generation/token_mask.h"

namespace tapegrad::nn {

struct Decoder;
using Tokens = std::vector<std::int32_t>;

// The part that a model sees of a text that is longer than block_size.
enum class Context {
  exact,  // the last block_size tokens, computed anew for each token
  // The first kSinks tokens, without which models lose the thread (Xiao et al., "Efficient
  // Streaming Language Models with Attention Sinks", 2023), and the newest ones: whenever
  // block_size tokens are full, the older half of the others is dropped. Rotary models keep what
  // they have computed, which has still seen what is dropped; learned positions compute the rest
  // anew.
  shift,
};
inline constexpr std::array<std::string_view, 2> kContextNames = {"exact", "shift"};
inline std::span<const std::string_view> names_of(Context) { return kContextNames; }
inline constexpr std::int64_t kSinks = 4;
inline constexpr std::int64_t kMostLookup = 64;
inline constexpr double kLeastPenalty = 0.01, kMostPenalty = 100;
inline constexpr double kMostAddedPenalty = 2;  // of programs, as in OpenAI's interface

// How one text goes on, and where it ends.
struct GenerateOptions {
  std::int64_t max_new_tokens = 200;
  bool greedy = false;       // always the likeliest token; temperature and top_k do not matter then
  double temperature = 1.0;  // above 0: logits are divided by it
  std::optional<std::int64_t> top_k = {};  // sample among the k likeliest tokens only
  // Nucleus sampling, top-p (Holtzman et al., 2020, "The Curious Case of Neural Text Degeneration",
  // section 3.1): among the likeliest tokens that together have at least this probability. (0, 1]
  double top_p = 1;
  // Among the tokens with at least this share of the likeliest one's probability. [0, 1]
  double min_p = 0;
  // Locally typical sampling (Meister et al., 2023, "Locally Typical Sampling", section 4): among
  // the tokens whose surprise, −log of their probability, is nearest to the expected one, and that
  // together have at least this probability. (0, 1]
  double typical_p = 1;
  // Divides positive logits of tokens that the text has already, and multiplies negative ones
  // (Keskar et al., 2019, "CTRL", section 4.1). From kLeastPenalty to kMostPenalty; 1: none.
  double repetition_penalty = 1;
  // Are taken from the logits of tokens that the text has behind its prompt, as OpenAI's interface
  // has it: once, and once for each time that it has the token.
  double presence_penalty = 0, frequency_penalty = 0;
  // Numbers that are added to the logits of tokens, before all of the above: those of f32.
  std::map<std::int32_t, double> logit_bias = {};
  // Which tokens may come next, or null: all. It is as before the first token, and stays so: each
  // text has a clone of its own.
  std::shared_ptr<const TokenMask> mask = {};
  Tokens stop_tokens = {};  // each ends the text, and is not part of it
  // None of these ends it before so many new tokens. At most max_new_tokens.
  std::int64_t min_tokens = 0;
  bool logprobs = false;          // also find each token's log probability: see NewToken
  std::int64_t top_logprobs = 0;  // and so many of the likeliest tokens in its place
  // Also find the log probabilities of the prompt's tokens, and so many of the likeliest tokens in
  // place of each: see Generation::Taken. Needs kv_cache and a prompt of at most block_size tokens.
  std::optional<std::int64_t> prompt_logprobs = {};
  bool kv_cache = true;  // keep keys and values of what was seen, or compute them for each token
  // Speculative decoding: propose up to so many tokens from what the text has already, and check
  // all of them in one pass: see Lookup. The text stays the same, to the bit. Needs kv_cache.
  std::int64_t lookup = 0;
  // Speculative decoding: propose draft_tokens tokens with this smaller model, which has the same
  // tokens and must outlive the Generation, and check them in one pass: see Draft. The text stays
  // the same, to the bit. Needs kv_cache, and no lookup.
  const Decoder* draft = nullptr;
  std::int64_t draft_tokens = 3;     // 3 and the newest one are as many as kernels multiply at once
  Context context = Context::exact;  // shift needs kv_cache
  // The number of one of the adapters that the model offers: see RowAdapters. None: none of these.
  std::optional<std::int64_t> adapter = {};

  void validate() const;  // throws Error for invalid values
};

// The token that `logits` (V) and the options give after the tokens of `text`, of which the first
// `prompt_tokens` are its prompt. What an option rules out is decided in the order of Hugging
// Face's transformers: bias, repetition penalty, presence and frequency penalty, temperature,
// top_k, top_p, min_p, typical_p, each among what the ones before it have left. The options' mask
// and min_tokens are the caller's part: what they forbid is −∞ in the logits, and a token is left.
// Errors: BrokenLogits; logit_bias names a token that is not one of V.
std::int32_t pick_token(std::vector<float> logits, const GenerateOptions& options, Rng& rng,
                        std::span<const std::int32_t> text = {}, std::int64_t prompt_tokens = 0);

}  // namespace tapegrad::nn
