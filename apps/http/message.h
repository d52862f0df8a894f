#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapegrad::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

// A request, as far as it matters here. A header that is missing is "".
struct Request {
  std::string method, target, host, origin, content_type, body, authorization;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();  // first byte

  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  Headers headers = {};  // beside the usual ones
};

// The headers that each response has: nothing of it is kept, or may be used by pages of others.
Headers usual_headers(const Response& response);
// By the ending of a file's name.
std::string type_of(std::string_view name);

inline constexpr const char* kThisComputer = "127.0.0.1";
// True if a name or an address is this computer's own for itself alone.
bool is_this_computer(const std::string& name);
// True if a request's Host header is a name, in letters of any case, with any port.
bool names_host(std::string_view host, std::string_view name);
// True if a request's Host header means the server that listens at the address `own`. A name that
// leads to this server might be another site's, whose page then asks in its name: only addresses
// are known to be meant, and names of this computer's own. Any port: it may be forwarded.
bool is_own(const std::string& host, const std::string& own);
// True if the page of another site sent the request: it names itself as the origin. This server's
// own may have come through a proxy, by https.
bool is_of_other_page(const Request& request);

// True if a text is what browsers send as the Origin header of a site's pages: a scheme in small
// letters, a name or an address, and a port unless it is the scheme's own.
bool is_origin(std::string_view text);

// True if a Content-Type is JSON, with any parameters.
bool is_json(std::string_view content_type);

// An event of a stream, as it is sent.
std::string event(std::string_view name, const std::string& data);

}  // namespace tapegrad::http
