#include <algorithm>
#include <atomic>
#include <utility>

#include "tapegrad/apps/serve/endpoint.h"
#include "tapegrad/apps/serve/endpoints.h"
#include "tapegrad/base/terminal.h"

// From a request with a body to its answer: a reading thread makes a job of it, or an answer; the
// engine's thread makes the answer to a job; the listener's sends it.

namespace tapegrad::serve {
namespace {

constexpr int kJsonDepth = 64;
constexpr int kClientLeft = 499;                       // as nginx logs it
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

// The reply that jobs get: it passes everything on to the listener's thread.
class Endpoints::PostedReply : public Reply {
 public:
  PostedReply(Endpoints& endpoints, Engine::Id id) : endpoints_(endpoints), id_(id) {}
  void send(http::Response response, const Usage& usage) override {
    post([response = std::move(response), usage](Endpoints& e, Engine::Id id) mutable {
      e.send(id, std::move(response), usage);
    });
  }
  void event(std::string data) override {
    post([data = std::move(data)](Endpoints& e, Engine::Id id) mutable {
      e.event(id, std::move(data));
    });
  }
  void end(std::string last, int status, const Usage& usage) override {
    post([last = std::move(last), status, usage](Endpoints& e, Engine::Id id) mutable {
      e.end_stream(id, std::move(last), status, usage);
    });
  }

 private:
  template <class Call>
  void post(Call call) {
    endpoints_.listener_.run([&endpoints = endpoints_, id = id_, call = std::move(call)]() mutable {
      call(endpoints, id);
    });
  }

  Endpoints& endpoints_;
  const Engine::Id id_;
};

// A reading thread's input and its result.
struct Endpoints::Read {
  const Endpoint& endpoint;
  Asked asked;
  std::string body;
  Engine::Clock::time_point begin;
  std::optional<http::Response> response = {};
  std::unique_ptr<Job> job = {};   // without a response
  std::atomic<bool> left = false;  // nobody waits for it
};

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
                    .reply = [this, id] { return std::make_unique<PostedReply>(*this, id); },
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

http::Headers Endpoints::Pending::headers() const {
  http::Headers headers = {{"X-Request-Id", visit.id}};
  if (!ignored.empty()) headers.emplace_back("X-Tapegrad-Ignored", ignored);
  return headers;
}

Endpoints::Pending Endpoints::take(std::map<Engine::Id, Pending>::iterator place) {
  Pending pending = std::move(place->second);
  waiting_.erase(pending.connection.get());
  pending_.erase(place);
  return pending;
}

void Endpoints::send(Engine::Id id, http::Response response, const Usage& usage) {
  const auto place = pending_.find(id);
  if (place == pending_.end()) return;
  Pending pending = take(place);
  if (log_.keeps_texts()) pending.visit.answer = response.body;
  log_.write(pending.visit, response.status, usage);
  const http::Headers about = pending.headers();
  response.headers.insert(response.headers.end(), about.begin(), about.end());
  pending.connection->send(std::move(response));
}

void Endpoints::event(Engine::Id id, std::string data) {
  const auto place = pending_.find(id);
  if (place == pending_.end()) return;
  Pending& pending = place->second;
  if (!std::exchange(pending.streams, true)) {
    pending.connection->begin_events(pending.headers());
  }
  if (log_.keeps_texts()) pending.visit.answer += data;
  pending.connection->send_event(std::make_shared<const std::string>(std::move(data)));
}

void Endpoints::end_stream(Engine::Id id, std::string last, int status, const Usage& usage) {
  event(id, std::move(last));
  const auto place = pending_.find(id);
  if (place == pending_.end()) return;
  const Pending pending = take(place);
  log_.write(pending.visit, status, usage);
  pending.connection->end_events();
}

void Endpoints::ended(http::Connection* connection) {
  const auto waiting = waiting_.find(connection);
  if (waiting == waiting_.end()) return;
  const Engine::Id id = waiting->second;
  const Pending pending = take(pending_.find(id));
  pending.read->left = true;
  const auto drops = [id](const auto& lane) { return lane->cancel(id); };
  if (std::ranges::any_of(reading_threads_, drops)) --reading_;
  engine_.cancel(id);
  log_.write(pending.visit, kClientLeft);
}

}  // namespace tapegrad::serve
