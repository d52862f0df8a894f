#include <atomic>
#include <utility>

#include "tapegrad/apps/serve/endpoint.h"
#include "tapegrad/apps/serve/endpoints.h"
#include "tapegrad/base/terminal.h"

// From a request with a body to its job: a reading thread makes a job of it, or an answer; the
// engine's thread makes the answer to a job; the listener's sends it (replies.cpp).

namespace tapegrad::serve {
namespace {

constexpr int kJsonDepth = 64;
constexpr std::size_t kLarge = std::size_t{64} << 10;  // bytes of a body

Json parse_body(const std::string& body) {
  try {
    return parse_json<Json>(body, kJsonDepth);
  } catch (const Error& error) {
    throw Refused(
        {.message = fmt::format("the body is not JSON: {}", error.what()), .code = "invalid_json"});
  }
}

Refusal queue_is_full(std::int64_t seconds) {
  return {.status = 429,
          .message = "too many requests are waiting: try again later",
          .code = "queue_full",
          .retry_after = seconds};
}

}  // namespace

WorkThread& Endpoints::lane_of(const Endpoint& endpoint, const std::string& body) {
  return *reading_threads_[body.size() > kLarge ? 2 : endpoint.renders ? 1 : 0];
}

// Ends what is being made of a request, by Refused.
void Endpoints::look(const Read& made) const {
  if (stops_ || made.left) throw Refused(server_ends());
  if (Engine::Clock::now() - made.begin > options_.max_time) {
    throw Refused(too_late(options_.max_time));
  }
}

// Gives a request to a reading thread.
std::optional<Refusal> Endpoints::read_later(const Endpoint& endpoint, const http::Request& request,
                                             const std::shared_ptr<http::Connection>& connection,
                                             Visit& visit) {
  if (ending_) return server_ends();  // its header may have come before the end began
  const Engine::Id id = next_id_++;
  visit.id = fmt::format("{:016x}", rng_.next64());
  if (log_.keeps_texts()) visit.request = request.body;
  const Asked asked{.model = model_,
                    .id = visit.id,
                    .new_seed = rng_.next32(),
                    .reply = [this, id] { return reply_to(id); },
                    .ignored = std::make_shared<IgnoredFields>(options_.strict),
                    .look = {}};
  const std::shared_ptr<Read> made(new Read{endpoint, asked, request.body, visit.begin});
  made->asked.look = [this, read = made.get()] { look(*read); };
  const bool waits = lane_of(endpoint, request.body)
                         .submit(id, connection->client().to_string(), request.body.size(),
                                 [this, id, made] { read(id, made); });
  if (!waits) {
    ++refused_;
    return queue_is_full(1);
  }
  ++reading_;
  // First: ended() takes what waits from there.
  pending_.emplace(id, Pending{.connection = connection, .visit = visit, .read = made});
  waiting_[connection.get()] = id;
  return std::nullopt;
}

// The refusal that answers a request after an exception; stderr gets the server's own faults.
Refusal Endpoints::told_refusal_of(const std::exception& error) {
  const Refusal why = serve::refusal_of(error);
  const bool is_fault = why.status >= 500 && dynamic_cast<const Refused*>(&error) == nullptr;
  if (is_fault) print_error(fmt::format("error: {}\n", error.what()));
  return why;
}

// For a reading thread.
void Endpoints::read(Engine::Id id, const std::shared_ptr<Read>& made) {
  try {
    make(*made);
    listener_.run([this, id, made] { end_reading(id, *made); });
  } catch (...) {  // no memory for a word: the client waits until it leaves
    --reading_;
  }
}

void Endpoints::make(Read& made) const {
  try {
    made.asked.look();
    // `made` is there until the answer ends, and would keep the text of the body.
    const Json body = parse_body(std::exchange(made.body, {}));
    if (made.endpoint.call != nullptr) {
      made.response = {.body = json_text(made.endpoint.call(body, made.asked))};
    } else {
      made.job = made.endpoint.job(body, made.asked);
    }
  } catch (const std::exception& error) {
    made.response = told_refusal_of(error).response();
  }
}

void Endpoints::end_reading(Engine::Id id, Read& made) {
  const auto pending = pending_.find(id);
  if (pending != pending_.end()) {  // the client is still there
    pending->second.ignored = made.asked.ignored->header();
    log_.ignored(made.asked.ignored->names());
    if (made.asked.ignored->told_by_message()) log_.told_tools();
    try {
      if (!made.response) {
        const auto seconds = engine_.submit(id, std::move(made.job), made.begin);
        if (seconds) made.response = queue_is_full(*seconds).response();
      }
    } catch (const std::exception& error) {
      made.response = told_refusal_of(error).response();
    }
    if (made.response) send(id, std::move(*made.response), {});
  }
  --reading_;  // from here on, the engine knows of it
}

EngineState Endpoints::state() const {
  EngineState state = engine_.state();
  state.waiting += reading_;
  state.refused += refused_;
  return state;
}

}  // namespace tapegrad::serve
