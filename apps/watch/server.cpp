#include "tapegrad/apps/watch/server.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "tapegrad/apps/watch/connection.h"
#include "tapegrad/run/terminal.h"

namespace tapegrad::watch {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

constexpr int kNextPorts = 20, kPriority = 10;
constexpr std::size_t kMostConnections = 128, kMostStreams = 32;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;  // of one run's files at a time
constexpr std::chrono::milliseconds kReadInterval{250}, kLookInterval{2000}, kChildInterval{20};
constexpr std::chrono::seconds kPulse{10};

constexpr std::string_view kBusy =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

// Signals are for the thread that trains.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

void lower_priority() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  ::setpriority(PRIO_PROCESS, thread,
                std::min(19, ::getpriority(PRIO_PROCESS, thread) + kPriority));
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
      : host_(options.host), wanted_(options.port), runs_(options.runs, options.folders) {
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
        // Whatever it is, such as a lack of memory, it ends the page and not the training.
        run::print_error(fmt::format("note: the page has ended: {}\n", error.what()));
      }
    });
  }
  ~Thread() override {
    context_.stop();
    thread_.join();
    child_.reset();
    inspected_for_.reset();
  }

  int port() const { return acceptor_.local_endpoint().port(); }
  int wanted_port() const { return wanted_; }
  const std::string& host() const { return host_; }

  Answer answer(const Request& request) override {
    return watch::answer(request, runs_, host_, InspectChild::program().has_value());
  }
  bool begin_events(const std::shared_ptr<Connection>& connection) override {
    if (streams_.size() >= kMostStreams) return false;
    streams_[connection.get()] = connection;
    return true;
  }
  std::optional<Response> begin_inspection(const std::shared_ptr<Connection>& connection,
                                           const Inspection& job) override {
    if (child_) return refusal(503, "another text is being looked at: try again in a moment");
    const auto program = InspectChild::program();
    if (!program) return refusal(503, "the program inspect is not beside this one");
    child_ = std::make_unique<InspectChild>(*program, runs_[job.run].folder(), job.text);
    inspected_for_ = connection;
    look_at_child();
    return std::nullopt;
  }
  void ended(const Connection* connection) override {
    streams_.erase(connection);
    if (inspected_for_.get() == connection) {
      child_.reset();
      const auto last = std::exchange(inspected_for_, nullptr);
    }
  }

 private:
  void listen(const ServerOptions& options) {
    const asio::ip::address address = address_of(options.host);
    const int tries = options.or_next_port && options.port != 0 ? kNextPorts + 1 : 1;
    Failure failure;
    for (int i = 0; i < tries; ++i) {
      if (open({address, static_cast<unsigned short>(options.port + i)}, failure)) return;
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
      if (connections_ < kMostConnections) {
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
    ++connections_;
    const std::shared_ptr<Connection> connection(new Connection(std::move(socket), *this),
                                                 [this](Connection* ended) {
                                                   delete ended;
                                                   --connections_;
                                                 });
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
    std::vector<std::shared_ptr<Connection>> all;  // since one that is dropped leaves streams_
    for (const auto& [key, stream] : streams_) {
      if (auto connection = stream.lock()) all.push_back(std::move(connection));
    }
    for (const auto& connection : all) connection->send_event(shared);
  }

  // Reads a piece of each run's files, and comes back at once if there is more.
  void read_files() {
    bool more = false, changed = false;
    for (std::size_t id = 0; id < runs_.size(); ++id) {
      const RunFiles::News news = runs_[id].read(kReadBytes);
      more = more || news.more;
      changed = changed || news.changed;
      if (news.restarted) tell(event("reset", fmt::format("{{\"run\":{}}}", id)));
      for (const RunFiles::Line& line : news.lines) {
        tell(event(
            line.of_layers ? "layers" : "metrics",
            fmt::format("{{\"run\":{},\"line\":{},\"values\":{}}}", id, line.number, line.values)));
      }
    }
    if (changed) tell(event("runs", "{}"));
    after(read_timer_, more ? std::chrono::milliseconds(0) : kReadInterval,
          [this] { read_files(); });
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
  int wanted_;
  RunList runs_;
  std::map<const Connection*, std::weak_ptr<Connection>> streams_;
  std::size_t connections_ = 0;
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
  }
  return notes;
}

}  // namespace tapegrad::watch
