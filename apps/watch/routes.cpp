#include "tapegrad/apps/watch/routes.h"

#include <algorithm>
#include <optional>

#include "tapegrad/apps/watch/page_files.h"
#include "tapegrad/apps/watch/report/report_html.h"
#include "tapegrad/base/text/internal/cut_text.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/base/version.h"

namespace tapegrad::watch {
namespace {

constexpr std::size_t kMostListBytes = std::size_t{4} << 20;
constexpr std::string_view kRuns = "/api/runs", kRun = "/api/runs/";

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
Response list_runs(const RunList& runs, bool inspects, bool is_local) {
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
          R"({{"version":{},"inspect":{},"talk":{},"keeps_notes":{},"full":{},"folders":{},"runs":[{}]}})",
          json_text(TAPEGRAD_VERSION), inspects, inspects && is_local, is_local, runs.is_full(),
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
  if (http::is_of_other_page(request)) return refusal(403, "the page of another site asks");
  if (!http::is_json(request.content_type)) {
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

// A request for what another program makes of a run: {"run": 0, …}.
struct AskedOfRun {
  Json body;
  const RunFiles* run;
};
std::variant<Response, AskedOfRun> asked_of_run(const Request& request, const RunList& runs,
                                                bool inspects) {
  if (auto refused = refusal_of_sender(request)) return *std::move(refused);
  if (!inspects) return refusal(503, "the program tapegrad is not beside this one");
  Json body;
  try {
    body = parse_json<Json>(request.body, 2);
  } catch (const Error& error) {
    return refusal(400, error.what());
  }
  const Json run = body.is_object() ? body.value("run", Json()) : Json();
  const RunFiles* files = run.is_number_unsigned() ? runs.find(run.get<std::size_t>()) : nullptr;
  if (files == nullptr) return refusal(400, "'run' must be the number of a run");
  return AskedOfRun{std::move(body), files};
}

Answer talk(const Request& request, const RunList& runs, bool inspects, bool is_local) {
  const auto asked = asked_of_run(request, runs, inspects);
  if (const auto* refused = std::get_if<Response>(&asked)) return *refused;
  if (!is_local) {
    return refusal(403, "with --host, others reach this page: tapegrad serve has models for them");
  }
  return Talk{std::get<AskedOfRun>(asked).run->folder()};
}

Answer inspection(const Request& request, const RunList& runs, bool inspects) {
  const auto asked = asked_of_run(request, runs, inspects);
  if (const auto* refused = std::get_if<Response>(&asked)) return *refused;
  const auto& [body, files] = std::get<AskedOfRun>(asked);
  const Json text = body.value("text", Json());
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

Answer answer(const Request& request, const RunList& runs, const std::string& host, bool inspects) {
  if (!http::is_own(request.host, host))
    return refusal(403, "the Host header names another computer");
  const std::string_view path = request.path();
  const bool gets = request.method == "GET";
  if (path == "/api/inspect") {
    return request.method == "POST" ? inspection(request, runs, inspects) : wrong_method("POST");
  }
  const bool is_local = http::is_this_computer(host);
  if (path == "/api/talk") {
    return request.method == "POST" ? talk(request, runs, inspects, is_local)
                                    : wrong_method("POST");
  }
  if (path == "/api/events") return gets ? Answer(Events()) : wrong_method("GET");
  if (path == kRuns) return gets ? list_runs(runs, inspects, is_local) : wrong_method("GET");
  if (path.starts_with(kRun)) {
    const auto [run, part] = run_in(path.substr(kRun.size()), runs);
    if (run != nullptr && part == "/history") {
      return gets ? Response{.body = run->history().json()} : wrong_method("GET");
    }
    if (run != nullptr && part == "/report.html") {
      return gets ? Answer(report_of_run(*run)) : wrong_method("GET");
    }
    if (run != nullptr && part == "/notes") {
      return request.method == "PUT" ? keep_notes(request, *run, is_local) : wrong_method("PUT");
    }
    return refusal(404, "there is no such run, or no such part of it");
  }
  auto file = http::page_response(page_files(), path);
  if (!file) return refusal(404, fmt::format("No page {}.", cut_text(path)));
  return gets ? Answer(std::move(*file)) : wrong_method("GET");
}

}  // namespace tapegrad::watch
