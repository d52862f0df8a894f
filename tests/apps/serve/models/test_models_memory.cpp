// Models of `serve --models-dir` that are loaded and dropped while others answer.

#include <thread>

#include "tapegrad/tests/apps/serve/models/many_models.h"

namespace {

// Each of the tiny models takes 2 MiB and 49 KiB.
const Args kTwoMebi = {"--parallel", "64", "--cache-memory", "2"};
const Args kRoomForTwo = kTwoMebi + Args{"--models-memory", "5"};

// The text of a stream that has ended well.
std::string text_in(const Reply& reply) {
  INFO(reply.head << "\n" << reply.body);
  CHECK(reply.status == 200);
  CHECK(reply.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  std::size_t at = 0;
  for (std::size_t end; (end = reply.body.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string data = reply.body.substr(at + 6, end - at - 6);
    if (data == "[DONE]") break;
    const Fields event = Fields::parse(data);
    if (event.contains("error")) return event.dump();
    text += event["choices"][0]["text"].get<std::string>();
  }
  return text;
}

}  // namespace

TEST_CASE("two models stream at once, each the text that it writes alone", "[serve]") {
  const ManyModels models({"a", "b"});
  const FolderServer server(models.path, kTwoMebi);
  std::vector<Browser> browsers;
  for (int i = 0; i < 6; ++i) {
    Fields body = request_for(i % 2 == 0 ? "a" : "b", i, 200);
    body["stream"] = true;
    browsers.push_back(begun(server.port, body));
  }
  Args texts;
  for (Browser& browser : browsers) texts.push_back(text_in(reply_in(browser.rest())));
  for (int i = 0; i < 6; ++i) {
    CHECK(texts[static_cast<std::size_t>(i)] ==
          alone(models.path / (i % 2 == 0 ? "a" : "b"), i, 200));
  }
  CHECK(alone(models.path / "a") != alone(models.path / "b"));
  CHECK(server.comes_to("tapegrad_texts_running", 0));
}

TEST_CASE("the model that was used the longest ago makes room for the next one", "[serve]") {
  const ManyModels models({"a", "b", "c"});
  const FolderServer server(models.path, kRoomForTwo);
  const auto check_loaded = [&](const std::string& asked, const Args& loaded) {
    CHECK(server.text(request_for(asked)) == alone(models.path / asked));
    Args found;
    for (const char* name : {"a", "b", "c"}) {
      if (status_of(server, name) == "loaded") found.push_back(name);
    }
    CHECK(found == loaded);
  };
  check_loaded("a", {"a"});
  check_loaded("b", {"a", "b"});
  check_loaded("a", {"a", "b"});
  check_loaded("c", {"a", "c"});
  check_loaded("b", {"b", "c"});
  check_loaded("a", {"a", "b"});
  // Counters go on.
  CHECK(server.comes_to("tapegrad_tokens_total", 6 * 29));
}

TEST_CASE("a model that does not fit is refused with the bytes, and drops no other one",
          "[serve]") {
  const ManyModels models({"a", "b"});
  models.add_large("large");
  const FolderServer server(models.path, kRoomForTwo);
  CHECK(server.text(request_for("a")) == alone(models.path / "a"));
  const Fields error = error_of(server.send("/v1/completions", request_for("large")), 503);
  CHECK(error["code"] == "model_too_large");
  const std::string needed = told_of(server.port, "large")["meta"]["memory_bytes"].dump();
  CHECK(std::stoll(needed) > 192'000'000);
  CHECK_THAT(error["message"].get<std::string>(),
             ContainsSubstring("needs " + needed + " bytes") && ContainsSubstring("have 5242880"));
  CHECK(status_of(server, "large") == "failed");
  CHECK(status_of(server, "a") == "loaded");
}

TEST_CASE("requests for models that take turns in memory get their own texts", "[serve]") {
  const ManyModels models({"a", "b", "c"});
  const Args names = {"a", "b", "c"};
  const FolderServer server(models.path, kRoomForTwo);
  Args texts(30);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      const Reply reply =
          server.send("/v1/completions", request_for(names[i % 3], static_cast<int>(i)));
      if (reply.status == 200) texts[i] = Fields::parse(reply.body)["choices"][0]["text"];
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(texts[i] == alone(models.path / names[i % 3], static_cast<int>(i)));
  }
}
