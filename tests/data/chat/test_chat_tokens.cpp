// Which tokens of a conversation are the model's answers.

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/data/chat/chat_tokens.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"
#include "tapegrad/tests/sanitized.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

const Tokenizer& tokenizer() {
  constexpr std::string_view names[] = {"<|im_start|>", "<|im_end|>"};
  static const Tokenizer made =
      Tokenizer::train_bpe("the cat sat on the mat with the other cat", 262).with_special(names);
  return made;
}

Conversation conversation(const std::vector<std::string>& turns) {
  Conversation made;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    made.messages.push_back({i % 2 == 0 ? "user" : "assistant", turns[i]});
  }
  return made;
}

// The texts of the answers.
std::vector<std::string> answers(const std::string& source, const std::vector<std::string>& turns,
                                 const Tokenizer& t = tokenizer()) {
  const ChatTokens chat = chat_tokens(conversation(turns), ChatTemplate(source), t);
  std::vector<std::string> texts;
  for (const TokenRange& answer : chat.answers) {
    const std::span all(chat.tokens);
    texts.push_back(t.decode(all.subspan(static_cast<std::size_t>(answer.begin),
                                         static_cast<std::size_t>(answer.end - answer.begin))));
  }
  return texts;
}

using Texts = std::vector<std::string>;
const Texts kTurns{"hi", " yes ", "more", "no"};

constexpr const char* kPrompt = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const std::string kChatML =
    std::string(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
        "{{ '<|im_end|>\n' }}{% endfor %}") +
    kPrompt;
// As Qwen3 does: thoughts before the last answer alone.
const std::string kThinking =
    std::string(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
        "{% if loop.last and m.role == 'assistant' %}{{ '<think>\n</think>\n' }}{% endif %}"
        "{{ m.content.split('</think>')[-1].lstrip('\n') + '<|im_end|>\n' }}{% endfor %}") +
    kPrompt;
// As Llama 3's first one does.
const std::string kAlways =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim }}"
    "{{ '<|im_end|>' }}{% endfor %}{{ '<|im_start|>assistant\n' }}";

}  // namespace

TEST_CASE("without marks, an answer is what a beginning has more than its prompt",
          "[chat_tokens]") {
  CHECK(answers(kChatML, kTurns) == Texts{" yes <|im_end|>\n", "no<|im_end|>\n"});
  CHECK(answers(kChatML, {"hi", "yes", "more"}) == Texts{"yes<|im_end|>\n"});
}

TEST_CASE("a template without special tokens has answers, too", "[chat_tokens]") {
  const std::string plain =
      "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}";
  CHECK(answers(plain, {"hi", "yes", "more", "no"}) == Texts{" yes\n", " no\n"});
}

TEST_CASE("marks decide where a template has them", "[chat_tokens]") {
  const std::string marked =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}"
      "{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}";
  CHECK(answers(marked, kTurns) == Texts{" yes <|im_end|>", "no<|im_end|>"});
  const auto chat = chat_tokens(conversation(kTurns), ChatTemplate::chatml(), tokenizer());
  CHECK(chat.answers.size() == 2);
  CHECK(tokenizer().decode(chat.tokens) ==
        tokenizer().decode(
            chat_tokens(conversation(kTurns), ChatTemplate(kChatML), tokenizer()).tokens));
}

TEST_CASE("a last answer that is written otherwise than earlier ones", "[chat_tokens]") {
  CHECK(answers(kThinking, {"hi", "<think>hm</think>\nyes", "more", "no"}) ==
        Texts{"yes<|im_end|>", "<think>\n</think>\nno<|im_end|>\n"});
}

TEST_CASE("a template that asks for the next answer in any case", "[chat_tokens]") {
  CHECK(answers(kAlways, kTurns) == Texts{"yes<|im_end|>", "no<|im_end|>"});
}

TEST_CASE("an answer whose text the template writes as well", "[chat_tokens]") {
  constexpr std::string_view names[] = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>",
                                        "<|return|>"};
  const Tokenizer marks = tokenizer().with_special(names);
  // As gpt-oss does: the last answer ends otherwise than earlier ones.
  const std::string channels =
      "{% for m in messages %}{{ '<|start|>' + m.role }}{% if m.role == 'assistant' %}"
      "{{ '<|channel|>final' }}{% endif %}{{ '<|message|>' + m.content }}"
      "{% if loop.last and m.role == 'assistant' %}<|return|>{% else %}<|end|>{% endif %}"
      "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";
  for (const std::string answer : {"a", "final", "|", "<|", "<|end", "channel|>final<|message|>"}) {
    INFO(answer);
    CHECK(answers(channels, {"a", answer, "final", answer}, marks) ==
          Texts{"<|channel|>final<|message|>" + answer + "<|end|>",
                "<|channel|>final<|message|>" + answer + "<|return|>"});
    const std::string thought = "<think>" + answer + "</think>\n" + answer;
    CHECK(answers(channels, {"a", thought, "final", answer}, marks).at(0) ==
          "<|channel|>final<|message|>" + thought + "<|end|>");
  }
  for (const std::string answer : {"a", "assistant", "1", "\n1", "think", "im_end"}) {
    INFO(answer);
    const std::string bare = answer.substr(answer.find_first_not_of('\n'));
    CHECK(answers(kAlways, {"a", answer, "1", answer}) ==
          Texts{bare + "<|im_end|>", bare + "<|im_end|>"});
    CHECK(answers(kThinking, {"a", "<think>1</think>" + answer, "1", answer}) ==
          Texts{bare + "<|im_end|>", "<think>\n</think>\n" + bare + "<|im_end|>\n"});
  }
}

// Answers without a word are a mark.
const std::string kQuotedCalls =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '<tool>') }}"
    "{{ '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";

TEST_CASE("a prompt that begins an answer as answers do not begin later", "[chat_tokens]") {
  const std::string prompting =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
  CHECK(answers(prompting, kTurns) == Texts{" yes <|im_end|>", "no<|im_end|>"});
  // These begin with letters of the prompt's.
  CHECK(answers(prompting, {"hi", "<b>", "more", "<think>\nx"}) ==
        Texts{"<b><|im_end|>", "x<|im_end|>"});
  // So does a call.
  CHECK(answers(kQuotedCalls, {"hi", "", "more", ""}) ==
        Texts{"<tool><|im_end|>", "<tool><|im_end|>"});
}

TEST_CASE("an answer with calls ends behind the last one", "[chat_tokens]") {
  constexpr std::string_view names[] = {"<|call|>", "<|called|>"};
  const Tokenizer marks = tokenizer().with_special(names);
  // Thoughts stand before the last answer alone, so that beginnings are no parts of the whole. The
  // mark behind a call may be a special token.
  const std::string source_with_end =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
      "{% if loop.last and m.role == 'assistant' %}{{ '<think>\n</think>\n' }}{% endif %}"
      "{{ m.content }}{% for c in m.tool_calls %}{{ '<|call|>' + c.function.name }}"
      "{{ c.function.arguments | tojson }}END{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}" +
      std::string(kPrompt);
  for (const auto& [content, end] : {std::pair<std::string, std::string>("", ""),
                                     {"Well", ""},
                                     {"", "<|called|>"},
                                     {"Well", "<|called|>"}}) {
    std::string source = source_with_end;
    source.replace(source.find("END"), 3, end);
    for (const std::string arguments : {"{}", R"({"_": "<|im_end|>"})", R"({"a": [1]})"}) {
      CAPTURE(content, arguments);
      const Message calls = message_of_json(
          R"({"role":"assistant","content":")" + content + R"(","tool_calls":[)" +
          R"({"function":{"name":"f","arguments":{"_":1}}},{"function":{"name":"g","arguments":)" +
          arguments + "}}]}");
      const Conversation chat{
          {{"user", "a"}, calls, {"tool", "b"}, {"assistant", "yes"}, {"user", "c"}, calls}, ""};
      const ChatTokens made = chat_tokens(chat, ChatTemplate(source), marks);
      const std::string text =
          content + "<|call|>f{\"_\": 1}" + end + "<|call|>g" + arguments + end + "<|im_end|>";
      Texts texts;
      for (const TokenRange& answer : made.answers) {
        const std::span all(made.tokens);
        texts.push_back(
            marks.decode(all.subspan(static_cast<std::size_t>(answer.begin),
                                     static_cast<std::size_t>(answer.end - answer.begin))));
      }
      CHECK(texts == Texts{text, "yes<|im_end|>", "<think>\n</think>\n" + text + "\n"});
    }
  }
}

TEST_CASE("answers that a template hides are an error that names the message", "[chat_tokens]") {
  const auto why = [](const std::string& source) {
    try {
      answers(source, {"hi", "yes", "more", "no"});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(why("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}"),
             ContainsSubstring("before message 2 otherwise when it follows"));
  CHECK_THAT(why("{% for m in messages %}{{ m.content | upper if not loop.last else m.content }}"
                 "{% endfor %}{% if add_generation_prompt %}>{% endif %}"),
             ContainsSubstring("otherwise"));
  CHECK_THAT(why("{{ raise_exception('turns must rhyme') }}"),
             ContainsSubstring("turns must rhyme"));
}

TEST_CASE("answers are found where a tokenizer joins letters and marks", "[chat_tokens]") {
  constexpr std::string_view names[] = {"<|im_start|>", "<|im_end|>"};
  std::string json =
      read_file(std::string(places::kSources) + "/tests/golden/hf_qwen2/tokenizer.json");
  const std::string without = "\"normalizer\":null";
  REQUIRE(json.find(without) != json.npos);
  json.replace(json.find(without), without.size(), R"("normalizer":{"type":"NFC"})");
  const Tokenizer nfc = Tokenizer::of_hf(json).with_special(names);
  CHECK(answers(kChatML, {"cafe\u0301 e\u0301", "no e\u0301!", "more", "e\u0301"}, nfc) ==
        Texts{"no \u00e9!<|im_end|>\n", "\u00e9<|im_end|>\n"});
}

TEST_CASE("a block of marks inside of another one is a part of it", "[chat_tokens]") {
  const std::string nested =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}{% generation %}{{ '<|im_end|>' }}{% endgeneration %}"
      "{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor "
      "%}";
  CHECK(answers(nested, kTurns) == Texts{" yes <|im_end|>", "no<|im_end|>"});
}

TEST_CASE("answers behind the tokens that are asked for need not be looked for", "[chat_tokens]") {
  std::vector<std::string> turns;
  for (int i = 0; i < 40; ++i) turns.push_back("turn " + std::to_string(i));
  const ChatTemplate chat_template(kChatML);
  const ChatTokens whole = chat_tokens(conversation(turns), chat_template, tokenizer());
  REQUIRE(whole.answers.size() == 20);
  const std::int64_t most = whole.answers[4].begin + 1;
  const ChatTokens some = chat_tokens(conversation(turns), chat_template, tokenizer(), most);
  CHECK(some.tokens == whole.tokens);
  CHECK(some.answers == std::vector<TokenRange>(whole.answers.begin(), whole.answers.begin() + 5));
  // The first one tells whether anything fits.
  CHECK(chat_tokens(conversation(turns), chat_template, tokenizer(), 1).answers.size() == 1);
}

TEST_CASE("of a conversation of very many messages, a template writes the first ones",
          "[chat_tokens]") {
  const std::vector<std::string> turns(6000, "hi");
  if (!kSanitized) {  // two million messages are rendered before it
    const ChatTokens some = chat_tokens(conversation(turns), ChatTemplate(kChatML), tokenizer());
    CHECK(some.divided);
    CHECK(some.answers.size() > 500);
    CHECK(some.answers.size() < 1500);
    CHECK(std::ssize(some.tokens) == some.answers.back().end);
  }
  CHECK(chat_tokens(conversation(turns), ChatTemplate(kChatML), tokenizer(), 100).answers.size() ==
        4);
  CHECK(chat_tokens(conversation(turns), ChatTemplate::chatml(), tokenizer()).answers.size() ==
        3000);
}

TEST_CASE("an answer behind one that is written otherwise when more follow", "[chat_tokens]") {
  // As Qwen3 does: thoughts stay until the user says more.
  const std::string source =
      "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
      "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
      "{% if loop.index0 > ns.last %}{{ m.content }}{% else %}"
      "{{ m.content.split('</think>')[-1] }}{% endif %}{% for c in m.tool_calls %}"
      "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}"
      "{{ '<|im_end|>\n' }}{% endfor %}" +
      std::string(kPrompt);
  const Message calls =
      message_of_json(R"({"role":"assistant","content":"<think>hm</think>","tool_calls":[)"
                      R"({"function":{"name":"f","arguments":{"a":1}}}]})");
  const Message bare = with_content(calls, "");
  const Conversation chat{{{"user", "a"},
                           calls,
                           {"tool", "b"},
                           bare,
                           {"tool", "assistant\n"},
                           {"assistant", "yes"},
                           {"user", "c"},
                           {"assistant", "no"}},
                          ""};
  const ChatTokens made = chat_tokens(chat, ChatTemplate(source), tokenizer());
  Texts texts;
  for (const TokenRange& answer : made.answers) {
    const std::span all(made.tokens);
    texts.push_back(
        tokenizer().decode(all.subspan(static_cast<std::size_t>(answer.begin),
                                       static_cast<std::size_t>(answer.end - answer.begin))));
  }
  CHECK(texts ==
        Texts{"f{\"a\": 1}<|im_end|>", "f{\"a\": 1}<|im_end|>", "yes<|im_end|>", "no<|im_end|>\n"});
}
