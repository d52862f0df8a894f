#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "tapegrad/apps/watch/inspect_child.h"
#include "tapegrad/apps/watch/routes.h"

namespace tapegrad::watch {

class Connection;

// What connections are of. All calls come from the server's one thread.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual Answer answer(const Request& request) = 0;
  // Whether there is room for one more stream of events.
  virtual bool begin_events(Connection* connection) = 0;
  // Starts the program; Response if it cannot be.
  virtual std::optional<Response> begin_inspection(const std::shared_ptr<Connection>& connection,
                                                   const Inspection& job) = 0;
  // Whether there is room for the bytes of one more answer, until end_answer().
  virtual bool begin_answer(std::size_t bytes) = 0;
  virtual void end_answer(std::size_t bytes) = 0;
  // The connection is not used any more. May come twice.
  virtual void ended(Connection* connection) = 0;
};

// One connection of a browser. Requests come one after the other, each within a time and a size;
// answers must be taken within a time. A stream of events that is not read is dropped.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, ConnectionOwner& owner)
      : stream_(std::move(socket)), owner_(owner) {}
  ~Connection();

  void read();                   // the next request
  void send(Response response);  // the answer to the last one
  void send_event(std::shared_ptr<const std::string> text);
  void close();

 private:
  using Failure = boost::beast::error_code;
  void on_read(Failure failure);
  void on_failed_read(Failure failure);
  void on_written(Failure failure);
  void end_answer();
  void drain();
  void stream_events();
  void write_events();
  // Ends the connection when the other side does, while it is not asked for anything.
  void wait_for_end();

  boost::beast::tcp_stream stream_;
  ConnectionOwner& owner_;
  boost::beast::flat_buffer buffer_{48 << 10};
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> response_;
  bool waits_ = false;  // wait_for_end() is under way
  std::size_t answer_bytes_ = 0;
  std::deque<std::shared_ptr<const std::string>> events_;
  std::size_t event_bytes_ = 0;
};

}  // namespace tapegrad::watch
