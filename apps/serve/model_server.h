#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "tapegrad/apps/serve/endpoints.h"

namespace tapegrad::serve {

struct ServerBounds {
  std::int64_t max_sequences = 16;                // texts that are made at once
  std::optional<std::int64_t> ctx = {};           // tokens of a text [the model's]
  std::optional<std::uint64_t> cache_bytes = {};  // of keys and values [half of what is free]
  std::optional<CacheType> cache = {};            // how they are stored [f32]
  // Of a draft, which has keys and values, too.
  const nn::DecoderConfig* draft = nullptr;
  std::int64_t max_waiting = 64;       // requests
  std::chrono::seconds max_time{600};  // of an answer
};
struct Ending {
  std::chrono::seconds grace{30};  // for running answers
  bool with_stdin = false;         // when stdin ends, and not at a signal alone
};

// How many tokens a text may have, and what the engine may take: bounded by the model, by `ctx` and
// by the memory for the caches. Error if not one text of at least 2 tokens fits.
struct EnginePlan {
  std::int64_t context;
  EngineOptions engine;
};
EnginePlan plan_engine(const nn::DecoderConfig& config, const ServerBounds& bounds);

// Works in this thread until a signal comes and what runs then is answered, or the time for that is
// over. Returns the exit code. `work` works, or waits, until what it is given is true; then nothing
// is left to do.
using Work = std::function<void(const std::function<bool()>& ends)>;
int work_until_interrupted(const Work& work, Endpoints& endpoints, const Ending& ending);

}  // namespace tapegrad::serve
