#pragma once

#include <string>
#include <vector>

#include "tapegrad/nn/gpt.h"

namespace tapegrad::run {

// What a GGUF file calls a parameter of a model. llama.cpp turns neighbouring channels of a head
// where this project, as Hugging Face, turns channel i with i + D/2. For the architecture llama the
// rows of Q and K are exchanged instead: row 2i + j of a head there is row j·D/2 + i here.
struct GgufName {
  std::string ours, theirs;
  std::int64_t exchanged_heads = 0;  // so many heads' rows are exchanged
};

// gpt2, llama, qwen2 (biases of Q, K and V) or qwen3 (norms of Q and K).
std::string gguf_architecture(const nn::GPTConfig& config);

// All parameters of such a model. Those of gpt2 are those of GPT2Weights: with all biases.
std::vector<GgufName> gguf_names(const nn::GPTConfig& config, const std::string& architecture);

// The tables with a row for each token.
inline constexpr const char *kTokenTable = "token_embd.weight", *kHeadTable = "output.weight";

// Llama 3's scaling of rotary positions (RopeScaling in ops.h) stands in a file as a tensor: what
// it divides the frequency of each pair of channels by, of which there are channels_per_head() / 2.
// Files that are written here have these keys, too. Where a file does not have them, they are
// Llama 3's.
inline constexpr std::string_view kScaledArchitecture = "llama";  // which alone may have it
inline constexpr const char* kRopeDivisors = "rope_freqs.weight";
inline constexpr const char* kRopeFactor = "tapegrad.rope_factor";
inline constexpr const char* kRopeLowFreqFactor = "tapegrad.rope_low_freq_factor";
inline constexpr const char* kRopeHighFreqFactor = "tapegrad.rope_high_freq_factor";
inline constexpr const char* kRopeOriginalPositions = "tapegrad.rope_original_positions";
std::vector<float> rope_divisors(const nn::GPTConfig& config);

}  // namespace tapegrad::run
