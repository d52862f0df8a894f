// `serve --models-dir`: which models there are, and what becomes of those that cannot be loaded.

#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <set>
#include <string>

#include "tapegrad/tests/apps/serve/models/many_models.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

Result refused(const Args& args) { return run_program("serve", args + Args{"--port", "0"}); }

Args names_of(const RunningServer& server) {
  Args names;
  const Fields listed = Fields::parse(get(server.port, "/v1/models").body);
  for (const Fields& model : listed["data"]) names.push_back(model["id"]);
  return names;
}

// Which files in a folder somebody opens.
class OpenedFiles {
 public:
  explicit OpenedFiles(const fs::path& folder) {
    REQUIRE(inotify_add_watch(events_, folder.c_str(), IN_OPEN) >= 0);
  }
  ~OpenedFiles() { close(events_); }
  OpenedFiles(const OpenedFiles&) = delete;
  OpenedFiles& operator=(const OpenedFiles&) = delete;

  // Their names since the last call. What is no file, and the folder itself, do not count.
  std::set<std::string> take() const {
    std::set<std::string> names;
    alignas(inotify_event) char bytes[4096];
    for (ssize_t size; (size = read(events_, bytes, sizeof bytes)) > 0;) {
      const auto* event = reinterpret_cast<const inotify_event*>(bytes);
      for (const char* end = bytes + size; reinterpret_cast<const char*>(event) < end;) {
        if (event->len > 0 && (event->mask & IN_ISDIR) == 0) names.insert(event->name);
        event = reinterpret_cast<const inotify_event*>(event->name + event->len);
      }
    }
    return names;
  }

 private:
  int events_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
};

}  // namespace

TEST_CASE("serve --models-dir lists models of all kinds, and loads each when a request names it",
          "[serve]") {
  const ManyModels models({"alpha"});
  const TinyRun run(5);
  fs::create_directory_symlink(run.run, models.path / "notes");
  fs::copy(fs::path(tapegrad::places::kSources) / "tests/golden/gguf_llama.gguf",
           models.path / "packed.v2.gguf");
  models.put("README.md", "Nothing to see here.");
  models.put("drafts/text.txt", "Nor here.");
  models.put(".hidden/config.json", "{}");
  FolderServer server(models.path);
  CHECK_THAT(server.program().out(), ContainsSubstring("3 models"));
  const Fields listed = Fields::parse(get(server.port, "/v1/models").body);
  CHECK(listed["object"] == "list");
  REQUIRE(names_of(server) == Args{"alpha", "notes", "packed.v2"});
  for (const Fields& model : listed["data"]) {
    INFO(model.dump());
    CHECK(model["object"] == "model");
    CHECK(model["status"]["value"] == "unloaded");
    CHECK(model["meta"]["memory_bytes"] > model["meta"]["weight_bytes"]);
  }
  const Fields meta = listed["data"][0]["meta"];
  CHECK((meta["n_vocab"] == 404 && meta["n_ctx"] == 512 && meta["n_embd"] == 16));
  CHECK(meta["chat"] == true);
  CHECK(listed["data"][1]["meta"]["chat"] == false);

  const Fields greedy = {{"prompt", "the cat"}, {"temperature", 0}, {"max_tokens", 5}};
  for (const auto& [name, path] : {std::pair{"notes", run.run},
                                   {"packed.v2", models.path / "packed.v2.gguf"},
                                   {"alpha", models.path / "alpha"}}) {
    Fields body = greedy;
    body["model"] = name;
    const Fields answer = server.ask_for("/v1/completions", body);
    CHECK(answer["model"] == name);
    CHECK(answer["choices"][0]["text"] ==
          sampled("the cat", {"--greedy", "--max-new-tokens", "5"}, path));
    CHECK(status_of(server, name) == "loaded");
  }
  CHECK(server.metric("tapegrad_tokens_total") > 0);
  server.program().send(SIGTERM);
  const Result ended = server.program().wait();
  CHECK(ended.code == 0);
  CHECK_THAT(ended.err, ContainsSubstring("passes over " + (models.path / "README.md").string()));
  CHECK_THAT(ended.err, ContainsSubstring("passes over " + (models.path / "drafts").string()));
  CHECK_THAT(ended.err, !ContainsSubstring(".hidden"));
}

TEST_CASE("all endpoints that need a model load it", "[serve]") {
  const ManyModels models({"a"});
  const Args one = {"--cache-memory", "1"};
  const FolderServer tokens(models.path, one), embeddings(models.path, one),
      chats(models.path, one);
  CHECK(tokens.ask_for("/tokenize", {{"model", "a"}, {"content", "once"}})["tokens"].size() > 0);
  CHECK(embeddings.ask_for("/v1/embeddings", {{"model", "a"}, {"input", "once"}})["model"] == "a");
  // A single model needs no name.
  CHECK(
      chats.ask_for("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                                             {"max_tokens", 2}})["model"] == "a");
}

TEST_CASE("names that no model has are refused, and are never paths", "[serve]") {
  const ManyModels models({"a", "b"});
  models.folder.put("outside/config.json", TempFolder::get(models.path / "a/config.json"));
  const FolderServer server(models.path);
  const Args names = {"c",
                      "",
                      "a/",
                      "./a",
                      "../a",
                      "../models/a",
                      "../outside",
                      "a/../b",
                      (models.path / "a").string(),
                      "a%00",
                      std::string(5000, 'x')};
  for (const std::string& name : names) {
    const Fields error = error_of(server.send("/v1/completions", {{"model", name}}), 404);
    CHECK(error["code"] == "model_not_found");
    CHECK(error["param"] == "model");
  }
  CHECK(error_of(server.send("/v1/completions", {{"model", "c"}}), 404)["message"] ==
        "there is no model 'c' here, only 'a', 'b'");
  CHECK_THAT(error_of(server.send("/v1/completions", {{"prompt", "x"}}), 400)["message"],
             ContainsSubstring("'model' is missing"));
  CHECK(server.send("/v1/completions", {{"model", 7}}).status == 400);
  CHECK(server.send("/v1/completions", Fields::array()).status == 400);
  for (const std::string path : {"c", "../outside", "..%2foutside", "%2e%2e/outside", "a/../b",
                                 "a%", "%6", "%6g", "%zz", "a%00", "%2061"}) {
    CHECK(get(server.port, "/v1/models/" + path).status == 404);
  }
  CHECK(told_of(server.port, "%61")["id"] == "a");
  CHECK(status_of(server, "a") == "unloaded");
}

TEST_CASE("a model in several files is listed once", "[serve]") {
  const ManyModels models({"My Model"});
  const fs::path gguf = fs::path(tapegrad::places::kSources) / "tests/golden/gguf_llama.gguf";
  for (const char* name : {"big-00001-of-00002", "big-00002-of-00002", "v-0001-of-00002"}) {
    fs::copy(gguf, models.path / (std::string(name) + ".gguf"));
  }
  const FolderServer server(models.path);
  CHECK(names_of(server) == Args{"My Model", "big-00001-of-00002", "v-0001-of-00002"});
  CHECK(told_of(server.port, "My%20Model")["id"] == "My Model");
}

TEST_CASE("a model may come and go while the server runs", "[serve]") {
  const ManyModels models({"a"});
  const FolderServer server(models.path);
  CHECK(server.send("/v1/completions", request_for("b")).status == 404);
  models.add("b");
  CHECK(server.text(request_for("b")) == alone(models.path / "b"));
  models.add("c");
  CHECK(names_of(server) == Args{"a", "b", "c"});
  CHECK(status_of(server, "b") == "loaded");
  fs::remove_all(models.path / "c");
  CHECK(server.send("/v1/completions", request_for("c")).status == 404);
  CHECK(names_of(server) == Args{"a", "b"});
  // One that would be called as another one is stays out.
  fs::copy(fs::path(tapegrad::places::kSources) / "tests/golden/gguf_llama.gguf",
           models.path / "b.gguf");
  CHECK(names_of(server) == Args{"a", "b"});
  CHECK(server.text(request_for("b")) == alone(models.path / "b"));
}

TEST_CASE("a name that no model has opens no file, but for those that have changed", "[serve]") {
  const ManyModels models({"a"});
  const fs::path gguf = fs::path(tapegrad::places::kSources) / "tests/golden/gguf_llama.gguf";
  const std::string bytes = TempFolder::get(gguf);
  models.put("text.txt", "Nothing to see here.");
  models.put("other.bin", std::string(bytes.size(), 'x'));
  fs::copy(gguf, models.path / "a.first.gguf");
  const FolderServer server(models.path);
  const OpenedFiles opened(models.path);
  const auto ask = [&](const std::string& name) {
    return server.send("/v1/completions", request_for(name)).status;
  };
  const std::set<std::string> none;
  for (int i = 0; i < 3; ++i) {
    CHECK(ask("nothing") == 404);
    CHECK(opened.take() == none);
  }
  // Two models of one name: the second one stays out, and is not read for that.
  fs::copy(gguf, models.path / "a.gguf");
  opened.take();  // by the copy
  CHECK(ask("nothing") == 404);
  CHECK(opened.take() == std::set<std::string>{"a.gguf"});
  CHECK(ask("nothing") == 404);
  CHECK(opened.take() == none);
  // Another text of the same size and time, and other rights.
  const auto time = fs::last_write_time(models.path / "other.bin");
  models.put("other.bin", bytes);
  fs::last_write_time(models.path / "other.bin", time);
  fs::permissions(models.path / "text.txt", fs::perms::owner_read);
  opened.take();
  CHECK(ask("nothing") == 404);
  CHECK(opened.take() == std::set<std::string>{"other.bin", "text.txt"});
  CHECK(names_of(server) == Args{"a", "a.first", "other"});
}

TEST_CASE("a broken model is refused with the reason, and tried again when its files change",
          "[serve]") {
  const ManyModels models({"a", "b"});
  const std::string config = TempFolder::get(models.path / "b/config.json");
  const std::string weights = TempFolder::get(models.path / "b/model.safetensors");
  FolderServer server(models.path);
  const auto check_broken = [&](const std::string& why) {
    for (int i = 0; i < 2; ++i) {
      const Fields error = error_of(server.send("/v1/completions", request_for("b")), 500);
      CHECK(error["code"] == "model_broken");
      const std::string message = error["message"];
      CHECK_THAT(message, ContainsSubstring("'b'") && ContainsSubstring(why));
      CHECK_THAT(message, !ContainsSubstring(models.folder.path().string()));
    }
    const Fields told = told_of(server.port, "b");
    CHECK(told["status"]["value"] == "failed");
    CHECK_THAT(told["status"]["error"].get<std::string>(), ContainsSubstring(why));
    CHECK(server.text(request_for("a")) == alone(models.path / "a"));
  };
  models.put("b/model.safetensors", weights.substr(0, weights.size() / 2));
  check_broken("b/model.safetensors");
  models.put("b/model.safetensors", weights);
  models.put("b/config.json", "{");
  check_broken("b/config.json");
  models.put("b/config.json", config);
  CHECK(server.text(request_for("b")) == alone(models.path / "b"));
  CHECK(status_of(server, "b") == "loaded");
}

TEST_CASE("options that make no sense for a folder of models are refused", "[serve]") {
  const ManyModels models({"a"});
  const std::string folder = models.path;
  const auto check_usage = [&](const Args& args, const std::string& why) {
    const Result r = refused(args);
    CHECK(r.code == 2);
    CHECK_THAT(r.err, ContainsSubstring(why));
  };
  for (const Args& args : {Args{"--name", "x"}, Args{"--lora", "x=y"}, Args{"--follow"},
                           Args{"--checkpoint", "best"}, Args{"--model", folder}, Args{folder}}) {
    check_usage(Args{"--models-dir", folder} + args, "--models-dir serves all models of a folder");
  }
  check_usage({folder, "--models-memory", "5"}, "--models-memory needs --models-dir");
  const auto check_refused = [&](const Args& args, const std::string& why) {
    const Result r = refused(args);
    CHECK(r.code == 1);
    CHECK_THAT(r.err, ContainsSubstring(why));
  };
  check_refused({"--models-dir", models.folder / "nothing"}, "is no folder");
  fs::copy(fs::path(tapegrad::places::kSources) / "tests/golden/gguf_llama.gguf",
           models.path / "a.gguf");
  check_refused({"--models-dir", folder}, "would both be called 'a'");
}

TEST_CASE("--lookup proposes for each model of a folder, and /metrics counts that", "[serve]") {
  const ManyModels models({"a", "b"});
  const FolderServer server(models.path, {"--lookup", "8"});
  double before = 0;
  for (const char* name : {"a", "b"}) {
    server.ask_for("/v1/completions", {{"model", name},
                                       {"prompt", "the cat the cat the cat"},
                                       {"temperature", 0},
                                       {"max_tokens", 100},
                                       {"ignore_eos", true}});
    const double proposed = server.metric("tapegrad_proposed_tokens_total");
    CHECK(proposed > before);
    before = proposed;
  }
}
