#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tapegrad/tests/apps/tiny_args.h"
#include "tapegrad/tests/apps/watch/browser.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

using Fields = nlohmann::json;  // of requests and answers

// A folder with a tiny Qwen2 of 404 tokens, whose texts are any bytes, with room for 512 tokens and
// a template for conversations.
struct TinyChatModel {
  TempFolder folder;
  std::filesystem::path path = folder / "tiny-chat";

  TinyChatModel() {
    const std::filesystem::path golden =
        std::filesystem::path(tapegrad::places::kSources) / "tests/golden/hf_qwen2";
    Fields config = Fields::parse(TempFolder::get(golden / "config.json"));
    config["max_position_embeddings"] = 512;
    folder.put("tiny-chat/config.json", config.dump());
    for (const char* name : {"model.safetensors", "tokenizer.json"}) {
      std::filesystem::copy_file(golden / name, path / name);
    }
    folder.put("tiny-chat/tokenizer_config.json",
               Fields{{"eos_token", "<|endoftext|>"},
                      {"chat_template",
                       "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no "
                       "tools') }}{% endif %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
                       "{% if add_generation_prompt %}[assistant]{% endif %}"}}
                   .dump());
  }
};

inline const TinyChatModel& tiny_chat_model() {
  static const TinyChatModel model;
  return model;
}

// A number of a server's /metrics.
inline double metric_of(int port, const std::string& name) {
  const std::string text = get(port, "/metrics").body;
  const std::size_t place = text.find("\n" + name + " ");
  return place == text.npos ? -1 : std::stod(text.substr(place + name.size() + 2));
}

// `serve` with a model, at a port of its own.
class RunningServer {
 public:
  explicit RunningServer(const Args& more = {},
                         const std::filesystem::path& model = tiny_chat_model().path)
      : RunningServer("--model", model, more) {}

  Reply send(const std::string& path, const Fields& body, const std::string& more = "") const {
    return ::post(port, path, body.dump(), "Content-Type: application/json\r\n" + more);
  }
  // The answer to a request that is in order. It asserts, as events() does: for one thread alone.
  Fields ask_for(const std::string& path, const Fields& body) const {
    const Reply reply = send(path, body);
    INFO(path << " " << body.dump() << "\n" << reply.head << "\n" << reply.body);
    REQUIRE(reply.status == 200);
    return Fields::parse(reply.body);
  }
  // The names in the header of an answer that has been made.
  std::string ignored(const std::string& path, const Fields& body) const {
    const Reply reply = send(path, body);
    INFO(body.dump() << "\n" << reply.body);
    CHECK(reply.status == 200);
    const std::string name = "X-Tapegrad-Ignored: ";
    const std::size_t begin = reply.head.find(name);
    if (begin == std::string::npos) return "";
    const std::size_t value = begin + name.size();
    return reply.head.substr(value, reply.head.find("\r\n", value) - value);
  }
  // The first text of an answer of /v1/completions.
  std::string text(const Fields& body) const {
    return ask_for("/v1/completions", body)["choices"][0]["text"].get<std::string>();
  }
  // The events of an answer, without [DONE], which must be there.
  std::vector<Fields> events(const std::string& path, Fields body) const {
    body["stream"] = true;
    const Reply reply = send(path, body);
    INFO(reply.head << "\n" << reply.body);
    REQUIRE(reply.status == 200);
    CHECK_THAT(reply.head, ContainsSubstring("Content-Type: text/event-stream"));
    std::vector<Fields> events;
    std::size_t at = 0;
    for (std::size_t end; (end = reply.body.find("\n\n", at)) != std::string::npos; at = end + 2) {
      const std::string event = reply.body.substr(at, end - at);
      REQUIRE(event.starts_with("data: "));
      if (event == "data: [DONE]") {
        CHECK(end + 2 == reply.body.size());
        return events;
      }
      events.push_back(Fields::parse(event.substr(6)));
    }
    FAIL("the stream has no end: " << reply.body);
    return {};
  }
  double metric(const std::string& name) const { return metric_of(port, name); }
  bool comes_to(const std::string& name, double value) const {
    for (int i = 0; i < 500; ++i) {
      if (metric(name) == value) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  Program& program() { return program_; }
  int port = 0;

 protected:
  RunningServer(const std::string& option, const std::filesystem::path& path, const Args& more)
      : program_("serve", Args{option, path, "--port", "0", "--threads", "1"} + more) {
    const std::string begin = "serving: http://127.0.0.1:";
    program_.wait_for(begin);
    program_.wait_for("(Ctrl-C");
    const std::string out = program_.out();
    port = std::stoi(out.substr(out.find(begin) + begin.size()));
  }

 private:
  Program program_;
};

// The text of `sample-text` for a prompt.
inline std::string sampled(const std::string& prompt, const Args& args,
                           const std::filesystem::path& model = tiny_chat_model().path) {
  const Result result = run_program(
      "sample-text", Args{"--model", model, "--prompt", prompt, "--json", "--threads", "1"} + args);
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  return Fields::parse(result.out)["text"].get<std::string>();
}
