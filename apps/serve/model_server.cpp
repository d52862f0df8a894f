#include "tapegrad/apps/serve/model_server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/memory/available_memory.h"

namespace tapegrad::serve {
namespace {

using Clock = std::chrono::steady_clock;

// The longest wait for clients to take what they were sent.
constexpr std::chrono::seconds kSendTime{5};
constexpr std::chrono::milliseconds kLookAgain{20};

void wait_until_sent(Endpoints& endpoints) {
  const auto limit = Clock::now() + kSendTime;
  while (!endpoints.all_is_sent() && Clock::now() < limit) {
    std::this_thread::sleep_for(kLookAgain);
  }
}

// True if stdin has ended. Drops what comes there.
bool stdin_has_ended() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, 0) <= 0) return false;
  char bytes[256];
  return ::read(STDIN_FILENO, bytes, sizeof bytes) <= 0;
}

}  // namespace

EnginePlan plan_engine(const nn::DecoderConfig& config, const ServerBounds& bounds) {
  const std::int64_t wanted = std::min(bounds.ctx.value_or(config.block_size), config.block_size);
  const CacheType cache = bounds.cache.value_or(CacheType::f32);
  std::int64_t bytes = nn::cache_bytes_per_position(config, cache);
  if (bounds.draft != nullptr) bytes += nn::cache_bytes_per_position(*bounds.draft);
  const auto per_position = static_cast<std::uint64_t>(bytes);
  const auto sequences = static_cast<std::uint64_t>(bounds.max_sequences);
  const auto room_for = [&](std::int64_t tokens) {
    return static_cast<std::uint64_t>(nn::cached_positions(tokens, config, bounds.draft));
  };
  std::uint64_t positions = sequences * room_for(wanted);
  if (bounds.cache_bytes) {
    positions = std::min(positions, *bounds.cache_bytes / per_position);
  } else if (const auto memory = available_memory()) {
    positions = std::min(positions, static_cast<std::uint64_t>(memory->bytes / 2) / per_position);
  }
  const std::uint64_t least = room_for(2);
  check(positions >= least,
        "the memory for keys and values has room for {} tokens, each of which takes {} bytes{}: "
        "give --cache-memory more",
        positions, per_position,
        least > 2 ? fmt::format(", and a text that of {} at least", least) : "");
  std::int64_t context = std::min(wanted, static_cast<std::int64_t>(positions));
  if (room_for(context) > positions) context = static_cast<std::int64_t>(positions / least * least);
  return {context,
          {.limits = {.max_sequences = bounds.max_sequences,
                      .max_positions = static_cast<std::int64_t>(positions),
                      .cache = cache},
           .max_waiting = bounds.max_waiting,
           .max_time = bounds.max_time}};
}

int work_until_interrupted(const Work& work, Endpoints& endpoints, const Ending& ending) {
  std::optional<Clock::time_point> limit;
  work([&] {
    if (ending.with_stdin && stdin_has_ended()) interrupt("stdin has ended");
    if (!interrupted()) return false;
    if (!limit) {
      limit = Clock::now() + ending.grace;
      endpoints.end();
    }
    return endpoints.broken() || endpoints.idle() || Clock::now() > *limit;
  });
  endpoints.refuse_rest();
  wait_until_sent(endpoints);
  return endpoints.broken() ? 1 : 0;
}

}  // namespace tapegrad::serve
