#include "tapegrad/apps/watch/server.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "tapegrad/apps/http/listener.h"
#include "tapegrad/apps/watch/inspect_child.h"
#include "tapegrad/apps/watch/routes.h"
#include "tapegrad/apps/watch/talk_child.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::watch {
namespace {

namespace asio = boost::asio;

constexpr int kLowestPriority = 19;
constexpr std::size_t kMostStreams = 32;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;  // of one run's files at a time
constexpr std::chrono::milliseconds kReadInterval{250}, kLookInterval{2000}, kChildInterval{20};
// A read of all runs is divided into turns of that length, between which requests are answered.
constexpr std::chrono::milliseconds kTurn{20}, kFinishTime{500};
constexpr std::chrono::seconds kPulse{10};

void lower_priority() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  const sched_param none{};
  ::sched_setscheduler(static_cast<pid_t>(thread), SCHED_BATCH, &none);
  ::setpriority(PRIO_PROCESS, thread, kLowestPriority);
}

http::ListenerOptions listener_options(const ServerOptions& o) {
  http::Limits limits;
  if (o.patience) limits.read_time = limits.write_time = limits.event_time = *o.patience;
  return {o.host, o.port, o.or_next_port, limits};
}

}  // namespace

class Server::Thread : public http::Handler {
 public:
  explicit Thread(const ServerOptions& options)
      : host_(options.host),
        talk_port_(options.talk_port),
        runs_(options.runs, options.folders),
        at_each_read_(options.at_each_read),
        finish_time_(options.patience ? *options.patience : kFinishTime),
        has_lowest_priority_(options.has_lowest_priority),
        listener_(listener_options(options), *this) {
    read_files();
    look_for_runs();
    pulse();
    listener_.begin();
  }
  ~Thread() override {
    listener_.stop();
    child_.reset();
    inspected_for_.reset();
    talk_.reset();
    const auto last = std::exchange(talk_for_, {});
  }

  // See Server::finish().
  void finish() {
    const auto told = std::make_shared<std::promise<bool>>();
    auto pages = told->get_future();
    const auto begin = std::chrono::steady_clock::now();
    listener_.run([this, told] {
      runs_.end_training();
      read_rest();
      told->set_value(!streams_.empty());
    });
    // A page that gets this event asks for the list once more.
    if (pages.wait_until(begin + finish_time_) == std::future_status::ready && pages.get()) {
      std::this_thread::sleep_until(begin + kFinishTime);
    }
  }

  const http::Listener& listener() const { return listener_; }
  const std::string& host() const { return host_; }

  std::optional<Response> answer(const Request& request,
                                 const std::shared_ptr<http::Connection>& connection) override {
    Answer answer = watch::answer(request, runs_, host_, ChildProgram::beside().has_value());
    if (const auto* job = std::get_if<Inspection>(&answer)) {
      return begin_inspection(connection, *job);
    }
    if (const auto* job = std::get_if<Talk>(&answer)) return begin_talk(connection, *job);
    if (std::holds_alternative<Events>(answer)) return begin_events(connection);
    return std::get<Response>(std::move(answer));
  }
  Response refusal(int status, const std::string& why) const override {
    return watch::refusal(status, why);
  }
  void ended(http::Connection* connection) override {
    streams_.erase(connection);
    std::erase_if(talk_for_, [&](const auto& one) { return one.get() == connection; });
    if (inspected_for_.get() == connection) {
      child_.reset();
      const auto last = std::exchange(inspected_for_, nullptr);
    }
  }
  void begins() override {
    if (has_lowest_priority_) lower_priority();
  }
  void breaks(const char* why) noexcept override {
    try {
      print_error(fmt::format("note: the page has ended: {}\n", why));
    } catch (...) {  // there is no memory, even for that
    }
  }

 private:
  std::optional<Response> begin_events(const std::shared_ptr<http::Connection>& connection) {
    if (streams_.size() >= kMostStreams) return watch::refusal(503, "too many pages are open");
    streams_.insert(connection.get());
    connection->begin_events();
    connection->send_event(std::make_shared<const std::string>("retry: 1000\n\n"));
    return std::nullopt;
  }
  std::optional<Response> begin_inspection(const std::shared_ptr<http::Connection>& connection,
                                           const Inspection& job) {
    if (child_) {
      return watch::refusal(503, "another text is being looked at: try again in a moment");
    }
    const auto program = ChildProgram::beside();
    if (!program) return watch::refusal(503, "the program tapegrad is not beside this one");
    child_ = std::make_unique<InspectChild>(*program, job.run, job.text);
    inspected_for_ = connection;
    look_at_child();
    return std::nullopt;
  }

  // One model at a time is there to talk to. That of another run ends with its conversations.
  std::optional<Response> begin_talk(const std::shared_ptr<http::Connection>& connection,
                                     const Talk& job) {
    if (!talk_for_.empty() && talk_->run() != job.run) {
      return watch::refusal(503, "another model is being opened: try again in a moment");
    }
    if (!talk_ || talk_->run() != job.run || talk_->ended()) {
      const auto program = ChildProgram::beside();
      if (!program) return watch::refusal(503, "the program tapegrad is not beside this one");
      talk_.reset();
      talk_ = std::make_unique<TalkChild>(*program, job.run, talk_port_);
    }
    talk_for_.push_back(connection);
    if (talk_for_.size() == 1) look_at_talk();
    return std::nullopt;
  }

  void look_at_talk() {
    http::after(talk_timer_, kChildInterval, [this] {
      if (talk_for_.empty()) return;
      const auto answer = talk_->look();
      if (!answer) return look_at_talk();
      for (const auto& connection : std::exchange(talk_for_, {})) {
        connection->send({.status = answer->status, .body = answer->body});
      }
    });
  }

  void tell(const std::string& text) {
    const auto shared = std::make_shared<const std::string>(text);
    // One that is dropped here leaves streams_ later: see ended().
    for (http::Connection* stream : streams_) stream->send_event(shared);
  }

  // Reads a piece of a run's files, and tells what is new. Whether there is more.
  bool read_run(std::size_t id, RunFiles& run) {
    const RunFiles::News news = run.read(kReadBytes);
    if (news.restarted) tell(event("reset", fmt::format("{{\"run\":{}}}", id)));
    for (const RunFiles::Line& line : news.lines) {
      tell(event(
          line.of_layers ? "layers" : "metrics",
          fmt::format("{{\"run\":{},\"line\":{},\"values\":{}}}", id, line.number, line.values)));
    }
    changed_ = changed_ || news.changed;
    return news.more;
  }

  void tell_changes() {
    if (std::exchange(changed_, false)) tell(event("runs", "{}"));
  }

  // Reads a piece of each run's files, a turn at a time, and comes back at once if there is more.
  void read_files() {
    if (at_each_read_) at_each_read_();
    const auto end = std::chrono::steady_clock::now() + kTurn;
    auto at = runs_.runs().lower_bound(next_run_);
    for (; at != runs_.runs().end() && std::chrono::steady_clock::now() < end; ++at) {
      more_ = read_run(at->first, *at->second) || more_;
    }
    const bool all = at == runs_.runs().end();
    next_run_ = all ? 0 : at->first;
    const bool again = !all || std::exchange(more_, false);
    tell_changes();
    http::after(read_timer_, again ? std::chrono::milliseconds(0) : kReadInterval,
                [this] { read_files(); });
  }

  void read_rest() {
    const auto end = std::chrono::steady_clock::now() + finish_time_ / 2;
    bool more = true;
    while (more && std::chrono::steady_clock::now() < end) {
      more = false;
      for (const auto& [id, run] : runs_.runs()) more = read_run(id, *run) || more;
    }
    tell_changes();
  }

  void look_for_runs() {
    if (runs_.look()) tell(event("runs", "{}"));
    http::after(look_timer_, kLookInterval, [this] { look_for_runs(); });
  }

  void pulse() {
    tell(": still here\n\n");
    // One that ended by itself is a process until somebody takes its end.
    if (talk_ && talk_for_.empty() && talk_->ended()) talk_.reset();
    http::after(pulse_timer_, kPulse, [this] { pulse(); });
  }

  void look_at_child() {
    http::after(child_timer_, kChildInterval, [this] {
      if (!child_) return;
      const auto answer = child_->look();
      if (!answer) return look_at_child();
      child_.reset();
      const auto connection = std::exchange(inspected_for_, nullptr);
      connection->send({.status = answer->status, .body = answer->body});
    });
  }

  std::string host_;
  int talk_port_;
  RunList runs_;
  std::function<void()> at_each_read_;
  std::chrono::milliseconds finish_time_;  // how long reading the last lines may take
  bool has_lowest_priority_;
  std::size_t next_run_ = 0;
  bool more_ = false, changed_ = false;  // of the runs before the next one
  std::set<http::Connection*> streams_;
  std::unique_ptr<InspectChild> child_;
  std::shared_ptr<http::Connection> inspected_for_;
  std::unique_ptr<TalkChild> talk_;
  std::vector<std::shared_ptr<http::Connection>> talk_for_;  // while it opens the model
  http::Listener listener_;  // ends the connections, which still know what is above
  asio::steady_timer read_timer_{listener_.context()}, look_timer_{listener_.context()},
      pulse_timer_{listener_.context()}, child_timer_{listener_.context()},
      talk_timer_{listener_.context()};
};

Server::Server(const ServerOptions& options) : thread_(std::make_unique<Thread>(options)) {}
Server::~Server() = default;

void Server::finish() { thread_->finish(); }

int Server::port() const { return thread_->listener().port(); }

std::string Server::url() const { return thread_->listener().url(); }

std::vector<std::string> Server::notes() const {
  const http::Listener& listener = thread_->listener();
  std::vector<std::string> notes;
  if (const std::string note = listener.port_note(); !note.empty()) notes.push_back(note);
  const std::string& host = thread_->host();
  if (http::is_public(host)) {
    notes.push_back(fmt::format(
        "warning: everybody who reaches {} reads these runs, and can ask the model", host));
  }
  if (listener.is_everywhere()) {
    notes.push_back(fmt::format(
        "note: on another computer, the URL has this computer's address in place of {}", host));
  }
  return notes;
}

}  // namespace tapegrad::watch
