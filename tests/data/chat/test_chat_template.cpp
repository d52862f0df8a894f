// Conversations as texts: what ChatTemplate gives a template to read.

#include "tapegrad/base/error.h"
#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using data::ChatTemplate;

namespace {

const data::Conversation kTalk{.messages = {{.role = "system", .content = "Be kind."},
                                            {.role = "user", .content = "Hé?"},
                                            {.role = "assistant", .content = "Ja."},
                                            {.role = "user", .content = "Und?"}}};

std::string what_of(const std::string& source, const data::Conversation& talk = kTalk,
                    std::string_view variables = {}) {
  try {
    ChatTemplate(source).render(talk, false, variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("ChatML has the marks around each message, and marks what the model writes",
          "[chat_template]") {
  const data::RenderedChat chat = ChatTemplate::chatml().render(kTalk, true);
  CHECK(chat.text ==
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHé?<|im_end|>\n"
        "<|im_start|>assistant\nJa.<|im_end|>\n<|im_start|>user\nUnd?<|im_end|>\n"
        "<|im_start|>assistant\n");
  REQUIRE(chat.generated.size() == 1);
  const auto [begin, end] = chat.generated[0];
  CHECK(chat.text.substr(begin, end - begin) == "Ja.<|im_end|>");
  CHECK(ChatTemplate::chatml().marks_generations());
  CHECK(ChatTemplate::chatml().render(kTalk, false).text.ends_with("Und?<|im_end|>\n"));
}

TEST_CASE("a template reads messages whole, tools, special tokens and variables",
          "[chat_template]") {
  const ChatTemplate all(
      "{{ bos_token }}{{ messages[0].odd.x }}{{ messages[0] | tojson }}{{ tools[0].name }}"
      "{{ documents }}{{ enable_thinking }}{{ add_generation_prompt }}",
      {{"bos_token", "<s>"}});
  const data::Conversation talk{
      .messages = {data::message_of_json(R"({"odd": {"x": 1}, "role": "user", "content": null})")},
      .tools = R"([{"name": "f"}])"};
  CHECK(all.render(talk, true, R"({"enable_thinking": false})").text ==
        R"(<s>1{"odd": {"x": 1}, "role": "user", "content": null}fNoneFalseTrue)");
  CHECK(all.render(talk, true, R"({"bos_token": ""})").text.starts_with("1"));
  CHECK(all.reads("enable_thinking"));
  CHECK_FALSE(all.reads("thinking"));
}

TEST_CASE("a message keeps its object where it says more than role and content",
          "[chat_template]") {
  const data::Message plain = data::message_of_json(R"({"role": "user", "content": "a"})");
  CHECK((plain.role == "user" && plain.content == "a" && plain.json.empty()));
  const std::string call = R"({"role":"assistant","content":"","tool_calls":[]})";
  CHECK(data::message_of_json(call).json == call);
  CHECK(data::json_of_message(data::message_of_json(call)) == call);
  CHECK(data::json_of_message(plain) == R"({"role":"user","content":"a"})");
  for (const char* wrong : {"[]", "{", R"({"content": "a"})", R"({"role": 1, "content": "a"})"}) {
    CHECK_THROWS_AS(data::message_of_json(wrong), Error);
  }
}

TEST_CASE("what a template says by raise_exception is the error's text", "[chat_template]") {
  CHECK(what_of("\n{{ raise_exception('Roles must alternate!') }}") ==
        "[chat template] line 2: Roles must alternate!");
  CHECK(what_of("{{ x }}", {.messages = {{.role = {}, .content = {}, .json = "{"}}})
            .starts_with("[chat template] a message: "));
  CHECK(what_of("{{ x }}", {.messages = {}, .tools = "{}"}) ==
        "[chat template] tools must be a list");
  CHECK(what_of("{{ x }}", kTalk, "[]") == "[chat template] variables must be a JSON object");
}

TEST_CASE("generation blocks in a macro mark nothing: where their text lands is not known",
          "[chat_template]") {
  const std::string block = "{% generation %}x{% endgeneration %}";
  CHECK(ChatTemplate(block).marks_generations());
  const ChatTemplate hidden("{% macro f() %}" + block + "{% endmacro %}a{{ f() }}");
  CHECK_FALSE(hidden.marks_generations());
  const data::RenderedChat chat = hidden.render(kTalk, false);
  CHECK((chat.text == "ax" && chat.generated.empty()));
}
