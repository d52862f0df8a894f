#include "tapegrad/apps/serve/api/fields/refusal.h"

#include <fmt/format.h>

#include <new>

#include "tapegrad/base/text/internal/cut_text.h"

namespace tapegrad::serve {
namespace {

const char* type_of_error(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(cut_text(text)); }

}  // namespace

Json Refusal::json() const {
  return {{"error",
           {{"message", cut_text(message)},
            {"type", type_of_error(status)},
            {"param", text_or_null(param)},
            {"code", text_or_null(code)}}}};
}

http::Response Refusal::response() const {
  http::Response response{.status = status, .body = json_text(json())};
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(retry_after));
  return response;
}

Refusal server_ends() {
  return {.status = 503, .message = "the server is ending", .code = "shutting_down"};
}

Refusal too_late(std::chrono::seconds most) {
  return {.status = 503,
          .message = fmt::format(
              "the answer was not complete after {} s, the most that this server gives to one",
              most.count()),
          .code = "timeout"};
}

Refusal refusal_of(const std::exception& error) {
  if (const auto* refused = dynamic_cast<const Refused*>(&error)) return refused->why;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {.status = 503, .message = "there is not enough memory for this request now"};
  }
  return {.status = 500, .message = "the server failed on this request; its log says why"};
}

}  // namespace tapegrad::serve
