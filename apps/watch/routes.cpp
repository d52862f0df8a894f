#include "tapegrad/apps/watch/routes.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "tapegrad/apps/watch/page_files.h"
#include "tapegrad/apps/watch/report_html.h"
#include "tapegrad/base/text/number_text.h"
#include "tapegrad/base/version.h"

namespace tapegrad::watch {
namespace {

constexpr std::size_t kMostListBytes = std::size_t{4} << 20;
constexpr std::string_view kRuns = "/api/runs", kRun = "/api/runs/";

bool is_address(const std::string& text) {
  in6_addr place;
  return ::inet_pton(AF_INET, text.c_str(), &place) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &place) == 1;
}

// "localhost:8265" → "localhost", "[::1]:8265" → "::1"; "" for what is more than a name and a port.
std::string without_port(std::string_view host) {
  const bool brackets = host.starts_with('[');
  const std::size_t end = host.find(brackets ? ']' : ':');
  if (brackets && end == host.npos) return "";
  const std::string_view name = brackets ? host.substr(1, end - 1) : host.substr(0, end);
  std::string_view rest = end == host.npos ? "" : host.substr(end + (brackets ? 1 : 0));
  if (rest.empty()) return std::string(name);
  const char before = rest.front();
  rest.remove_prefix(1);
  const auto port = number_of<std::uint64_t>(rest);
  return before == ':' && port && *port <= UINT16_MAX ? std::string(name) : "";
}

bool is_this_computer(const std::string& name) {
  return name == "127.0.0.1" || name == "localhost" || name == "::1";
}

// A name that leads to this server might be another site's, whose page then asks in its name: only
// addresses are known to be meant, and names of this computer's own. Any port: it may be forwarded.
bool is_own(const std::string& host, const std::string& own) {
  const std::string name = without_port(host);
  const bool only_local = own == "127.0.0.1" || own == "::1";
  return is_this_computer(name) || name == own || (!only_local && is_address(name));
}

std::string type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

const PageFile* page_file(std::string_view path) {
  for (const PageFile& file : page_files()) {
    if (path == "/" ? file.name == "index.html" : path.substr(1) == file.name) return &file;
  }
  return nullptr;
}

Json description(const RunFiles& run, std::size_t id) {
  return {{"id", id},
          {"name", run.name()},
          {"folder", run.folder().string()},
          {"state", name_of(run.state())},
          {"reason", run.reason()},
          {"max_iters", run.max_iters() ? Json(*run.max_iters()) : Json()},
          {"options", run.options()},
          {"sessions", run.sessions()},
          {"notes", json_of_notes(run.notes())}};
}

// Without what may be large.
Json short_description(const RunFiles& run, std::size_t id) {
  Json json = description(run, id);
  json["options"] = Json::object();
  json["sessions"] = Json::array();
  json["short"] = true;
  return json;
}

// Where all descriptions together would be too long, the longest are cut.
Response list_runs(const RunList& runs, bool inspects, bool keeps_notes) {
  struct Described {
    std::size_t id;
    std::string text;
  };
  std::vector<Described> all;
  for (const auto& [id, run] : runs.runs()) all.push_back({id, json_text(description(*run, id))});
  std::vector<Described*> by_size;
  for (Described& described : all) by_size.push_back(&described);
  std::stable_sort(by_size.begin(), by_size.end(), [](const Described* a, const Described* b) {
    return a->text.size() < b->text.size();
  });
  std::size_t bytes = 0;
  for (Described* described : by_size) {
    bytes += described->text.size();
    if (bytes > kMostListBytes) {
      described->text = json_text(short_description(*runs.find(described->id), described->id));
    }
  }
  std::string list;
  for (const Described& described : all) list += (list.empty() ? "" : ",") + described.text;
  return {
      .body = fmt::format(
          R"({{"version":{},"inspect":{},"keeps_notes":{},"full":{},"folders":{},"runs":[{}]}})",
          json_text(TAPEGRAD_VERSION), inspects, keeps_notes, runs.is_full(),
          json_text(runs.folder_names()), list)};
}

// The run of "12/history", null if there is none, and what follows its number.
std::pair<RunFiles*, std::string_view> run_in(std::string_view rest, const RunList& runs) {
  const auto id = take_number<std::uint64_t>(rest);
  if (!id) return {};
  return {runs.find(*id), rest};
}

// Of a request that does something: only this server's own page may send it. A page of another site
// names itself as the origin; what it can send without asking is not application/json.
std::optional<Response> refusal_of_sender(const Request& request) {
  if (!request.origin.empty() && request.origin != "http://" + request.host) {
    return refusal(403, "the page of another site asks");
  }
  if (!request.content_type.starts_with("application/json")) {
    return refusal(415, "the body must be application/json");
  }
  return std::nullopt;
}

Answer keep_notes(const Request& request, RunFiles& run, bool keeps_notes) {
  if (const auto refused = refusal_of_sender(request)) return *refused;
  if (!keeps_notes) {
    return refusal(403, "with --host, others reach this page: notes are changed without it only");
  }
  RunNotes notes;
  try {
    notes = notes_of_json(parse_json<Json>(request.body, 2));
  } catch (const Error& error) {
    return refusal(400, error.what());
  }
  try {
    run.keep_notes(notes);
  } catch (const Error& error) {
    return refusal(409, fmt::format("the notes were not kept: {}", error.what()));
  }
  return Response{.body = json_text(json_of_notes(notes))};
}

Answer inspection(const Request& request, const RunList& runs, bool inspects) {
  if (const auto refused = refusal_of_sender(request)) return *refused;
  if (!inspects) return refusal(503, "the program tapegrad is not beside this one");
  Json body;
  try {
    body = parse_json<Json>(request.body, 2);
  } catch (const Error& error) {
    return refusal(400, error.what());
  }
  const auto member = [&](const char* name) {
    return body.is_object() ? body.value(name, Json()) : Json();
  };
  const Json run = member("run"), text = member("text");
  const RunFiles* files = run.is_number_unsigned() ? runs.find(run.get<std::size_t>()) : nullptr;
  if (files == nullptr) return refusal(400, "'run' must be the number of a run");
  if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
    return refusal(400, "'text' must be a text");
  }
  Inspection job{files->folder(), text.get<std::string>()};
  if (job.text.size() > kMostInspectedBytes) {
    return refusal(422, fmt::format("the text has {} bytes, and {} are the most", job.text.size(),
                                    kMostInspectedBytes));
  }
  return job;
}

// One file with its style in itself.
Response report_of_run(const RunFiles& run) {
  return {.type = "text/html; charset=utf-8",
          .body = report_of({&run}),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri "
                       "'none'; form-action 'none'; frame-ancestors 'none'"}}};
}

Answer wrong_method(const std::string& right) {
  Response response = refusal(405, right + " is the only method here");
  response.headers.emplace_back("Allow", right);
  return response;
}

}  // namespace

Response refusal(int status, const std::string& why) {
  return {.status = status, .body = json_text({{"error", why}})};
}

std::vector<std::pair<std::string, std::string>> usual_headers(const Response& response) {
  std::vector<std::pair<std::string, std::string>> headers = {
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

Answer answer(const Request& request, const RunList& runs, const std::string& host, bool inspects) {
  if (!is_own(request.host, host)) return refusal(403, "the Host header names another computer");
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  const bool gets = request.method == "GET";
  if (path == "/api/inspect") {
    return request.method == "POST" ? inspection(request, runs, inspects) : wrong_method("POST");
  }
  if (path == "/api/events") return gets ? Answer(Events()) : wrong_method("GET");
  const bool keeps_notes = is_this_computer(host);
  if (path == kRuns) return gets ? list_runs(runs, inspects, keeps_notes) : wrong_method("GET");
  if (path.starts_with(kRun)) {
    const auto [run, part] = run_in(path.substr(kRun.size()), runs);
    if (run != nullptr && part == "/history") {
      return gets ? Response{.body = run->history().json()} : wrong_method("GET");
    }
    if (run != nullptr && part == "/report.html") {
      return gets ? Answer(report_of_run(*run)) : wrong_method("GET");
    }
    if (run != nullptr && part == "/notes") {
      return request.method == "PUT" ? keep_notes(request, *run, keeps_notes) : wrong_method("PUT");
    }
    return refusal(404, "there is no such run, or no such part of it");
  }
  const PageFile* file = page_file(path);
  if (file == nullptr) return refusal(404, "there is nothing of that name");
  if (!gets) return wrong_method("GET");
  return Response{.type = type_of(file->name), .body = std::string(file->bytes)};
}

std::string event(std::string_view name, const std::string& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

}  // namespace tapegrad::watch
