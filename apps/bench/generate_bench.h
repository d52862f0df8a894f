#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tapegrad/autograd/kernels/cached_page.h"
#include "tapegrad/nn/decoder.h"

namespace tapegrad::bench {

struct GenerateBenchOptions {
  std::int64_t batch = 1;                         // texts side by side
  std::int64_t prompt = 64;                       // tokens of each prompt
  std::int64_t tokens = 64;                       // of each text, which are timed one by one
  std::optional<CacheType> cache = {};            // [nn::usual_cache()]
  std::optional<std::int64_t> prompt_chunk = {};  // tokens of prompts that a step reads [all]
  bool ops = false;                               // print where a token's time goes, too
  bool json = false;
};

// Prints how fast a quantised model reads prompts of random tokens and writes texts, and how near
// that comes to the rate at which memory can be read. Error if prompt and text do not fit the
// model.
void bench_generate(const nn::Decoder& model, const nn::Params& params, const std::string& name,
                    const GenerateBenchOptions& options);

}  // namespace tapegrad::bench
