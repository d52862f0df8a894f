#include <algorithm>
#include <utility>

#include "tapegrad/apps/serve/endpoints.h"

// From what the engine makes to the client: everything goes through the listener's thread.

namespace tapegrad::serve {
namespace {

constexpr int kClientLeft = 499;  // as nginx logs it

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

std::unique_ptr<Reply> Endpoints::reply_to(Engine::Id id) {
  return std::make_unique<PostedReply>(*this, id);
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
  if (unpark(*pending.read)) {
    std::string().swap(pending.read->body);
    --reading_;
  }
  if (std::ranges::any_of(reading_threads_, drops)) --reading_;
  if (pending.model) pending.model->engine.cancel(id);
  log_.write(pending.visit, kClientLeft);
}

}  // namespace tapegrad::serve
