#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/kernels/cached_page.h"
#include "tapegrad/nn/generation/pick_token.h"

namespace tapegrad::sampling {

struct SampleOptions {
  std::int64_t num_samples = 1;
  nn::GenerateOptions generate{.max_new_tokens = 500, .temperature = 0.8, .top_k = 200};
  std::vector<std::string> stops = {};  // texts that end a sample, and are no part of it
  bool ignore_eos = false, logprobs = false, json = false;
  std::int64_t batch = 16;              // texts that run at once
  std::optional<CacheType> cache = {};  // [nn::usual_cache()]
  // Texts are JSON: any object, or what fits the schema in this file.
  bool json_object = false;
  std::optional<std::string> json_schema = {};
};

}  // namespace tapegrad::sampling
