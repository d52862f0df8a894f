#include "tapegrad/apps/watch/server.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "tapegrad/apps/watch/connection.h"
#include "tapegrad/base/blocked_signals.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::watch {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

constexpr int kNextPorts = 20, kLowestPriority = 19;
constexpr std::size_t kMostConnections = 128, kMostStreams = 32;
constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;  // under way, except for one
constexpr std::size_t kReadBytes = std::size_t{1} << 20;         // of one run's files at a time
constexpr std::chrono::milliseconds kReadInterval{250}, kLookInterval{2000}, kChildInterval{20};
// A read of all runs is divided into turns of that length, between which requests are answered.
constexpr std::chrono::milliseconds kTurn{20}, kFinishTime{500};
constexpr std::chrono::seconds kPulse{10};

constexpr std::string_view kBusy =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

void lower_priority() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  const sched_param none{};
  ::sched_setscheduler(static_cast<pid_t>(thread), SCHED_BATCH, &none);
  ::setpriority(PRIO_PROCESS, thread, kLowestPriority);
}

asio::ip::address address_of(const std::string& host) {
  Failure failure;
  const auto address = asio::ip::make_address(host == "localhost" ? kThisComputer : host, failure);
  check(!failure,
        "'{}' is no address to listen at: {} is this computer alone, 0.0.0.0 all that "
        "reach it",
        host, kThisComputer);
  return address;
}

}  // namespace

class Server::Thread : public ConnectionOwner {
 public:
  explicit Thread(const ServerOptions& options)
      : host_(options.host),
        wanted_(options.port),
        runs_(options.runs, options.folders),
        at_each_read_(options.at_each_read) {
    listen(options);
    accept();
    read_files();
    look_for_runs();
    pulse();
    const BlockedSignals blocked;
    thread_ = std::thread([this] {
      lower_priority();
      try {
        context_.run();
      } catch (const std::exception& error) {
        end_page(error.what());
      } catch (...) {
        end_page("an unknown error");
      }
    });
  }
  ~Thread() override {
    context_.stop();
    thread_.join();
    child_.reset();
    inspected_for_.reset();
  }

  // See Server::finish().
  void finish() {
    const auto told = std::make_shared<std::promise<bool>>();
    auto pages = told->get_future();
    const auto end = std::chrono::steady_clock::now() + kFinishTime;
    asio::post(context_, [this, told] {
      runs_.end_training();
      read_rest();
      told->set_value(!streams_.empty());
    });
    // A page that is told asks for the list once more.
    if (pages.wait_until(end) == std::future_status::ready && pages.get()) {
      std::this_thread::sleep_until(end);
    }
  }

  int port() const { return port_; }
  int wanted_port() const { return wanted_; }
  const std::string& host() const { return host_; }

  Answer answer(const Request& request) override {
    return watch::answer(request, runs_, host_, InspectChild::program().has_value());
  }
  bool begin_events(Connection* connection) override {
    if (streams_.size() >= kMostStreams) return false;
    streams_.insert(connection);
    return true;
  }
  std::optional<Response> begin_inspection(const std::shared_ptr<Connection>& connection,
                                           const Inspection& job) override {
    if (child_) return refusal(503, "another text is being looked at: try again in a moment");
    const auto program = InspectChild::program();
    if (!program) return refusal(503, "the program inspect is not beside this one");
    child_ = std::make_unique<InspectChild>(*program, job.run, job.text);
    inspected_for_ = connection;
    look_at_child();
    return std::nullopt;
  }
  bool begin_answer(std::size_t bytes) override {
    if (answer_bytes_ > 0 && answer_bytes_ + bytes > kMostAnswerBytes) return false;
    answer_bytes_ += bytes;
    return true;
  }
  void end_answer(std::size_t bytes) override { answer_bytes_ -= bytes; }
  void ended(Connection* connection) override {
    connections_.erase(connection);
    streams_.erase(connection);
    if (inspected_for_.get() == connection) {
      child_.reset();
      const auto last = std::exchange(inspected_for_, nullptr);
    }
  }

 private:
  void end_page(const char* why) noexcept {
    try {
      Failure ignored;
      acceptor_.close(ignored);
      for (Connection* connection : connections_) connection->close();
      print_error(fmt::format("note: the page has ended: {}\n", why));
    } catch (...) {  // there is no memory, even for that
    }
  }

  void listen(const ServerOptions& options) {
    const asio::ip::address address = address_of(options.host);
    const int tries = options.or_next_port && options.port != 0 ? kNextPorts + 1 : 1;
    Failure failure;
    for (int i = 0; i < tries; ++i) {
      if (open({address, static_cast<unsigned short>(options.port + i)}, failure)) {
        port_ = acceptor_.local_endpoint().port();
        return;
      }
      if (failure != asio::error::address_in_use) break;
    }
    check(failure != asio::error::address_in_use,
          "port {} is taken, by another page perhaps: choose another port, or 0 for any free one",
          options.port);
    fail("cannot listen at {}, port {}: {}", options.host, options.port, failure.message());
  }

  bool open(const tcp::endpoint& place, Failure& failure) {
    acceptor_.close(failure);
    if (acceptor_.open(place.protocol(), failure)) return false;
    acceptor_.set_option(tcp::acceptor::reuse_address(true), failure);
    if (acceptor_.bind(place, failure)) return false;
    return !acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  }

  void accept() {
    acceptor_.async_accept([this](Failure failure, tcp::socket socket) {
      if (failure == asio::error::operation_aborted) return;
      if (failure) {  // too many files are open, say
        after(accept_timer_, kReadInterval, [this] { accept(); });
        return;
      }
      if (connections_.size() < kMostConnections) {
        serve(std::move(socket));
      } else {
        socket.non_blocking(true, failure);
        socket.write_some(asio::buffer(kBusy), failure);
      }
      accept();
    });
  }

  void serve(tcp::socket socket) {
    Failure ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const auto connection = std::make_shared<Connection>(std::move(socket), *this);
    connections_.insert(connection.get());
    connection->read();
  }

  template <class Timer, class Then>
  static void after(Timer& timer, std::chrono::milliseconds time, const Then& then) {
    timer.expires_after(time);
    timer.async_wait([then](Failure failure) {
      if (!failure) then();
    });
  }

  void tell(const std::string& text) {
    const auto shared = std::make_shared<const std::string>(text);
    // One that is dropped here leaves streams_ later: see ended().
    for (Connection* stream : streams_) stream->send_event(shared);
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
    after(read_timer_, again ? std::chrono::milliseconds(0) : kReadInterval,
          [this] { read_files(); });
  }

  void read_rest() {
    const auto end = std::chrono::steady_clock::now() + kFinishTime / 2;
    bool more = true;
    while (more && std::chrono::steady_clock::now() < end) {
      more = false;
      for (const auto& [id, run] : runs_.runs()) more = read_run(id, *run) || more;
    }
    tell_changes();
  }

  void look_for_runs() {
    if (runs_.look()) tell(event("runs", "{}"));
    after(look_timer_, kLookInterval, [this] { look_for_runs(); });
  }

  void pulse() {
    tell(": still here\n\n");
    after(pulse_timer_, kPulse, [this] { pulse(); });
  }

  void look_at_child() {
    after(child_timer_, kChildInterval, [this] {
      if (!child_) return;
      const auto answer = child_->look();
      if (!answer) return look_at_child();
      child_.reset();
      const auto connection = std::exchange(inspected_for_, nullptr);
      connection->send({.status = answer->status, .body = answer->body});
    });
  }

  std::string host_;
  int wanted_, port_ = 0;
  RunList runs_;
  std::function<void()> at_each_read_;
  std::size_t next_run_ = 0;
  bool more_ = false, changed_ = false;          // of the runs before the next one
  std::set<Connection*> connections_, streams_;  // the second of the first
  std::size_t answer_bytes_ = 0;
  std::unique_ptr<InspectChild> child_;
  std::shared_ptr<Connection> inspected_for_;
  asio::io_context context_{1};  // ends the connections, which still know what is above
  tcp::acceptor acceptor_{context_};
  asio::steady_timer accept_timer_{context_}, read_timer_{context_}, look_timer_{context_},
      pulse_timer_{context_}, child_timer_{context_};
  std::thread thread_;
};

Server::Server(const ServerOptions& options) : thread_(std::make_unique<Thread>(options)) {}
Server::~Server() = default;

void Server::finish() { thread_->finish(); }

int Server::port() const { return thread_->port(); }

std::string Server::url() const {
  const std::string& host = thread_->host();
  const bool is_long = host.find(':') != host.npos;
  return fmt::format("http://{}{}{}:{}/", is_long ? "[" : "", host, is_long ? "]" : "", port());
}

std::vector<std::string> Server::notes() const {
  std::vector<std::string> notes;
  if (thread_->wanted_port() != 0 && port() != thread_->wanted_port()) {
    notes.push_back(
        fmt::format("note: port {} is taken, by another page perhaps", thread_->wanted_port()));
  }
  const std::string& host = thread_->host();
  if (!asio::ip::make_address(host == "localhost" ? kThisComputer : host).is_loopback()) {
    notes.push_back(fmt::format(
        "warning: everybody who reaches {} reads these runs, and can ask the model", host));
    if (asio::ip::make_address(host).is_unspecified()) {
      notes.push_back(fmt::format(
          "note: on another computer, the URL has this computer's address in place of {}", host));
    }
  }
  return notes;
}

}  // namespace tapegrad::watch
