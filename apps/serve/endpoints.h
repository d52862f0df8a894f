#pragma once

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
#include "tapegrad/apps/serve/models/model_set.h"
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
// want of a model comes from its engine's thread, and all else from the listener's. What wants a
// model that has to be loaded first waits beside all of them.
class Endpoints : public http::Handler {
 public:
  // The models must outlive it, and load none when it ends.
  Endpoints(ModelSet& models, const EndpointOptions& options);
  ~Endpoints() override;

  const http::Listener& listener() const { return listener_; }
  // From now on, every request but those under way is refused: the server is ending.
  void end();
  // Refuses all requests that have no answer now, soon. For when the engine runs no more, behind
  // end().
  void refuse_rest();
  // True if all that was to be sent has been.
  bool all_is_sent();
  // True if there is nothing to do, here and for the engines.
  bool idle() const { return reading_ == 0 && models_.idle(); }
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
    std::string id;  // see Asked
    std::uint64_t new_seed;
    std::shared_ptr<IgnoredFields> ignored;
    std::string body;  // or the path of a request without one
    Engine::Clock::time_point begin;
    std::string wanted = {};  // the model that has to be loaded before it is read again
    HeldModel model = {};     // the job refers to it
    std::optional<http::Response> response = {};
    std::unique_ptr<Job> job = {};   // without a response
    bool parked = false;             // it waits for its model; for the listener's thread
    std::atomic<bool> left = false;  // nobody waits for it
  };
  // A request that is to be read, or that the engine works on.
  struct Pending {
    std::shared_ptr<http::Connection> connection;
    Visit visit;
    std::shared_ptr<Read> read;
    HeldModel model = {};      // whose engine works on it
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
  void make(Engine::Id id, Read& made);
  void look(const Read& made) const;
  WorkThread& lane_of(const Endpoint& endpoint, const std::string& body);
  bool submit(Engine::Id id, const std::string& client, const std::shared_ptr<Read>& made);
  void wait_for_model(Engine::Id id, const std::shared_ptr<Read>& made);
  void read_again(Engine::Id id, const std::shared_ptr<Read>& made);
  bool unpark(Read& made);
  void end_reading(Engine::Id id, Read& made);
  EngineState state() const;
  std::unique_ptr<Reply> reply_to(Engine::Id id);
  void send(Engine::Id id, http::Response response, const Usage& usage);
  void event(Engine::Id id, std::string data);
  void end_stream(Engine::Id id, std::string last, int status, const Usage& usage);
  Pending take(std::map<Engine::Id, Pending>::iterator place);

  ModelSet& models_;
  const EndpointOptions options_;
  AccessLog log_;
  Rng rng_;  // of ids, and of seeds where clients name none
  Engine::Id next_id_ = 1;
  std::map<Engine::Id, Pending> pending_;
  std::map<http::Connection*, Engine::Id> waiting_;
  std::int64_t refused_ = 0;                   // requests for which a reading thread had no room
  std::size_t parked_ = 0, parked_bytes_ = 0;  // requests whose model is being loaded
  std::atomic<std::int64_t> reading_ = 0;      // requests that the reading threads have
  // Takes no more requests; has failed; lets nothing go on that is being read.
  std::atomic<bool> ending_ = false, broken_ = false, stops_ = false;
  http::Listener listener_;  // ends the connections, which still know what is above
  // Of small requests, of small ones that the model's template has to write, of large ones; and of
  // lists of models, if these read files.
  std::vector<std::unique_ptr<WorkThread>> reading_threads_;
};

}  // namespace tapegrad::serve
