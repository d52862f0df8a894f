// /v1/responses: what is said, at once and in events.

#include <signal.h>

#include "tapegrad/tests/apps/serve/running_server.h"

using namespace std::chrono_literals;

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

constexpr const char* kPath = "/v1/responses";
const Fields kItems = {{{"role", "user"}, {"content", "hello"}}};
const Fields kDraws = {{"seed", 4}, {"top_k", 40}};

Fields with(Fields body, const Fields& more) {
  body.update(more);
  return body;
}

// The events of a text that is a stream, each of which must have the name that it is of the type
// of.
std::vector<Fields> events_in(const std::string& text) {
  std::vector<Fields> events;
  std::size_t at = 0;
  for (std::size_t end; (end = text.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::size_t data = text.find("\ndata: ", at);
    REQUIRE(data < end);
    events.push_back(Fields::parse(text.substr(data + 7, end - data - 7)));
    CHECK(text.substr(at, data - at) == "event: " + events.back()["type"].get<std::string>());
    CHECK(events.back()["sequence_number"] == events.size() - 1);
  }
  CHECK(at == text.size());
  return events;
}

std::vector<Fields> events_of(Fields body) {
  body["stream"] = true;
  const Reply reply = server().send(kPath, body);
  INFO(reply.head << "\n" << reply.body);
  REQUIRE(reply.status == 200);
  CHECK_THAT(reply.head, ContainsSubstring("Content-Type: text/event-stream"));
  return events_in(reply.body);
}

// Without what differs between two answers that are the same.
Fields without_ids(Fields response) {
  for (const char* name : {"id", "created_at"}) response.erase(name);
  for (Fields& item : response["output"]) item.erase("id");
  return response;
}

struct LongModel : TinyChatModel {
  LongModel() {
    Fields config = Fields::parse(TempFolder::get(path / "config.json"));
    config["max_position_embeddings"] = 65536;
    folder.put("tiny-chat/config.json", config.dump());
  }
};

}  // namespace

TEST_CASE("a response has the text of a chat completion, for the same messages and seed",
          "[serve]") {
  const Fields body =
      with({{"instructions", "be brief"}, {"input", "hello"}, {"max_output_tokens", 20}}, kDraws);
  const Fields response = server().ask_for(kPath, body);
  const Fields chat = server().ask_for("/v1/chat/completions",
                                       with({{"messages",
                                              {{{"role", "system"}, {"content", "be brief"}},
                                               {{"role", "user"}, {"content", "hello"}}}},
                                             {"max_tokens", 20}},
                                            kDraws));
  CHECK(response["object"] == "response");
  CHECK(response["id"].get<std::string>().starts_with("resp_"));
  CHECK(response["model"] == "tiny-chat");
  CHECK(response["seed"] == 4);
  REQUIRE(response["output"].size() == 1);
  const Fields& item = response["output"][0];
  CHECK(item["type"] == "message");
  CHECK(item["role"] == "assistant");
  CHECK(item["id"].get<std::string>().starts_with("msg_"));
  CHECK(item["content"] == Fields::array({{{"type", "output_text"},
                                           {"text", chat["choices"][0]["message"]["content"]},
                                           {"annotations", Fields::array()},
                                           {"logprobs", Fields::array()}}}));
  CHECK(response["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]);
  CHECK(response["usage"]["output_tokens"] == 20);
  CHECK(response["usage"]["total_tokens"] == chat["usage"]["total_tokens"]);
  CHECK(response["usage"]["input_tokens_details"]["cached_tokens"] == 0);
  CHECK(response["usage"]["output_tokens_details"]["reasoning_tokens"] == 0);
}

TEST_CASE("a response says why it ended, and what it was asked", "[serve]") {
  Fields body = {{"input", kItems},
                 {"max_output_tokens", 2},
                 {"temperature", 0.5},
                 {"metadata", {{"a", "b"}}},
                 {"store", true},
                 {"truncation", "auto"},
                 {"reasoning", {{"summary", "auto"}}},
                 {"parallel_tool_calls", false}};
  const Fields cut = server().ask_for(kPath, body);
  CHECK(cut["status"] == "incomplete");
  CHECK(cut["incomplete_details"]["reason"] == "max_output_tokens");
  CHECK(cut["output"][0]["status"] == "incomplete");
  const Fields said = {{"max_output_tokens", 2},
                       {"temperature", 0.5},
                       {"top_p", 1},
                       {"metadata", {{"a", "b"}}},
                       {"store", false},
                       {"truncation", "auto"},
                       {"instructions", nullptr},
                       {"error", nullptr},
                       {"previous_response_id", nullptr},
                       {"parallel_tool_calls", false},
                       {"tool_choice", "auto"},
                       {"tools", Fields::array()},
                       {"text", {{"format", {{"type", "text"}}}, {"verbosity", "medium"}}}};
  for (const auto& [name, value] : said.items()) {
    CAPTURE(name);
    CHECK(cut[name] == value);
  }
  const Fields end = server().ask_for("/tokenize", {{"content", "<|endoftext|>"}})["tokens"][0];
  body["logit_bias"] = {{end.dump(), 100}};
  const Fields whole = server().ask_for(kPath, body);
  CHECK(whole["status"] == "completed");
  CHECK(whole["incomplete_details"].is_null());
  CHECK(whole["output"][0]["status"] == "completed");
  // What is too large to be said several times in a stream is not said again.
  body["metadata"] = {{"a", std::string(65 << 10, 'b')}};
  body["reasoning"] = {{"effort", std::string(65 << 10, 'c')}};
  const Fields large = server().ask_for(kPath, body);
  CHECK(large["metadata"] == Fields::object());
  CHECK(large["reasoning"]["effort"].is_null());
}

TEST_CASE("the events of a response come in OpenAI's order, and the last one has all of it",
          "[serve]") {
  const Fields body =
      with({{"input", kItems}, {"max_output_tokens", 30}, {"top_logprobs", 2}}, kDraws);
  const Fields whole = server().ask_for(kPath, body);
  const std::vector<Fields> events = events_of(body);
  std::vector<std::string> types;
  std::string text;
  Fields tokens = Fields::array();
  for (const Fields& event : events) {
    const std::string type = event["type"];
    if (types.empty() || types.back() != type) types.push_back(type);
    if (type != "response.output_text.delta") continue;
    CHECK(event["item_id"] == events.back()["response"]["output"][0]["id"]);
    CHECK(event["output_index"] == 0);
    CHECK(event["content_index"] == 0);
    text += event["delta"].get<std::string>();
    for (const Fields& token : event["logprobs"]) tokens.push_back(token);
  }
  CHECK(types == std::vector<std::string>{
                     "response.created", "response.in_progress", "response.output_item.added",
                     "response.content_part.added", "response.output_text.delta",
                     "response.output_text.done", "response.content_part.done",
                     "response.output_item.done", "response.incomplete"});
  const Fields& part = whole["output"][0]["content"][0];
  CHECK(text == part["text"]);
  CHECK(tokens == part["logprobs"]);
  CHECK(tokens.size() == 30);
  CHECK(events[0]["response"]["status"] == "in_progress");
  CHECK(events[0]["response"]["output"] == Fields::array());
  CHECK(events[2]["item"]["content"] == Fields::array());
  CHECK(events[events.size() - 4]["text"] == text);
  CHECK(events[events.size() - 3]["part"] == part);
  CHECK(events[events.size() - 2]["item"] == events.back()["response"]["output"][0]);
  CHECK(without_ids(events.back()["response"]) == without_ids(whole));
}

TEST_CASE("a response without a word has an empty message", "[serve]") {
  const std::vector<Fields> events =
      events_of({{"input", kItems}, {"max_output_tokens", 0}, {"stream", true}});
  CHECK(events.size() == 8);
  CHECK(events.back()["response"]["output"][0]["content"][0]["text"] == "");
}

TEST_CASE("log probabilities of a response are those of a chat", "[serve]") {
  const Fields chat = server().ask_for(
      "/v1/chat/completions",
      with({{"messages", kItems}, {"logprobs", true}, {"top_logprobs", 3}, {"max_tokens", 9}},
           kDraws));
  const auto logprobs = [](const Fields& more) -> Fields {
    const Fields body = with(with({{"input", kItems}, {"max_output_tokens", 9}}, kDraws), more);
    return server().ask_for(kPath, body)["output"][0]["content"][0]["logprobs"];
  };
  CHECK(logprobs({{"top_logprobs", 3}}) == chat["choices"][0]["logprobs"]["content"]);
  const Fields alone = logprobs({{"include", {"message.output_text.logprobs"}}});
  REQUIRE(alone.size() == 9);
  CHECK(alone[0]["top_logprobs"] == Fields::array());
  CHECK(logprobs({{"include", {"reasoning.encrypted_content"}}}) == Fields::array());
}

TEST_CASE("a response is JSON if its text's format says so, and fits its schema", "[serve]") {
  const Fields schema = {{"type", "object"},
                         {"properties", {{"kind", {{"enum", {"cat", "dog"}}}}}},
                         {"required", {"kind"}},
                         {"additionalProperties", false}};
  const Fields format = {
      {"type", "json_schema"}, {"name", "pet"}, {"strict", true}, {"schema", schema}};
  const Fields response = server().ask_for(
      kPath, with({{"input", kItems}, {"text", {{"format", format}}}}, {{"temperature", 2}}));
  CHECK(response["status"] == "completed");
  const Fields pet = Fields::parse(response["output"][0]["content"][0]["text"].get<std::string>());
  CHECK((pet["kind"] == "cat" || pet["kind"] == "dog"));
  CHECK(response["text"]["format"] == format);
  const Fields object = server().ask_for(kPath, {{"input", kItems},
                                                 {"text", {{"format", {{"type", "json_object"}}}}},
                                                 {"max_output_tokens", 9}});
  CHECK(object["output"][0]["content"][0]["text"].get<std::string>().starts_with("{"));
}

TEST_CASE("a response that breaks off ends its stream with an event that says why", "[serve]") {
  const LongModel model;
  RunningServer server({"--grace", "0", "--ctx", "65536"}, model.path);
  Fields body = {{"input", "a"}, {"stream", true}, {"ignore_eos", true}};
  const auto last_of = [](const std::string& text) {
    const std::vector<Fields> events = events_in(text);
    CHECK(events[0]["type"] == "response.created");
    CHECK(events.back()["type"] == "response.failed");
    const Fields& response = events.back()["response"];
    CHECK(response["status"] == "failed");
    CHECK(response["output"][0]["status"] == "incomplete");
    CHECK_FALSE(response["output"][0]["content"][0]["text"].get<std::string>().empty());
    CHECK(response["usage"]["output_tokens"] > 0);
    return response["error"];
  };
  // The last event has all log probabilities again: there are not too many of them.
  const Fields many =
      last_of(server.send(kPath, with(body, {{"top_logprobs", 20}, {"temperature", 0}})).body);
  CHECK(many["code"] == "invalid_prompt");
  CHECK(many["message"] == "the answer has more than 100000 log probabilities: ask for fewer");
  Browser running(server.port);
  const std::string text = body.dump();
  running.send("POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json" +
               ("\r\nContent-Length: " + std::to_string(text.size())) + "\r\n\r\n" + text);
  REQUIRE(running.gets("response.output_text.delta", 15s));
  server.program().send(SIGTERM);
  const std::string reply = running.rest(15s);
  const Fields ends = last_of(reply.substr(reply.find("\r\n\r\n") + 4));
  CHECK(ends["code"] == "server_error");
  CHECK(ends["message"] == "the server is ending");
  CHECK(server.program().wait().code == 0);
}

TEST_CASE("a client that leaves a response frees its place", "[serve]") {
  const LongModel model;
  const RunningServer server({"--parallel", "1", "--ctx", "65536"}, model.path);
  const std::string text = Fields{{"input", "a"}, {"stream", true}, {"ignore_eos", true}}.dump();
  {
    Browser leaves(server.port);
    leaves.send("POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json" +
                ("\r\nContent-Length: " + std::to_string(text.size())) + "\r\n\r\n" + text);
    REQUIRE(leaves.gets("response.output_text.delta", 15s));
  }
  CHECK(server.comes_to("tapegrad_texts_running", 0));
  CHECK(server.ask_for(kPath,
                       {{"input", "a"}, {"max_output_tokens", 2}})["usage"]["output_tokens"] == 2);
}

TEST_CASE("no response is there to be asked for later", "[serve]") {
  const int port = server().port;
  for (const char* method : {"GET", "DELETE"}) {
    const Reply reply = ask(port, method, "/v1/responses/resp_1");
    CHECK(reply.status == 404);
    CHECK_THAT(reply.body, ContainsSubstring("no response is stored here"));
  }
  CHECK(server().send("/v1/responses/resp_1/cancel", {}).status == 404);
  CHECK(get(port, "/v1/responses").status == 405);
}
