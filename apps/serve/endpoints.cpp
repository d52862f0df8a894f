#include "tapegrad/apps/serve/endpoints.h"

#include <algorithm>
#include <charconv>
#include <future>
#include <optional>
#include <random>
#include <utility>

#include "tapegrad/apps/serve/api/chat_completions.h"
#include "tapegrad/apps/serve/api/embeddings.h"
#include "tapegrad/apps/serve/api/responses/responses.h"
#include "tapegrad/apps/serve/api/token_calls.h"
#include "tapegrad/apps/serve/chat_page.h"
#include "tapegrad/apps/serve/endpoint.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::serve {
namespace {

constexpr std::string_view kModels = "/v1/models/", kResponses = "/v1/responses/";
constexpr int kNoContent = 204;

// In a time that does not tell how much of it is right.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned>(a[i] ^ (b.empty() ? '\1' : b[i % b.size()]));
  }
  return different == 0;
}

http::Response as_response(const Json& json) { return {.body = json_text(json)}; }

// A client may send any word as its method.
std::string shown_method(const std::string& method) {
  constexpr std::string_view kKnown[] = {"GET",   "HEAD",   "POST",   "PUT",
                                         "PATCH", "DELETE", "OPTIONS"};
  return std::ranges::find(kKnown, method) != std::end(kKnown) ? method : "-";
}

// What stands in an address, "My%20Model" → "My Model"; nothing if it is not in order, or has a
// NUL.
std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = static_cast<unsigned char>(text[i]);
    if (text[i] == '%') {
      const std::string_view digits = text.substr(i + 1, 2);
      const char* const end = digits.data() + digits.size();
      if (digits.size() < 2 || std::from_chars(digits.data(), end, byte, 16).ptr != end) return {};
      i += 2;
    }
    if (byte == 0) return {};
    plain += static_cast<char>(byte);
  }
  return plain;
}

Json describe_named(ModelSet& models, std::string_view path) {
  const auto name = decoded(path.substr(kModels.size()));
  if (!name) throw Refused(no_model_to_describe());
  return models.describe(*name);
}

}  // namespace

const std::vector<Endpoints::Endpoint>& Endpoints::table() {
  using Self = Endpoints;
  using Asks = http::Request;
  static const std::vector<Endpoint> endpoints = {
      {.method = "POST", .path = "/v1/completions", .job = completions},
      {.method = "POST", .path = "/v1/chat/completions", .job = chat_completions, .renders = true},
      {.method = "POST", .path = "/v1/responses", .job = responses, .renders = true},
      {.method = "POST", .path = "/v1/embeddings", .job = embeddings},
      {.method = "POST", .path = "/tokenize", .call = tokenize},
      {.method = "POST", .path = "/detokenize", .call = detokenize},
      {.method = "POST", .path = "/apply-template", .call = apply_template, .renders = true},
      {.method = "GET",
       .path = "/v1/models",
       .list = [](ModelSet& models, std::string_view) { return models.list(); }},
      {.method = "GET", .path = kModels, .list = describe_named},
      {"GET", "/health", true,
       [](Self&, const Asks&) {
         return as_response({{"status", "ok"}});
       }},
      {"GET", "/metrics", false,
       [](Self& self, const Asks&) {
         return http::Response{.type = "text/plain; version=0.0.4; charset=utf-8",
                               .body = metrics_of(self.state()) + self.log_.metrics()};
       }},
      {"GET", "/", true,
       [](Self&, const Asks& request) {
         return *http::page_response(page_files(), request.path());
       }},
  };
  return endpoints;
}

// The endpoint of a path, whatever the method; null if there is none.
const Endpoints::Endpoint* Endpoints::find(const http::Request& request) {
  const std::string_view path = request.path();
  for (const Endpoint& endpoint : table()) {
    if (path == endpoint.path || (endpoint.path == kModels && path.starts_with(kModels))) {
      return &endpoint;
    }
  }
  return http::find_page(page_files(), path) != nullptr ? &table().back() : nullptr;
}

Endpoints::Endpoints(ModelSet& models, const EndpointOptions& options)
    : models_(models),
      options_(options),
      log_(options.log, options.log_texts),
      rng_(std::random_device()(), Rng::Kind::philox),
      listener_(options.listen, *this) {
  for (int lane = 0; lane < (models.reads_files() ? 4 : 3); ++lane) {
    reading_threads_.push_back(
        std::make_unique<WorkThread>(options.max_reading, options.listen.limits.all_body_bytes));
  }
  listener_.begin();
}

Endpoints::~Endpoints() {
  stops_ = true;
  listener_.stop();
  for (const auto& lane : reading_threads_) lane->stop();
  waiting_.clear();
  const auto last = std::exchange(pending_, {});
}

void Endpoints::end() {
  ending_ = true;
  listener_.run([this] { listener_.close_door(); });
}

void Endpoints::refuse_rest() {
  stops_ = true;
  listener_.run([this] {
    while (!pending_.empty()) send(pending_.begin()->first, server_ends().response(), {});
  });
}

// Asks in the listener's thread, and waits for its answer.
bool Endpoints::all_is_sent() {
  if (broken_) return true;
  const auto sent = std::make_shared<std::promise<bool>>();
  auto answer = sent->get_future();
  listener_.run([this, sent] { sent->set_value(!listener_.sends()); });
  return answer.wait_for(std::chrono::seconds(1)) == std::future_status::ready && answer.get();
}

bool Endpoints::has_key(const std::string& authorization) const {
  constexpr std::string_view kBearer = "Bearer ";
  if (options_.keys.empty()) return true;
  if (!authorization.starts_with(kBearer)) return false;
  const std::string key = authorization.substr(kBearer.size());
  bool found = false;
  for (const std::string& right : options_.keys) found = same_secret(key, right) || found;
  return found;
}

bool Endpoints::allows(const std::string& origin) const {
  return std::ranges::find(options_.origins, origin) != options_.origins.end();
}

// What the page of an allowed site needs to read an answer. What a cache keeps of one is for that
// site alone.
http::Headers Endpoints::headers_for(const std::string& origin) const {
  if (options_.origins.empty()) return {};
  http::Headers headers = {{"Vary", "Origin"}};
  if (!allows(origin)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers",
                       "X-Request-Id, X-Tapegrad-Ignored, Retry-After");
  return headers;
}

std::optional<Refusal> Endpoints::refusal_of(const http::Request& request) const {
  const auto refused = [](int status, const std::string& message, const std::string& code = {}) {
    return Refusal{.status = status, .message = message, .code = code};
  };
  const bool named = std::ranges::any_of(options_.names, [&](const std::string& name) {
    return http::names_host(request.host, name);
  });
  if (!named && !http::is_own(request.host, options_.listen.host)) {
    return refused(403, "the Host header names another computer: --allow-host allows a name");
  }
  const Endpoint* endpoint = find(request);
  if (endpoint == nullptr) {
    if (request.path().starts_with(kResponses)) {
      return refused(404, "no response is stored here: POST /v1/responses is the only endpoint",
                     "not_found");
    }
    const std::string message =
        fmt::format("No endpoint {} {}; see docs/serving.md.", request.method, request.path());
    return refused(404, message, "not_found");
  }
  if (is_preflight(request)) return std::nullopt;
  if (!endpoint->open && !has_key(request.authorization)) {
    return refused(401, "an API key is needed: Authorization: Bearer KEY", "invalid_api_key");
  }
  if (request.method != endpoint->method) {
    return refused(405, fmt::format("{} is the only method here", endpoint->method));
  }
  if (http::is_of_other_page(request) && !allows(request.origin))
    return refused(403, "the page of another site asks");
  if (ending_) return server_ends();
  if (request.method == "GET") return std::nullopt;
  if (!http::is_json(request.content_type)) {
    return refused(415, "the header must have Content-Type: application/json");
  }
  return std::nullopt;
}

// A browser asks before it sends a page's request to another site; it has no key then.
bool Endpoints::is_preflight(const http::Request& request) const {
  return request.method == "OPTIONS" && allows(request.origin);
}

std::optional<http::Response> Endpoints::refuses(const http::Request& request) {
  const auto why = refusal_of(request);
  if (!why && is_preflight(request)) return preflight(*find(request));
  if (!why) return std::nullopt;
  const Endpoint* endpoint = find(request);
  log_.write({.method = shown_method(request.method),
              .path = endpoint == nullptr ? "other" : std::string(endpoint->path)},
             why->status);
  http::Response response = why->response();
  if (why->status == 405) response.headers.emplace_back("Allow", std::string(endpoint->method));
  return response;
}

http::Response Endpoints::preflight(const Endpoint& endpoint) {
  log_.write({.method = "OPTIONS", .path = std::string(endpoint.path)}, kNoContent);
  // The star stands for all headers but Authorization.
  return {.status = kNoContent,
          .headers = {{"Access-Control-Allow-Methods", std::string(endpoint.method)},
                      {"Access-Control-Allow-Headers", "Authorization, Content-Type, *"},
                      {"Access-Control-Max-Age", "600"}}};
}

http::Response Endpoints::refusal(int status, const std::string& why) const {
  return Refusal{.status = status, .message = why}.response();
}

std::optional<http::Response> Endpoints::answer(
    const http::Request& request, const std::shared_ptr<http::Connection>& connection) {
  const Endpoint& endpoint = *find(request);
  Visit visit{.method = std::string(endpoint.method),
              .path = std::string(endpoint.path),
              .begin = request.begin};
  http::Response response;
  try {
    if (endpoint.now != nullptr) {
      response = endpoint.now(*this, request);
    } else if (endpoint.list != nullptr && !models_.reads_files()) {
      response = as_response(endpoint.list(models_, request.path()));
    } else {
      const auto refused = read_later(endpoint, request, connection, visit);
      if (!refused) return std::nullopt;
      response = refused->response();
    }
  } catch (const std::exception& error) {
    response = told_refusal_of(error).response();
  }
  log_.write(visit, response.status);
  return response;
}

void Endpoints::breaks(const char* why) noexcept {
  broken_ = true;
  interrupt("the server has failed");
  try {
    print_error(fmt::format("error: the server has failed: {}\n", why));
  } catch (...) {  // there is no memory, even for that
  }
}

}  // namespace tapegrad::serve
