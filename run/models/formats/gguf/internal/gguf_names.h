#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// A parameter of a model, what a GGUF file calls it, and how it differs there: see GgufTensorName.
struct GgufName : GgufTensorName {
  std::int64_t exchanged_heads = 0;  // heads whose rows are exchanged
  std::int64_t part = 0, parts = 1;  // the file has this one of so many equal parts of ours
  std::int64_t groups = 1;           // of a vector
  bool moves() const { return place != nullptr; }  // rows or columns stand elsewhere
  bool moves_columns() const { return moves() && head_of_columns != nullptr; }
  // True if one tensor of the file is one of ours, but for rows of exchanged heads.
  bool is_whole() const { return parts == 1 && !moves(); }
};
// All parameters of such a model, in the order of files.
std::vector<GgufName> gguf_names(const Family& family, const nn::DecoderConfig& config);

// Rows of so many heads as files have them, and a stored tensor of such rows as ours: see
// GgufTensorName. None are exchanged for 0 heads. Error, with the label, if there are no such
// heads.
Tensor with_heads_exchanged(const Tensor& t, std::int64_t heads);
StoredTensor with_heads_back(const StoredTensor& stored, std::int64_t heads);

// The tables with a row for each token.
inline constexpr const char *kTokenTable = "token_embd.weight", *kHeadTable = "output.weight";

// Scaled rotary positions, linear ones and YaRN's, behind the name of the architecture. llama.cpp
// takes a factor without a type for a linear one. What queries and keys are multiplied by is
// yarn_attention_factor() of the factor times attn_factor.
inline constexpr const char *kRopeScalingType = ".rope.scaling.type",
                            *kRopeScalingFactor = ".rope.scaling.factor",
                            *kRopeScalingPositions = ".rope.scaling.original_context_length",
                            *kRopeScalingAttention = ".rope.scaling.attn_factor";
// Keys of YaRN's that llama.cpp's converter writes, and that llama.cpp passes over, but for some
// with architectures of which GgufFamily::takes_yarn_keys is true: it computes what these values
// say.
inline constexpr std::string_view kYarnLogMultiplier = ".rope.scaling.yarn_log_multiplier",
                                  kYarnExtFactor = ".rope.scaling.yarn_ext_factor",
                                  kYarnBetaFast = ".rope.scaling.yarn_beta_fast",
                                  kYarnBetaSlow = ".rope.scaling.yarn_beta_slow";
inline constexpr std::pair<std::string_view, double> kPassedYarnKeys[] = {
    {kYarnLogMultiplier, 0},
    {kYarnExtFactor, 1},
    {kYarnBetaFast, 32},
    {kYarnBetaSlow, 1},
};
// LongRoPE's factors, and how a file calls the scaling. llama.cpp multiplies queries and keys by
// attn_factor alone, and takes the long factors where its context is longer than the original one.
inline constexpr const char *kLongRopeType = "longrope",
                            *kShortFactors = "rope_factors_short.weight",
                            *kLongFactors = "rope_factors_long.weight";
// Llama 3's scaling of rotary positions (RopeScaling in ops.h) stands in a file as a tensor: what
// it divides the frequency of each pair of channels by, of which there are channels_per_head() / 2.
// Files that are written here have these keys, too. Where a file does not have them, they are
// Llama 3's, or else numbers that make its divisors.
inline constexpr const char* kRopeDivisors = "rope_freqs.weight";
inline constexpr const char* kRopeFactor = "tapegrad.rope_factor";
inline constexpr const char* kRopeLowFreqFactor = "tapegrad.rope_low_freq_factor";
inline constexpr const char* kRopeHighFreqFactor = "tapegrad.rope_high_freq_factor";
inline constexpr const char* kRopeOriginalPositions = "tapegrad.rope_original_positions";
std::vector<float> rope_divisors(const nn::DecoderConfig& config);
// Sets the low and the high factor to those with which rope_divisors() are these, for a config with
// all other numbers, if there are such.
void set_rope_factors(const std::vector<float>& divisors, nn::DecoderConfig& config);

}  // namespace tapegrad::run
