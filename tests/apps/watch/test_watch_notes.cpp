// Names, tags and notes of runs: what may be written, by whom, and where it is kept.

#include <sys/stat.h>

#include "tapegrad/apps/watch/run_files.h"
#include "tapegrad/apps/watch/run_notes.h"
#include "tapegrad/base/file.h"
#include "tapegrad/tests/apps/watch/browser.h"
#include "tapegrad/tests/apps/watch/watched_run.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::watch;
using namespace std::chrono_literals;

namespace {

const std::string kJson = "Content-Type: application/json\r\n";
const std::string kBody = R"({"name":"First","tags":["good"," good ",""],"text":"a\nb"})";

struct Noted : WatchedRun {
  Server server{options()};
  int port = server.port();

  Reply put(const std::string& body, const std::string& more = kJson,
            const std::string& host = "localhost") const {
    return ask(port, "PUT", "/api/runs/0/notes", more, body, host);
  }
  Json told() const { return Json::parse(get(port, "/api/runs").body)["runs"][0]["notes"]; }
  std::filesystem::path file() const { return run / kNotesFile; }
};

}  // namespace

TEST_CASE("notes of a run are kept in its folder, and open pages hear of them", "[watch]") {
  const Noted noted;
  CHECK(noted.told() == Json{{"name", ""}, {"tags", Json::array()}, {"text", ""}});
  await_lines(noted.port, 4);
  Browser page = open_events(noted.port);
  page.forget();
  const Json kept = {{"name", "First"}, {"tags", {"good"}}, {"text", "a\nb"}};
  const Reply reply = noted.put(kBody);
  CHECK(reply.status == 200);
  CHECK(Json::parse(reply.body) == kept);
  CHECK(noted.told() == kept);
  CHECK(page.gets("event: runs\ndata: {}\n\n", 60s));
  CHECK(Json::parse(read_file(noted.file())) == kept);
  const Server other(noted.options());
  CHECK(Json::parse(get(other.port(), "/api/runs").body)["runs"][0]["notes"] == kept);
  std::filesystem::remove(noted.file());
  CHECK(page.gets("event: runs\ndata: {}\n\n", 60s));
  ::usleep(500'000);
  CHECK(noted.told()["name"] == "");
}

TEST_CASE("pages of other sites, and other types than JSON, cannot write notes", "[watch]") {
  const Noted noted;
  CHECK(noted.put(kBody, kJson + "Origin: http://evil.example\r\n").status == 403);
  CHECK(noted.put(kBody, kJson + "Origin: null\r\n").status == 403);
  CHECK(noted.put(kBody, kJson + "Origin: http://localhost:1\r\n").status == 403);
  CHECK(noted.put(kBody, kJson, "evil.example").status == 403);
  CHECK(noted.put(kBody, "").status == 415);
  CHECK(noted.put(kBody, "Content-Type: text/plain\r\n").status == 415);
  for (const char* method : {"GET", "POST", "DELETE", "OPTIONS"}) {
    CAPTURE(method);
    const Reply reply = ask(noted.port, method, "/api/runs/0/notes", kJson, kBody);
    CHECK(reply.status == 405);
    CHECK(reply.head.find("Access-Control") == std::string::npos);
  }
  CHECK(ask(noted.port, "PUT", "/api/runs/1/notes", kJson, kBody).status == 404);
  CHECK_FALSE(std::filesystem::exists(noted.file()));
  CHECK(noted.put(kBody, kJson + "Origin: http://localhost\r\n").status == 200);
}

TEST_CASE("where others reach the page, notes can be read only", "[watch]") {
  const WatchedRun watched;
  ServerOptions options = watched.options();
  options.host = "0.0.0.0";
  const Server server(options);
  CHECK(Json::parse(get(server.port(), "/api/runs").body)["keeps_notes"] == false);
  const Reply reply = ask(server.port(), "PUT", "/api/runs/0/notes", kJson, kBody);
  CHECK(reply.status == 403);
  CHECK_THAT(reply.body, ContainsSubstring("--host"));
  CHECK_FALSE(std::filesystem::exists(watched.run / kNotesFile));
}

TEST_CASE("notes that are too long, or no notes, are refused with the reason", "[watch]") {
  const Noted noted;
  const auto put = [&](const Json& name, const Json& tags, const Json& text) {
    return noted.put(Json{{"name", name}, {"tags", tags}, {"text", text}}.dump()).status;
  };
  CHECK(put(std::string(kMostNoteName, 'x'), Json::array(), "") == 200);
  CHECK(put(std::string(kMostNoteName + 1, 'x'), Json::array(), "") == 400);
  CHECK(put("", Json::array(), std::string(kMostNoteBytes, 'x')) == 200);
  CHECK(put("", Json::array(), std::string(kMostNoteBytes + 1, 'x')) == 400);
  CHECK(put("", Json::array({std::string(kMostTagBytes + 1, 'x')}), "") == 400);
  Json tags = Json::array();
  for (std::size_t i = 0; i <= kMostTags; ++i) tags.push_back(std::to_string(i));
  CHECK(put("", tags, "") == 400);
  CHECK(put("a\nb", Json::array(), "") == 400);
  CHECK(put("", Json::array(), "a\x1b[31m") == 400);
  CHECK(put(7, Json::array(), "") == 400);
  CHECK(put("", "tag", "") == 400);
  CHECK(put("", Json::array({1}), "") == 400);
  for (const char* body : {"", "[]", "{}", "{", "null", "{\"name\":\"\xff\",\"tags\":[]}"}) {
    CAPTURE(body);
    const Reply reply = noted.put(body);
    CHECK(reply.status == 400);
    CHECK_THAT(reply.body, ContainsSubstring("error"));
  }
  CHECK(noted.put(std::string(100'000, ' ')).status == 413);
}

TEST_CASE("notes that cannot be written say why", "[watch]") {
  const Noted noted;
  std::filesystem::create_directory(noted.file());
  const Reply reply = noted.put(kBody);
  CHECK(reply.status == 409);
  CHECK_THAT(reply.body, ContainsSubstring("not kept"));
  CHECK_THAT(reply.body, ContainsSubstring("notes.json"));
  CHECK(noted.told()["name"] == "");
  if (::geteuid() == 0) return;  // whom no permission stops
  std::filesystem::remove(noted.file());
  REQUIRE(::chmod(noted.run.c_str(), 0500) == 0);
  CHECK_THAT(noted.put(kBody).body, ContainsSubstring("ermission denied"));
  ::chmod(noted.run.c_str(), 0700);
}

TEST_CASE("notes are not written to where a run folder leads since it became a link", "[watch]") {
  const WatchedRun watched;
  const auto other = watched.folder / "elsewhere";
  std::filesystem::create_directory_symlink(watched.run, watched.folder / "given");
  RunFiles run(watched.run), given(watched.folder / "given");
  given.keep_notes({.name = "mine", .tags = {}, .text = ""});
  CHECK(read_notes(watched.run).name == "mine");
  std::filesystem::remove(watched.run / kNotesFile);
  std::filesystem::rename(watched.run, other);
  std::filesystem::create_directory_symlink(other, watched.run);
  for (RunFiles* files : {&run, &given}) {
    CHECK_THROWS_WITH(files->keep_notes({}), ContainsSubstring("has become a link to"));
  }
  CHECK_FALSE(std::filesystem::exists(watched.run / kNotesFile));
}

TEST_CASE("a file of notes that is broken, long or a link is none", "[watch]") {
  const WatchedRun watched;
  const auto read = [&](const std::string& bytes) {
    watched.folder.put("run/notes.json", bytes);
    return read_notes(watched.run);
  };
  CHECK(read(kBody).name == "First");
  CHECK(read("{") == RunNotes());
  CHECK(read(R"({"name":1,"tags":[],"text":""})") == RunNotes());
  CHECK(read(kBody + std::string(100'000, ' ')) == RunNotes());
  const std::filesystem::path outside = watched.folder.path() / "outside.json";
  watched.folder.put("outside.json", kBody);
  std::filesystem::remove(watched.run / kNotesFile);
  std::filesystem::create_symlink(outside, watched.run / kNotesFile);
  CHECK(read_notes(watched.run) == RunNotes());
  write_notes(watched.run, {.name = "mine", .tags = {}, .text = ""});  // replaces the link
  CHECK(read_notes(watched.run).name == "mine");
  CHECK(read_file(outside) == kBody);
}
