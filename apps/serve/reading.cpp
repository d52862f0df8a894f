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

// What whoever reads the request will take for its model, if that is a name.
std::optional<std::string> model_name_in(const Json& body) {
  const auto found = body.is_object() ? body.find("model") : body.end();
  if (!body.is_object() || found == body.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

WorkThread& Endpoints::lane_of(const Endpoint& endpoint, const std::string& body) {
  if (endpoint.list != nullptr) return *reading_threads_[3];
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
  const std::shared_ptr<Read> made(
      new Read{endpoint, visit.id, rng_.next32(), std::make_shared<IgnoredFields>(options_.strict),
               endpoint.list != nullptr ? std::string(request.path()) : request.body, visit.begin});
  const bool waits = submit(id, connection->client().to_string(), made);
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

// False if too many wait to be read.
bool Endpoints::submit(Engine::Id id, const std::string& client,
                       const std::shared_ptr<Read>& made) {
  return lane_of(made->endpoint, made->body)
      .submit(id, client, made->body.size(), [this, id, made] { read(id, made); });
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
    make(id, *made);
    listener_.run([this, id, made] {
      made->wanted.empty() ? end_reading(id, *made) : wait_for_model(id, made);
    });
  } catch (...) {  // no memory for a word: the client waits until it leaves
    --reading_;
  }
}

void Endpoints::make(Engine::Id id, Read& made) {
  try {
    look(made);
    if (made.endpoint.list != nullptr) {
      made.response = {.body = json_text(made.endpoint.list(models_, made.body))};
      return;
    }
    const Json body = parse_body(made.body);
    if (!made.model) {
      ModelSet::Found found = models_.find(model_name_in(body));
      made.model = std::move(found.model);
      made.wanted = made.model ? std::string() : std::move(found.name);
      if (!made.model) return;
    }
    // `made` is there until the answer ends, and would keep the text of the body.
    std::string().swap(made.body);
    const Asked asked{.model = made.model->served,
                      .id = made.id,
                      .new_seed = made.new_seed,
                      .reply = [this, id] { return reply_to(id); },
                      .ignored = made.ignored,
                      .look = [this, &made] { look(made); }};
    if (made.endpoint.call != nullptr) {
      made.response = {.body = json_text(made.endpoint.call(body, asked))};
    } else {
      made.job = made.endpoint.job(body, asked);
    }
  } catch (const std::exception& error) {
    made.response = told_refusal_of(error).response();
  }
}

// The model of a request is not loaded. It is read again when it is.
void Endpoints::wait_for_model(Engine::Id id, const std::shared_ptr<Read>& made) {
  const std::string wanted = std::exchange(made->wanted, {});
  const std::size_t most_bytes = options_.listen.limits.all_body_bytes;
  if (!pending_.contains(id)) return end_reading(id, *made);
  if (parked_ >= options_.max_reading || parked_bytes_ + made->body.size() > most_bytes) {
    ++refused_;
    made->response = queue_is_full(1).response();
    return end_reading(id, *made);
  }
  made->parked = true;
  ++parked_;
  parked_bytes_ += made->body.size();
  const auto then = [this, id, made](HeldModel model, const Refusal& why) {
    try {
      if (!model) made->response = why.response();
      made->model = std::move(model);
      listener_.run([this, id, made] { read_again(id, made); });
    } catch (...) {  // no memory for a word: the client waits until it leaves
    }
  };
  try {
    models_.load(wanted, then, [made] { return !made->left; });
  } catch (const std::exception& error) {
    unpark(*made);
    made->response = told_refusal_of(error).response();
    end_reading(id, *made);
  }
}

// True if a request was waiting for its model, and counts as such no more.
bool Endpoints::unpark(Read& made) {
  if (!std::exchange(made.parked, false)) return false;
  --parked_;
  parked_bytes_ -= made.body.size();
  return true;
}

void Endpoints::read_again(Engine::Id id, const std::shared_ptr<Read>& made) {
  if (!unpark(*made)) return;  // the client has left
  const auto pending = pending_.find(id);
  if (pending != pending_.end() && !made->response) {
    if (submit(id, pending->second.connection->client().to_string(), made)) return;
    ++refused_;
    made->response = queue_is_full(1).response();
  }
  end_reading(id, *made);
}

void Endpoints::end_reading(Engine::Id id, Read& made) {
  const auto pending = pending_.find(id);
  if (pending != pending_.end()) {  // the client is still there
    pending->second.ignored = made.ignored->header();
    log_.ignored(made.ignored->names());
    if (made.ignored->told_by_message()) log_.told_tools();
    try {
      if (!made.response) {
        pending->second.model = made.model;
        const auto seconds = made.model->engine.submit(id, std::move(made.job), made.begin);
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
  EngineState state = models_.state();
  state.waiting += reading_;
  state.refused += refused_;
  return state;
}

}  // namespace tapegrad::serve
