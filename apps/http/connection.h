#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/http/message.h"

namespace tapegrad::http {

// Bounds of a server, for one connection and for all together.
struct Limits {
  std::size_t connections = 128;
  std::size_t connections_of_address = SIZE_MAX;
  std::size_t header_bytes = std::size_t{16} << 10, body_bytes = std::size_t{32} << 10;
  std::size_t all_body_bytes = std::size_t{64} << 20;    // being read
  std::size_t all_answer_bytes = std::size_t{64} << 20;  // under way, except for one
  std::size_t event_bytes = std::size_t{4} << 20;        // not taken yet when another event comes
  // The longest time for a whole request, the wait for it included; for a whole answer; for a piece
  // of events.
  std::chrono::seconds read_time{10}, write_time{30}, event_time{10};
};

class Connection;

// Bytes that all connections share.
class Budget {
 public:
  explicit Budget(std::size_t most) : most_(most) {}
  // There always is room for one alone.
  bool has_room_for(std::size_t bytes) const {
    return bytes == 0 || taken_ == 0 || taken_ + bytes <= most_;
  }
  void take(Connection& holder, std::size_t bytes);
  void give(const Connection& holder);
  bool has(const Connection& holder) const;
  // All bytes of the connections of a client.
  std::size_t bytes_of(const boost::asio::ip::address& client) const;
  // The connection that has held bytes for the longest time, of the client that holds the most.
  // Somebody must hold some.
  Connection& first_of_largest() const;

 private:
  struct Share {
    Connection* holder;
    std::size_t bytes;
  };
  std::size_t most_, taken_ = 0;
  std::vector<Share> shares_;  // the oldest first
};

// Answers requests. All calls come from the listener's one thread.
class Handler {
 public:
  virtual ~Handler() = default;
  // The answer to a request whose body is not worth reading, by its header alone.
  virtual std::optional<Response> refuses(const Request&) { return std::nullopt; }
  // The answer to a request. Without one, `connection` gets it later, by send(), or has begun a
  // stream of events. An exception is an answer with the status 500.
  virtual std::optional<Response> answer(const Request& request,
                                         const std::shared_ptr<Connection>& connection) = 0;
  // The response for a request that the transport refuses by itself.
  virtual Response refusal(int status, const std::string& why) const = 0;
  // Further headers of all answers to requests with this Origin header, whoever makes them.
  virtual Headers headers_for(const std::string&) const { return {}; }
  // Nobody is there any more for what a connection has asked for. May come twice.
  virtual void ended(Connection*) {}
  // The thread begins; it ends because of an exception.
  virtual void begins() {}
  virtual void breaks(const char*) noexcept {}
};

// The owner of all connections: the listener.
struct ConnectionOwner {
  explicit ConnectionOwner(Handler& of, const Limits& most)
      : handler(of), limits(most), bodies(most.all_body_bytes), answers(most.all_answer_bytes) {}
  virtual ~ConnectionOwner() = default;
  virtual void ended(Connection* connection) = 0;

  Handler& handler;
  const Limits limits;
  Budget bodies, answers;
};

// One connection of a client. Requests come one after the other, each within a time and a size;
// answers must be taken within a time. A stream of events that is not read is dropped. While a
// client waits for an answer, it must leave its side open: one that ends it has gone. It may send
// the next request already; that it has gone is then noticed when its answer is sent.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, boost::asio::ip::address client,
             ConnectionOwner& owner)
      : stream_(std::move(socket)), client_(std::move(client)), owner_(owner) {}
  ~Connection();

  void read();                   // the next request
  void send(Response response);  // the answer to the last one
  // Or a stream of events in its place. The connection ends behind it.
  void begin_events(const Headers& headers = {});
  void send_event(std::shared_ptr<const std::string> text);
  void end_events();  // when all have been taken
  void close();
  // The address of the other side; of IPv6, the 64 bits that one network has.
  const boost::asio::ip::address& client() const { return client_; }
  // True if the other side has not yet taken all that it was sent.
  bool sends() const {
    return stream_.socket().is_open() && (owner_.answers.has(*this) || !events_.empty());
  }

 private:
  using Failure = boost::beast::error_code;
  void read_header();
  void read_body();
  void allow_body();
  void on_header(Failure failure);
  void on_read(Failure failure);
  void on_failed_read(Failure failure);
  void end_bytes();
  bool make_room(const Budget& budget, std::size_t bytes, bool closes_own);
  void refuse(int status, const std::string& why);
  Headers headers_of(const Response& response) const;
  void on_written(Failure failure);
  void end_sending();
  void drain();
  void write_events();
  // Ends the connection when the other side does, while it is not asked for anything.
  void wait_for_end();
  bool has_more();

  boost::beast::tcp_stream stream_;
  const boost::asio::ip::address client_;
  ConnectionOwner& owner_;
  boost::beast::flat_buffer buffer_{48 << 10};
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> response_;
  std::chrono::steady_clock::time_point begin_;  // of the request
  bool waits_ = false;                           // wait_for_end() is under way
  bool streams_ = false, last_event_ = false;
  std::deque<std::shared_ptr<const std::string>> events_;
  std::size_t event_bytes_ = 0;
};

}  // namespace tapegrad::http
