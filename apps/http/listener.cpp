#include "tapegrad/apps/http/listener.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/blocked_signals.h"

namespace tapegrad::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kNextPorts = 20;
constexpr std::chrono::milliseconds kAcceptAgain{250};

constexpr std::string_view kBusy =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

asio::ip::address address_of(const std::string& host) {
  boost::system::error_code failure;
  const auto address = asio::ip::make_address(host == "localhost" ? kThisComputer : host, failure);
  check(!failure,
        "'{}' is no address to listen at: {} is this computer alone, 0.0.0.0 all that "
        "reach it",
        host, kThisComputer);
  return address;
}

// Who has an IPv6 address has all that begin with its 64 bits.
asio::ip::address client_at(const asio::ip::address& address) {
  if (!address.is_v6()) return address;
  const asio::ip::address_v6 whole = address.to_v6();
  if (whole.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, whole);
  asio::ip::address_v6::bytes_type bytes = whole.to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return asio::ip::address_v6(bytes);
}

}  // namespace

bool is_public(const std::string& host) { return !address_of(host).is_loopback(); }

Listener::Listener(const ListenerOptions& options, Handler& handler_of_requests)
    : ConnectionOwner(handler_of_requests, options.limits), options_(options) {
  listen();
}

Listener::~Listener() { stop(); }

void Listener::begin() {
  accept();
  const BlockedSignals blocked;
  thread_ = std::thread([this] {
    try {
      // Until stop(), also while nothing is open: what run() is given must be done.
      const auto goes_on = asio::make_work_guard(context_);
      handler.begins();
      context_.run();
    } catch (const std::exception& error) {
      close_all();
      handler.breaks(error.what());
    } catch (...) {
      close_all();
      handler.breaks("an unknown error");
    }
  });
}

void Listener::stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void Listener::run(std::function<void()> work) { asio::post(context_, std::move(work)); }

void Listener::close_door() {
  Failure ignored;
  acceptor_.close(ignored);
  accept_timer_.cancel();
}

void Listener::close_all() {
  close_door();
  for (Connection* connection : connections_) connection->close();
}

bool Listener::sends() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const Connection* connection) { return connection->sends(); });
}

void Listener::ended(Connection* connection) {
  handler.ended(connection);
  connections_.erase(connection);
}

void Listener::listen() {
  const asio::ip::address address = address_of(options_.host);
  const int tries = options_.or_next_port && options_.port != 0 ? kNextPorts + 1 : 1;
  Failure failure;
  for (int i = 0; i < tries && options_.port + i <= UINT16_MAX; ++i) {
    if (open({address, static_cast<unsigned short>(options_.port + i)}, failure)) {
      port_ = acceptor_.local_endpoint().port();
      return;
    }
    if (failure != asio::error::address_in_use) break;
  }
  check(failure != asio::error::address_in_use,
        "port {} is taken, by another page perhaps: choose another port, or 0 for any free one",
        options_.port);
  fail("cannot listen at {}, port {}: {}", options_.host, options_.port, failure.message());
}

bool Listener::open(const tcp::endpoint& place, Failure& failure) {
  acceptor_.close(failure);
  if (acceptor_.open(place.protocol(), failure)) return false;
  acceptor_.set_option(tcp::acceptor::reuse_address(true), failure);
  if (acceptor_.bind(place, failure)) return false;
  return !acceptor_.listen(asio::socket_base::max_listen_connections, failure);
}

void Listener::accept() {
  acceptor_.async_accept([this](Failure failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted) return;
    if (failure) {  // too many files are open, say
      after(accept_timer_, kAcceptAgain, [this] { accept(); });
      return;
    }
    const asio::ip::address client = client_at(socket.remote_endpoint(failure).address());
    if (has_room_for(client)) {
      serve(std::move(socket), client);
    } else {
      socket.non_blocking(true, failure);
      socket.write_some(asio::buffer(kBusy), failure);
    }
    accept();
  });
}

bool Listener::has_room_for(const asio::ip::address& client) const {
  const auto its = std::count_if(connections_.begin(), connections_.end(),
                                 [&](const auto* other) { return other->client() == client; });
  return connections_.size() < limits.connections &&
         static_cast<std::size_t>(its) < limits.connections_of_address;
}

void Listener::serve(tcp::socket socket, const asio::ip::address& client) {
  Failure ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  ConnectionOwner& owner = *this;
  const auto connection = std::make_shared<Connection>(std::move(socket), client, owner);
  connections_.insert(connection.get());
  connection->read();
}

std::string Listener::url() const {
  const std::string& host = options_.host;
  const bool is_long = host.find(':') != host.npos;
  return fmt::format("http://{}{}{}:{}/", is_long ? "[" : "", host, is_long ? "]" : "", port_);
}

bool Listener::is_everywhere() const { return address_of(options_.host).is_unspecified(); }

std::string Listener::port_note() const {
  if (options_.port == 0 || port_ == options_.port) return "";
  return fmt::format("note: port {} is taken, by another page perhaps", options_.port);
}

}  // namespace tapegrad::http
