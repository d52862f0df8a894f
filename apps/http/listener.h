#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "tapegrad/apps/http/connection.h"

namespace tapegrad::http {

struct ListenerOptions {
  std::string host = kThisComputer;  // an address of this computer
  int port = 0;                      // 0: any that is free
  bool or_next_port = true;          // the next free one if it is taken
  Limits limits = {};
};

// True if others than this computer reach a server at this address. Error if it is none.
bool is_public(const std::string& host);

// Listens at an address, and passes requests to a handler. All of it happens in one thread, which
// is this one's own: connections, the handler's calls, and what run() is given.
class Listener : private ConnectionOwner {
 public:
  // Listens from now on; begin() starts the thread. Errors: the port is taken; there is no such
  // address. The handler must outlive it.
  Listener(const ListenerOptions& options, Handler& handler);
  // Calls stop().
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void begin();
  // Ends the thread, and with it all that happens. The connections stay until this ends.
  void stop();

  int port() const { return port_; }
  std::string url() const;        // "http://127.0.0.1:8265/"
  bool is_everywhere() const;     // at each of the computer's addresses
  std::string port_note() const;  // "": the port is the one that was asked for

  // For the listener's thread alone, and before it begins.
  boost::asio::io_context& context() { return context_; }
  void close_all();    // takes no more connections and ends those there are
  void close_door();   // takes no more connections
  bool sends() const;  // whether a connection does

  // Calls `work` in the listener's thread, soon. May come from any thread.
  void run(std::function<void()> work);

 private:
  using Failure = boost::system::error_code;
  void ended(Connection* connection) override;
  void listen();
  bool open(const boost::asio::ip::tcp::endpoint& place, Failure& failure);
  void accept();
  bool has_room_for(const boost::asio::ip::address& client) const;
  void serve(boost::asio::ip::tcp::socket socket, const boost::asio::ip::address& client);

  const ListenerOptions options_;
  int port_ = 0;
  std::set<Connection*> connections_;
  boost::asio::io_context context_{1};  // ends the connections, which still know what is above
  boost::asio::ip::tcp::acceptor acceptor_{context_};
  boost::asio::steady_timer accept_timer_{context_};
  std::thread thread_;
};

// Calls `then` after a time, unless the timer is set anew or ends.
template <class Then>
void after(boost::asio::steady_timer& timer, std::chrono::milliseconds time, const Then& then) {
  timer.expires_after(time);
  timer.async_wait([then](boost::system::error_code failure) {
    if (!failure) then();
  });
}

}  // namespace tapegrad::http
