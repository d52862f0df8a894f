#pragma once

#include <cstdint>

#include "tapegrad/nn/generation/pick_token.h"

namespace tapegrad::gpt {

// The texts that train-gpt shows.
inline constexpr const char* kSampleHeadings[] = {"\nsample:", "\nanother sample:"};
inline constexpr std::int64_t kSampleTokens = 300, kContinuationTokens = 50;
inline const nn::GenerateOptions kSampling = {
    .max_new_tokens = kSampleTokens, .temperature = 0.8, .top_k = 200};

}  // namespace tapegrad::gpt
