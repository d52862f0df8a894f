#include "tapegrad/apps/http/message.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::http {
namespace {

bool is_address(const std::string& text) {
  in6_addr place;
  return ::inet_pton(AF_INET, text.c_str(), &place) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &place) == 1;
}

std::string lower_case(std::string_view text) {
  std::string made(text);
  for (char& c : made) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return made;
}

// "LocalHost:8265" → "localhost", "[::1]:8265" → "::1"; "" for what is more than a name and a port.
std::string without_port(std::string_view host) {
  const bool brackets = host.starts_with('[');
  const std::size_t end = host.find(brackets ? ']' : ':');
  if (brackets && end == host.npos) return "";
  const std::string_view name = brackets ? host.substr(1, end - 1) : host.substr(0, end);
  std::string_view rest = end == host.npos ? "" : host.substr(end + (brackets ? 1 : 0));
  if (rest.empty()) return lower_case(name);
  const char before = rest.front();
  rest.remove_prefix(1);
  const auto port = number_of<std::uint64_t>(rest);
  return before == ':' && port && *port <= UINT16_MAX ? lower_case(name) : "";
}

}  // namespace

Headers usual_headers(const Response& response) {
  Headers headers = {
      {"Content-Type", response.type},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cache-Control", "no-store"},
      {"Content-Security-Policy",
       "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action "
       "'none'; frame-ancestors 'none'"}};
  headers.insert(headers.end(), response.headers.begin(), response.headers.end());
  return headers;
}

std::string type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

bool is_this_computer(const std::string& name) {
  return name == "127.0.0.1" || name == "localhost" || name == "::1";
}

bool names_host(std::string_view host, std::string_view name) {
  return !name.empty() && without_port(host) == lower_case(name);
}

bool is_own(const std::string& host, const std::string& own) {
  const std::string name = without_port(host);
  const bool only_local = own == "127.0.0.1" || own == "::1";
  return is_this_computer(name) || names_host(host, own) || (!only_local && is_address(name));
}

bool is_of_other_page(const Request& request) {
  return !request.origin.empty() && request.origin != "http://" + request.host &&
         request.origin != "https://" + request.host;
}

bool is_origin(std::string_view text) {
  const std::size_t end = text.find("://");
  if (end == text.npos) return false;
  const std::string_view scheme = text.substr(0, end), place = text.substr(end + 3);
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '+';
  };
  const auto is_place = [&](char c) {
    return is_letter(c) || c == ':' || c == '[' || c == ']' || c == '_';
  };
  const bool usual_port = (scheme == "http" && place.ends_with(":80")) ||
                          (scheme == "https" && place.ends_with(":443"));
  return !scheme.empty() && std::all_of(scheme.begin(), scheme.end(), is_letter) &&
         std::all_of(place.begin(), place.end(), is_place) && !without_port(place).empty() &&
         !usual_port;
}

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return lower_case(type) == "application/json";
}

std::string event(std::string_view name, const std::string& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

}  // namespace tapegrad::http
