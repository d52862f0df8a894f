#include "tapegrad/apps/watch/connection.h"

#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>

namespace tapegrad::watch {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::size_t kMostHeaderBytes = 16 << 10, kMostBodyBytes = 32 << 10;
// The longest time for a whole request, the wait for it included; and for a whole answer, or a
// piece of events.
constexpr std::chrono::seconds kReadTime{10}, kWriteTime{30}, kEventTime{10}, kDrainTime{1};
constexpr std::size_t kMostEventBytes = std::size_t{4} << 20;

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

Request request_of(const http::request<http::string_body>& message) {
  const auto header = [&](http::field name) { return text_of(message[name]); };
  return {text_of(message.method_string()),  text_of(message.target()),
          header(http::field::host),         header(http::field::origin),
          header(http::field::content_type), message.body()};
}

}  // namespace

Connection::~Connection() {
  end_answer();
  owner_.ended(this);
}

void Connection::close() {
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

void Connection::read() {
  response_.reset();
  parser_.emplace();
  parser_->header_limit(kMostHeaderBytes);
  parser_->body_limit(kMostBodyBytes);
  stream_.expires_after(kReadTime);
  http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Failure failure, std::size_t) { self->on_read(failure); });
}

void Connection::on_read(Failure failure) {
  if (failure) return on_failed_read(failure);
  Answer answer;
  try {
    answer = owner_.answer(request_of(parser_->get()));
    if (const auto* job = std::get_if<Inspection>(&answer)) {
      stream_.expires_never();
      const auto refused = owner_.begin_inspection(shared_from_this(), *job);
      if (!refused) return wait_for_end();
      answer = *refused;
    } else if (std::holds_alternative<Events>(answer)) {
      if (owner_.begin_events(this)) return stream_events();
      answer = refusal(503, "too many pages are open");
    }
  } catch (const std::exception& error) {
    answer = refusal(500, error.what());
  }
  send(std::get<Response>(std::move(answer)));
}

void Connection::on_failed_read(Failure failure) {
  const auto refuse = [&](int status, const std::string& why) {
    parser_->get().keep_alive(false);
    send(refusal(status, why));
  };
  if (failure == http::error::header_limit || failure == http::error::buffer_overflow) {
    refuse(431, "the header is too long");
  } else if (failure == http::error::body_limit) {
    refuse(413, "the body is too long");
  } else if (failure == beast::error::timeout || failure == http::error::end_of_stream ||
             failure == http::error::partial_message ||
             failure.category() != make_error_code(http::error::bad_method).category()) {
    close();
  } else {
    refuse(400, "this is no request");
  }
}

void Connection::send(Response response) {
  if (!stream_.socket().is_open()) return;
  if (owner_.begin_answer(response.body.size())) {
    answer_bytes_ = response.body.size();
  } else {
    response = refusal(503, "other answers are on their way: try again in a moment");
  }
  response_.emplace();
  response_->result(static_cast<unsigned>(response.status));
  response_->version(11);
  for (const auto& [name, value] : usual_headers(response)) response_->set(name, value);
  response_->keep_alive(parser_->is_done() && parser_->get().keep_alive() && !waits_);
  response_->body() = std::move(response.body);
  response_->prepare_payload();
  stream_.expires_after(kWriteTime);
  http::async_write(stream_, *response_, [self = shared_from_this()](Failure failure, std::size_t) {
    self->on_written(failure);
  });
}

void Connection::end_answer() { owner_.end_answer(std::exchange(answer_bytes_, 0)); }

void Connection::on_written(Failure failure) {
  end_answer();
  if (failure) return close();
  if (response_->keep_alive()) return read();
  // What has come and is not read would make the system drop the answer on its way.
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

void Connection::wait_for_end() {
  waits_ = true;
  stream_.socket().async_wait(
      asio::ip::tcp::socket::wait_read, [self = shared_from_this()](Failure failure) {
        char byte;
        Failure ended;
        if (!failure) {
          self->stream_.socket().non_blocking(true, ended);
          self->stream_.socket().receive(asio::buffer(&byte, 1),
                                         asio::ip::tcp::socket::message_peek, ended);
        }
        // Whoever sends more, although the answer has not come, is dropped as well.
        self->close();
        self->owner_.ended(self.get());
      });
}

void Connection::stream_events() {
  waits_ = true;
  Response head{.type = "text/event-stream"};
  std::string text = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
  for (const auto& [name, value] : usual_headers(head)) text += name + ": " + value + "\r\n";
  send_event(std::make_shared<const std::string>(text + "\r\nretry: 1000\n\n"));
  wait_for_end();
}

void Connection::send_event(std::shared_ptr<const std::string> text) {
  if (!stream_.socket().is_open()) return;
  event_bytes_ += text->size();
  events_.push_back(std::move(text));
  if (event_bytes_ > kMostEventBytes) return close();
  if (events_.size() == 1) write_events();
}

void Connection::write_events() {
  stream_.expires_after(kEventTime);
  asio::async_write(stream_, asio::buffer(*events_.front()),
                    [self = shared_from_this()](Failure failure, std::size_t) {
                      if (failure) return self->close();
                      self->event_bytes_ -= self->events_.front()->size();
                      self->events_.pop_front();
                      self->stream_.expires_never();
                      if (!self->events_.empty()) self->write_events();
                    });
}

}  // namespace tapegrad::watch
