#include "tapegrad/apps/http/connection.h"

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/none.hpp>
#include <utility>

namespace tapegrad::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = beast::http;

constexpr std::chrono::seconds kDrainTime{1};

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

Request request_of(bhttp::request<bhttp::string_body>& message,
                   std::chrono::steady_clock::time_point begin) {
  const auto header = [&](bhttp::field name) { return text_of(message[name]); };
  return {.method = text_of(message.method_string()),
          .target = text_of(message.target()),
          .host = header(bhttp::field::host),
          .origin = header(bhttp::field::origin),
          .content_type = header(bhttp::field::content_type),
          .body = std::move(message.body()),
          .authorization = header(bhttp::field::authorization),
          .begin = begin};
}

}  // namespace

void Budget::take(Connection& holder, std::size_t bytes) {
  if (bytes == 0) return;
  shares_.push_back({&holder, bytes});
  taken_ += bytes;
}

void Budget::give(const Connection& holder) {
  std::erase_if(shares_, [&](const Share& share) {
    if (share.holder != &holder) return false;
    taken_ -= share.bytes;
    return true;
  });
}

bool Budget::has(const Connection& holder) const {
  return std::ranges::find(shares_, &holder, &Share::holder) != shares_.end();
}

std::size_t Budget::bytes_of(const asio::ip::address& client) const {
  std::size_t bytes = 0;
  for (const Share& share : shares_) {
    if (share.holder->client() == client) bytes += share.bytes;
  }
  return bytes;
}

Connection& Budget::first_of_largest() const {
  const auto bytes = [&](const Share& share) { return bytes_of(share.holder->client()); };
  return *std::ranges::max_element(shares_, {}, bytes)->holder;
}

Connection::~Connection() {
  end_bytes();
  owner_.ended(this);
}

void Connection::end_bytes() {
  owner_.bodies.give(*this);
  owner_.answers.give(*this);
}

void Connection::close() {
  end_bytes();
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

void Connection::read() {
  response_.reset();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(owner_.limits.header_bytes));
  parser_->body_limit(owner_.limits.body_bytes);
  stream_.expires_after(owner_.limits.read_time);
  if (buffer_.size() > 0) return read_header();
  stream_.async_read_some(buffer_.prepare(4 << 10),
                          [self = shared_from_this()](Failure failure, std::size_t bytes) {
                            if (failure) return self->close();
                            self->buffer_.commit(bytes);
                            self->read_header();
                          });
}

// A request begins with its first bytes.
void Connection::read_header() {
  begin_ = std::chrono::steady_clock::now();
  bhttp::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Failure failure, std::size_t) { self->on_header(failure); });
}

// Before a body is read, its bytes are taken off what all connections share.
void Connection::on_header(Failure failure) {
  if (failure) return on_failed_read(failure);
  // Which of two is meant, a proxy may see otherwise; HTTP/1.0 has none (RFC 9112, 3.2).
  const auto hosts = parser_->get().count(bhttp::field::host);
  if (hosts > 1) return refuse(400, "there are two Host headers");
  if (hosts == 0 && parser_->get().version() >= 11)
    return refuse(400, "there is no Host header, which HTTP/1.1 asks for");
  if (auto refused = owner_.handler.refuses(request_of(parser_->get(), begin_))) {
    if (!parser_->is_done()) parser_->get().keep_alive(false);
    return send(std::move(*refused));
  }
  const auto length = parser_->content_length();
  const std::size_t bytes = length               ? static_cast<std::size_t>(*length)
                            : parser_->chunked() ? owner_.limits.body_bytes
                                                 : 0;
  if (bytes > owner_.limits.body_bytes) return on_failed_read(bhttp::error::body_limit);
  if (!make_room(owner_.bodies, bytes, /*closes_own=*/false)) {
    return refuse(503, "other requests are being read: try again in a moment");
  }
  owner_.bodies.take(*this, bytes);
  if (beast::iequals(parser_->get()[bhttp::field::expect], "100-continue")) return allow_body();
  read_body();
}

// Closes connections of clients that hold more than this one would, the oldest first, until the
// bytes fit. If they never do, it closes none.
bool Connection::make_room(const Budget& budget, std::size_t bytes, bool closes_own) {
  Budget after = budget;
  std::vector<Connection*> closed;
  while (!after.has_room_for(bytes)) {
    Connection& other = after.first_of_largest();
    const bool is_own = closes_own && other.client() == client_;
    if (!is_own && after.bytes_of(client_) + bytes >= after.bytes_of(other.client())) return false;
    after.give(other);
    closed.push_back(&other);
  }
  for (Connection* other : closed) other->close();
  return true;
}

// curl asks before it sends a long body.
void Connection::allow_body() {
  static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kGoOn),
                    [self = shared_from_this()](Failure failure, std::size_t) {
                      failure ? self->close() : self->read_body();
                    });
}

void Connection::read_body() {
  bhttp::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Failure failure, std::size_t) { self->on_read(failure); });
}

void Connection::on_read(Failure failure) {
  if (failure) return on_failed_read(failure);
  stream_.expires_never();
  std::optional<Response> answer;
  try {
    answer = owner_.handler.answer(request_of(parser_->get(), begin_), shared_from_this());
  } catch (const std::exception& error) {
    answer = owner_.handler.refusal(500, error.what());
  }
  owner_.bodies.give(*this);
  if (answer) return send(std::move(*answer));
  if (!waits_) wait_for_end();
}

void Connection::refuse(int status, const std::string& why) {
  owner_.bodies.give(*this);
  parser_->get().keep_alive(false);
  send(owner_.handler.refusal(status, why));
}

void Connection::on_failed_read(Failure failure) {
  if (failure == bhttp::error::header_limit || failure == bhttp::error::buffer_overflow) {
    refuse(431, "the header is too long");
  } else if (failure == bhttp::error::body_limit) {
    refuse(413, "the body is too long");
  } else if (failure == beast::error::timeout || failure == bhttp::error::end_of_stream ||
             failure == bhttp::error::partial_message ||
             failure.category() != make_error_code(bhttp::error::bad_method).category()) {
    close();
  } else {
    refuse(400, "this is no request");
  }
}

void Connection::send(Response response) {
  if (!stream_.socket().is_open() || streams_) return;
  if (std::exchange(waits_, false)) stream_.cancel();
  // A finished answer is worth more than an older one that the same client, or one that holds more,
  // has not taken. Small ones need no room: there are no more of them than connections.
  constexpr std::size_t kSmall = 1 << 16;
  const std::size_t bytes = response.body.size();
  if (bytes > kSmall && !make_room(owner_.answers, bytes, /*closes_own=*/true)) {
    response = owner_.handler.refusal(503, "other answers are being sent: try again in a moment");
  }
  owner_.answers.take(*this, response.body.size());
  response_.emplace();
  response_->result(static_cast<unsigned>(response.status));
  response_->version(11);
  for (const auto& [name, value] : headers_of(response)) response_->set(name, value);
  response_->keep_alive(parser_->is_done() && parser_->get().keep_alive());
  response_->body() = std::move(response.body);
  response_->prepare_payload();
  // Which has no body, and may not say how long it is (RFC 9110, 8.6).
  if (response_->result() == bhttp::status::no_content) response_->content_length(boost::none);
  // Its answer has the header alone; what came behind that would be taken for the next answer.
  if (parser_->get().method() == bhttp::verb::head) response_->body().clear();
  stream_.expires_after(owner_.limits.write_time);
  bhttp::async_write(
      stream_, *response_,
      [self = shared_from_this()](Failure failure, std::size_t) { self->on_written(failure); });
}

Headers Connection::headers_of(const Response& response) const {
  Headers headers = usual_headers(response);
  const auto origin = parser_->get()[bhttp::field::origin];
  for (auto& more : owner_.handler.headers_for(text_of(origin))) {
    headers.push_back(std::move(more));
  }
  return headers;
}

void Connection::on_written(Failure failure) {
  owner_.answers.give(*this);
  if (failure) return close();
  if (response_->keep_alive()) return read();
  end_sending();
}

// Bytes that have come and are not read would make the system drop the answer on its way.
void Connection::end_sending() {
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kDrainTime);
  drain();
}

void Connection::drain() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(4 << 10),
                          [self = shared_from_this()](Failure failure, std::size_t) {
                            if (failure) return self->close();
                            self->drain();
                          });
}

// True if the other side has sent what is not read yet.
bool Connection::has_more() {
  char byte;
  Failure ended;
  stream_.socket().non_blocking(true, ended);
  return stream_.socket().receive(asio::buffer(&byte, 1), asio::ip::tcp::socket::message_peek,
                                  ended) > 0;
}

void Connection::wait_for_end() {
  waits_ = true;
  stream_.socket().async_wait(
      asio::ip::tcp::socket::wait_read, [self = shared_from_this()](Failure failure) {
        if (!self->waits_) return;           // the answer is on its way
        if (!failure && self->has_more()) {  // the next request: it waits for its turn
          self->waits_ = false;
          return;
        }
        self->close();
        self->owner_.ended(self.get());
      });
}

void Connection::begin_events(const Headers& headers) {
  streams_ = true;
  Response head{.type = "text/event-stream", .headers = headers};
  std::string text = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
  for (const auto& [name, value] : headers_of(head)) text += name + ": " + value + "\r\n";
  send_event(std::make_shared<const std::string>(text + "\r\n"));
  if (!waits_) wait_for_end();
}

void Connection::send_event(std::shared_ptr<const std::string> text) {
  if (!stream_.socket().is_open() || last_event_) return;
  // Events that waited before count: one event alone may be longer.
  if (event_bytes_ > owner_.limits.event_bytes) return close();
  event_bytes_ += text->size();
  events_.push_back(std::move(text));
  if (events_.size() == 1) write_events();
}

void Connection::end_events() {
  last_event_ = true;
  if (!events_.empty() || !stream_.socket().is_open()) return;
  waits_ = false;
  stream_.cancel();
  end_sending();
}

void Connection::write_events() {
  stream_.expires_after(owner_.limits.event_time);
  asio::async_write(stream_, asio::buffer(*events_.front()),
                    [self = shared_from_this()](Failure failure, std::size_t) {
                      if (failure) return self->close();
                      self->event_bytes_ -= self->events_.front()->size();
                      self->events_.pop_front();
                      self->stream_.expires_never();
                      if (!self->events_.empty()) return self->write_events();
                      if (self->last_event_) self->end_events();
                    });
}

}  // namespace tapegrad::http
