#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

// A connection to a server on this computer, byte by byte: browsers would not do what tests do.
class Browser {
 public:
  // `from`: the last byte of the client's address, 127.0.0.FROM.
  explicit Browser(int port, int receive_bytes = 0, unsigned from = 1)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    }
    sockaddr_in place{};
    place.sin_family = AF_INET;
    if (from != 1) {
      place.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
      if (::bind(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0) {
        throw std::runtime_error("no address 127.0.0." + std::to_string(from));
      }
    }
    place.sin_port = htons(static_cast<std::uint16_t>(port));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0) {
      throw std::runtime_error("nobody listens at port " + std::to_string(port));
    }
  }
  Browser(Browser&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), text_(std::move(other.text_)) {}
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;
  ~Browser() {
    if (socket_ >= 0) ::close(socket_);
  }

  // False if the other side does not take it.
  bool send(const std::string& text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  void end_of_requests() const { ::shutdown(socket_, SHUT_WR); }

  // Waits for more. False if the connection has ended, or at the end of the time.
  bool receive(std::chrono::milliseconds time) {
    pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(time.count())) <= 0) return false;
    char piece[1 << 16];
    const ssize_t count = ::recv(socket_, piece, sizeof piece, 0);
    ended_ = count <= 0;
    if (!ended_) text_.append(piece, static_cast<std::size_t>(count));
    return !ended_;
  }
  // All that comes until the connection ends; "" if it does not end in time.
  std::string rest(std::chrono::milliseconds time = std::chrono::seconds(60)) {
    const auto limit = std::chrono::steady_clock::now() + time;
    while (!ended_ && std::chrono::steady_clock::now() < limit) {
      receive(std::chrono::milliseconds(100));
    }
    return ended_ ? text_ : "";
  }
  bool has_ended() const { return ended_; }
  // True if the text comes in time.
  bool gets(const std::string& text, std::chrono::milliseconds time) {
    const auto limit = std::chrono::steady_clock::now() + time;
    while (text_.find(text) == text_.npos && !ended_ && std::chrono::steady_clock::now() < limit) {
      receive(std::chrono::milliseconds(20));
    }
    return text_.find(text) != text_.npos;
  }
  const std::string& text() const { return text_; }
  void forget() { text_.clear(); }

  // The body of the next answer, of a connection that stays.
  std::string next_body() {
    constexpr std::string_view length = "Content-Length: ";
    if (!gets("\r\n\r\n", std::chrono::seconds(60))) return "";
    const std::size_t begin = text_.find("\r\n\r\n") + 4;
    const std::size_t size = std::stoul(text_.substr(text_.find(length) + length.size()));
    while (text_.size() < begin + size && receive(std::chrono::seconds(60))) {
    }
    std::string body = text_.substr(begin, size);
    text_.erase(0, begin + size);
    return body;
  }

 private:
  int socket_;
  std::string text_;
  bool ended_ = false;
};

// A stream of events that has begun.
inline Browser open_events(int port, int receive_bytes = 0) {
  Browser browser(port, receive_bytes);
  browser.send("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  if (!browser.gets("retry: 1000\n\n", std::chrono::seconds(60))) {
    throw std::runtime_error("no events: " + browser.text());
  }
  return browser;
}

struct Reply {
  int status = 0;  // 0: there was none
  std::string head, body;
};

inline Reply reply_in(const std::string& text) {
  const std::size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == text.npos) return {};
  return {std::stoi(text.substr(9)), text.substr(0, end), text.substr(end + 4)};
}

// One request, on a connection that ends after it.
inline Reply ask(int port, const std::string& method, const std::string& target,
                 const std::string& more = "", const std::string& body = "",
                 const std::string& host = "localhost") {
  Browser browser(port);
  std::string request =
      method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + more;
  if (!body.empty()) request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  browser.send(request + "\r\n" + body);
  // A program of the lowest priority that a page starts has little to compute with on a busy
  // computer.
  return reply_in(browser.rest(std::chrono::minutes(2)));
}

inline Reply get(int port, const std::string& target) { return ask(port, "GET", target); }

// Waits until the page's server has read so many lines of a run.
inline void await_lines(int port, int lines, int run = 0) {
  const std::string path = "/api/runs/" + std::to_string(run) + "/history";
  const std::string wanted = "\"lines\":" + std::to_string(lines);
  for (int i = 0; i < 1200; ++i) {
    if (get(port, path).body.find(wanted) != std::string::npos) return;
    ::usleep(50'000);
  }
  throw std::runtime_error(path + " never has " + wanted);
}

inline Reply post(int port, const std::string& target, const std::string& body,
                  const std::string& more = "Content-Type: application/json\r\n") {
  return ask(port, "POST", target, more, body);
}
