#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/http/listener.h"
#include "tapegrad/apps/serve/access_log.h"
#include "tapegrad/apps/serve/api/completions.h"
#include "tapegrad/apps/serve/work_thread.h"

namespace tapegrad::serve {

struct EndpointOptions {
  http::ListenerOptions listen = {};
  std::vector<std::string> names = {};  // of this server beside its address, for Host headers
  std::vector<std::string> keys = {};   // clients must have one of them; none: anybody may ask
  // Other sites whose pages may ask: "https://app.example".
  std::vector<std::string> origins = {};
  bool strict = false;  // fields that nothing knows are refused
  LogForm log = LogForm::lines;
  bool log_texts = false;
  std::size_t max_reading = 64;        // requests that wait for a reading thread
  std::chrono::seconds max_time{600};  // of these, as of the engine's jobs
};

// All that the server answers: what OpenAI's interface has, and the page. It listens while it
// lives. Bodies of requests are read by threads of their own, since templates and schemas may take
// long: what is large, and what the model's template has to write, holds up nothing else. What they
// want of the model comes from the engine's thread, and all else from the listener's.
class Endpoints : public http::Handler {
 public:
  // The engine must outlive it.
  Endpoints(const ServedModel& model, Engine& engine, const EndpointOptions& options);
  ~Endpoints() override;

  const http::Listener& listener() const { return listener_; }
  // From now on, every request but those under way is refused: the server is ending.
  void end();
  // Refuses all requests that have no answer now, soon. For when the engine runs no more, behind
  // end().
  void refuse_rest();
  // True if all that was to be sent has been.
  bool all_is_sent();
  // True if there is nothing to do, here and for the engine.
  bool idle() const { return reading_ == 0 && engine_.idle(); }
  // True if the listener has ended by itself.
  bool broken() const { return broken_; }

  std::optional<http::Response> refuses(const http::Request& request) override;
  std::optional<http::Response> answer(
      const http::Request& request, const std::shared_ptr<http::Connection>& connection) override;
  http::Response refusal(int status, const std::string& why) const override;
  http::Headers headers_for(const std::string& origin) const override;
  void ended(http::Connection* connection) override;
  void breaks(const char* why) noexcept override;

 private:
  struct Endpoint;
  class PostedReply;
  // A reading thread's input and its result.
  struct Read {
    const Endpoint& endpoint;
    Asked asked;
    std::string body;
    Engine::Clock::time_point begin;
    std::optional<http::Response> response = {};
    std::unique_ptr<Job> job = {};   // without a response
    std::atomic<bool> left = false;  // nobody waits for it
  };
  // A request that is to be read, or that the engine works on.
  struct Pending {
    std::shared_ptr<http::Connection> connection;
    Visit visit;
    std::shared_ptr<Read> read;
    std::string ignored = {};  // the header's value, once it was read
    bool streams = false;

    http::Headers headers() const;
  };

  static const std::vector<Endpoint>& table();
  static const Endpoint* find(const http::Request& request);
  static Refusal told_refusal_of(const std::exception& error);
  std::optional<Refusal> refusal_of(const http::Request& request) const;
  bool has_key(const std::string& authorization) const;
  bool allows(const std::string& origin) const;
  bool is_preflight(const http::Request& request) const;
  http::Response preflight(const Endpoint& endpoint);
  std::optional<Refusal> read_later(const Endpoint& endpoint, const http::Request& request,
                                    const std::shared_ptr<http::Connection>& connection,
                                    Visit& visit);
  void read(Engine::Id id, const std::shared_ptr<Read>& made);
  void make(Read& made) const;
  void look(const Read& made) const;
  WorkThread& lane_of(const Endpoint& endpoint, const std::string& body);
  void end_reading(Engine::Id id, Read& made);
  EngineState state() const;
  std::unique_ptr<Reply> reply_to(Engine::Id id);
  void send(Engine::Id id, http::Response response, const Usage& usage);
  void event(Engine::Id id, std::string data);
  void end_stream(Engine::Id id, std::string last, int status, const Usage& usage);
  Pending take(std::map<Engine::Id, Pending>::iterator place);

  const ServedModel& model_;
  Engine& engine_;
  const EndpointOptions options_;
  AccessLog log_;
  Rng rng_;  // of ids, and of seeds where clients name none
  Engine::Id next_id_ = 1;
  std::map<Engine::Id, Pending> pending_;
  std::map<http::Connection*, Engine::Id> waiting_;
  std::int64_t refused_ = 0;               // requests for which a reading thread had no room
  std::atomic<std::int64_t> reading_ = 0;  // requests that the reading threads have
  // Takes no more requests; has failed; lets nothing go on that is being read.
  std::atomic<bool> ending_ = false, broken_ = false, stops_ = false;
  http::Listener listener_;  // ends the connections, which still know what is above
  // Of small requests, of small ones that the model's template has to write, and of large ones.
  std::array<std::unique_ptr<WorkThread>, 3> reading_threads_;
};

}  // namespace tapegrad::serve
