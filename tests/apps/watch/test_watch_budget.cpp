// Folders of strangers cost the page bounded work.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include "tapegrad/apps/watch/routes.h"
#include "tapegrad/tests/apps/watch/watched_run.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::watch;

namespace {

// How many bytes this process has read until now. Nothing where the system does not count them.
std::optional<std::uint64_t> bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::uint64_t count = 0;
  while (file >> name >> count) {
    if (name == "rchar:") return count;
  }
  return std::nullopt;
}

std::uint64_t bytes_below(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

}  // namespace

TEST_CASE("a run and the list of runs take so much, whatever is in the files", "[watch]") {
  const WatchedRun watched;
  const auto options = [](int count, std::size_t size) {
    Json section = Json::object();
    for (int i = 0; i < count; ++i) section["option" + std::to_string(i)] = std::string(size, 'x');
    return json_text(Json{{"model", section}});
  };
  for (int i = 0; i < 100; ++i) {
    watched.folder.put(fmt::format("many/{}/config.json", i), options(100, 600));
  }
  watched.folder.put("huge/config.json", options(9000, 900));
  watched.folder.put("wide/config.json", options(240, 1000));
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    lines += fmt::format("{{\"first_step\":{},\"command\":\"{}\"}}\n", i, std::string(4000, 'c'));
  }
  watched.folder.put("wide/sessions.jsonl", lines);
  const auto before = bytes_read();
  RunList runs({}, {watched.folder.path()});
  REQUIRE(runs.runs().size() == 103);
  std::set<std::string> whole;
  for (const auto& [id, run] : runs.runs()) {
    run->read_all();
    CHECK(json_text(run->options()).size() < 66'000);
    if (run->name() == "huge") CHECK(run->options().empty());
    if (run->name() != "wide") continue;
    CHECK(run->options()["model"].size() > 50);
    CHECK(json_text(run->sessions()).size() < 66'000);
    CHECK(run->sessions().front()["first_step"] == 0);
    CHECK(run->sessions().back()["first_step"] == 29);
  }
  Request request;
  request.method = "GET", request.target = "/api/runs", request.host = "localhost";
  const Answer found = answer(request, runs, "127.0.0.1", false);
  const std::string& body = std::get<Response>(found).body;
  CHECK(body.size() < (5 << 20));
  // Each file is opened several times.
  if (before) CHECK(*bytes_read() - *before < 4 * bytes_below(watched.folder.path()));
  const Json list = Json::parse(body);
  CHECK(list["version"].is_string());
  CHECK(list["full"] == false);
  REQUIRE(list["runs"].size() == 103);
  for (const Json& run : list["runs"]) {
    if (run["name"] == "run") CHECK(run["options"]["model"]["n_layer"] == 4);
    if (!run["options"].empty()) whole.insert(run["name"].get<std::string>());
    CHECK(run.contains("short") == (run["options"].empty() && run["name"] != "huge"));
  }
  CHECK(whole.contains("run"));
  CHECK(whole.size() < 103);
}
