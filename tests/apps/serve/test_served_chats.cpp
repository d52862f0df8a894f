// Messages of chats, as clients send them.

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

}  // namespace

TEST_CASE("fields that change nothing of a chat are taken", "[serve]") {
  const Fields plain = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 3}};
  const Fields body = Fields::parse(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a",
          "cache_control":{"type":"ephemeral"}}],"id":1,"opts":{"visible":false}}],"max_tokens":3,
          "parallel_tool_calls":false,"tool_choice":"auto"})");
  CHECK(server().ask_for("/v1/chat/completions", body)["usage"] ==
        server().ask_for("/v1/chat/completions", plain)["usage"]);
}

TEST_CASE("a message of a chat that spells a special token is text, and the log counts it",
          "[serve]") {
  const std::string content = "a<|endoftext|>b";
  const Fields body = {{"messages", {{{"role", "user"}, {"content", content}}}}, {"max_tokens", 1}};
  const auto prompt_tokens = [&](const RunningServer& s) {
    return s.ask_for("/v1/chat/completions", body)["usage"]["prompt_tokens"].get<std::size_t>();
  };
  const auto tokens = [&](bool special) {
    return server()
        .ask_for("/tokenize", {{"content", "[user] " + content + "\n[assistant]"},
                               {"parse_special", special}})["tokens"]
        .size();
  };
  REQUIRE(tokens(true) < tokens(false));
  RunningServer logs;
  CHECK(prompt_tokens(logs) == tokens(false));
  logs.program().send(SIGTERM);
  CHECK_THAT(logs.program().wait().err, ContainsSubstring("+1 tokens, 1 special spelled "));
  CHECK(prompt_tokens(RunningServer({"--special-in-messages"})) == tokens(true));
}
