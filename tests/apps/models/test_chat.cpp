// tapegrad chat, from outside.

#include <algorithm>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/tests/apps/on_terminal.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/run/models/settings_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

const Files kTemplate = {
    {"chat_template.jinja",
     "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
     "{% if messages[-1].content == 'refuse' %}{{ raise_exception('Not that.') }}{% endif %}"
     "{% if add_generation_prompt %}assistant:{% endif %}"}};

// The program's output for these lines on stdin.
Result chat(const TempFolder& folder, const fs::path& model, const std::string& lines,
            const Args& more = {}) {
  return Program("chat", Args{"--model", model, "--max-new-tokens", "4", "--greedy"} + more, ".",
                 folder.put("lines.txt", lines))
      .wait();
}

Json messages_of(const fs::path& file) {
  return parse_json<Json>(TempFolder::get(file), 32)["messages"];
}

}  // namespace

TEST_CASE("messages from a pipe are answered on stdout, one after the other", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate), saved = folder / "said.jsonl";
  const Result r =
      chat(folder, model, "Hi\nAnd?\n/save " + saved.string() + "\n", {"--system", "Be kind."});
  check_ended_well(r);
  const Json said = messages_of(saved);
  REQUIRE(said.size() == 5);
  CHECK(said[0] == Json{{"role", "system"}, {"content", "Be kind."}});
  CHECK(said[1] == Json{{"role", "user"}, {"content", "Hi"}});
  CHECK(said[3] == Json{{"role", "user"}, {"content", "And?"}});
  CHECK(r.out == said[2]["content"].get<std::string>() + "\n" +
                     said[4]["content"].get<std::string>() + "\n");
  CHECK(r.err.find("tok/s") != r.err.npos);
  CHECK(r.err.find("saved") != r.err.npos);
}

TEST_CASE("a message that spells a special token is text, which is said once", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate);
  const Result r = chat(folder, model, "a<|endoftext|>b\nc\n");
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("note: a message spells a special token"));
  CHECK(r.err.find("note: ") == r.err.rfind("note: "));
  const Result as_before = chat(folder, model, "a<|endoftext|>b\nc\n", {"--special-in-messages"});
  check_ended_well(as_before);
  CHECK(as_before.err.find("note: ") == std::string::npos);
}

TEST_CASE("tools of a file are shown to the model, and saved with what was said", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(
      folder,
      {{"chat_template.jinja",
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if '# Tools' in messages[0].content %}{{ raise_exception('told') }}{% endif %}"}});
  const std::string tools = R"([{"type":"function","function":{"name":"add"}}])";
  const Args given = {"--tools", folder.put("tools.json", tools)};
  check_ended_well(chat(folder, model, "Hi\n"));
  CHECK_THAT(chat(folder, model, "Hi\n", given).err, ContainsSubstring(": told\n"));
  const TempFolder other;
  const fs::path plain = put_hf_model(other, kTemplate), saved = other / "said.jsonl";
  check_ended_well(chat(folder, plain, "Hi\n/continue\n/save " + saved.string() + "\n", given));
  const Json line = parse_json<Json>(TempFolder::get(saved), 32);
  CHECK(line["messages"].size() == 2);
  CHECK(line["tools"] == parse_json<Json>(tools, 8));
}

TEST_CASE("a file that has no tools is refused by its name", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate);
  for (const char* wrong : {"", "{", "{}", "[]", "[1]", R"([{"type":"function"}])",
                            R"([{"type":"x","function":{"name":"f"}}])",
                            R"([{"type":"function","function":{"name":1}}])",
                            R"([{"type":"function","function":{"name":"a/b"}}])"}) {
    CAPTURE(wrong);
    const Result r =
        chat(folder, model, "Hi\n", {"--tools", folder.put("tools.json", wrong).string()});
    CHECK(r.code == 1);
    CHECK_THAT(r.err, ContainsSubstring("tools.json: "));
  }
}

TEST_CASE("/reset forgets, /retry answers anew, /system says something else first", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate), saved = folder / "said.jsonl";
  const std::string save = "/save " + saved.string() + "\n";
  const Result once = chat(folder, model, "Hi\n");
  check_ended_well(once);
  const Result r = chat(folder, model, "Hi\n/retry\nmore\n/reset\nHi\n/system Rhyme.\nHi\n" + save);
  check_ended_well(r);
  CHECK(r.out.starts_with(once.out + once.out));  // greedy: the same
  CHECK(messages_of(saved).size() == 3);
  CHECK(messages_of(saved)[0]["content"] == "Rhyme.");
  check_ended_well(chat(folder, model, "Hi\n" + save));
  const std::string lines = TempFolder::get(saved);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 2);  // the file keeps what it has
}

TEST_CASE("/continue goes on with the last answer", "[chat]") {
  const TempFolder folder;
  const bool has_template = GENERATE(true, false);
  const fs::path model = put_hf_model(folder, has_template ? kTemplate : Files{});
  const Result once = chat(folder, model, "Hi\n");
  const Result r = chat(
      folder, model, "/continue\nHi\n/continue\n/save " + (folder / "said.jsonl").string() + "\n");
  CHECK(r.err.find("/continue: there is no answer yet\n") != r.err.npos);
  REQUIRE(r.out.starts_with(once.out));
  const std::string begin = once.out.substr(0, once.out.size() - 1),
                    more = r.out.substr(once.out.size(), r.out.size() - once.out.size() - 1);
  CHECK(!more.empty());
  const Json said = parse_json<Json>(TempFolder::get(folder / "said.jsonl"), 32);
  if (has_template) {
    REQUIRE(said["messages"].size() == 2);
    CHECK(said["messages"][1]["content"] == begin + more);
  } else {
    CHECK(said["text"] == "Hi" + begin + more + "\n");
  }
}

TEST_CASE("answers of chat with speculative decoding are those without it", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate);
  folder.put("in/config.json",
             replaced(TempFolder::get(model / "config.json"), R"("max_position_embeddings": 24)",
                      R"("max_position_embeddings": 150)"));
  const fs::path lines = folder.put("lines.txt", "Hi\n/continue\nAnd? And? And?\n/retry\nHi\nHi\n");
  const Args how = GENERATE(Args{"--greedy"}, Args{"--temp", "0.7", "--presence-penalty", "0.4"},
                            Args{"--greedy", "--context", "shift"});
  const auto answers = [&](const Args& more) {
    const Result r =
        Program("chat", Args{"--model", model, "--max-new-tokens", "30"} + how + more, ".", lines)
            .wait();
    check_ended_well(r);
    return r;
  };
  const Result without = answers({});
  for (const Args& more : {Args{"--lookup", "6"}, Args{"--draft", model.string()}}) {
    const Result with = answers(more);
    CHECK(with.out == without.out);
    const bool proposes = more[0] == "--draft" || how[0] == "--greedy";
    if (proposes) CHECK_THAT(with.err, ContainsSubstring("proposed tokens accepted"));
  }
}

TEST_CASE("/continue drops the spaces that a template leaves out of an answer", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(
      folder, {{"chat_template.jinja",
                "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}"}});
  const fs::path saved = folder / "said.jsonl";
  // Token 221 is a space.
  const Result r = chat(folder, model, "Hi\n/continue\n/save " + saved.string() + "\n",
                        {"--logit-bias", "221=100"});
  CHECK(r.out == "    \n    \n");
  CHECK(messages_of(saved)[1]["content"] == "    ");  // what is new
}

TEST_CASE("what a template refuses is said, and the conversation goes on", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate), saved = folder / "said.jsonl";
  const Result r =
      chat(folder, model, "refuse\n/odd\n/retry\n/save\nHi\n/save " + saved.string() + "\n");
  CHECK(r.code == 0);
  CHECK(r.err.find("Not that.\n") != r.err.npos);
  CHECK(r.err.find("/odd: no such command. /help shows all\n") != r.err.npos);
  CHECK(r.err.find("/retry: there is no answer yet\n") != r.err.npos);
  CHECK(r.err.find("/save: which file?\n") != r.err.npos);
  CHECK(messages_of(saved).size() == 2);
}

TEST_CASE("a model without a template continues what is said, and says so", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, {}), saved = folder / "text.jsonl";
  const Result r = chat(folder, model, "Once upon\n/save " + saved.string() + "\n");
  check_ended_well(r);
  CHECK(r.err.find("has no chat template: what is said is continued as text.\n") != r.err.npos);
  CHECK(parse_json<Json>(TempFolder::get(saved), 32)["text"] == "Once upon" + r.out);
  const Result refused = chat(folder, model, "a\n", {"--system", "Be kind."});
  CHECK(refused.code == 1);
  CHECK(refused.err.find("no chat template to write --system with") != refused.err.npos);
}

TEST_CASE("another template, its variables and a stop are options of chat", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate);
  const std::string own = folder.put("own.jinja", "{{ raise_exception(word) }}");
  const Result r = chat(folder, model, "Hi\n",
                        {"--chat-template", own, "--template-variables", R"({"word": "Moin"})"});
  CHECK(r.err.find("Moin\n") != r.err.npos);
  const Result usage = chat(folder, model, "", {"--stop", ""});
  CHECK(usage.code == 2);
  CHECK(chat(folder, folder / "nothing", "").code == 1);
  CHECK(chat(folder, model, "", {"--chat-template", folder / "nothing"}).code == 1);
}

TEST_CASE("--prompt is answered on stdout, as the same message of a pipe", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate);
  const auto asked = [&](const Args& more) { return chat(folder, model, "Other\n", more); };
  const Result one = chat(folder, model, "Hi\n"), two = chat(folder, model, "Hi\nAnd?\n");
  for (const Args& more : {Args{"--prompt", "Hi"}, {"-p", "Hi"}, {"Hi"}}) {
    const Result r = asked(more);
    check_ended_well(r);
    CHECK(r.out == one.out);
  }
  CHECK(asked({"-p", "Hi", "-p", "And?"}).out == two.out);
  CHECK(asked({"--prompt-file", folder.put("hi.txt", "Hi")}).out == one.out);
  CHECK(asked({"--prompt-file", "-"}).out == asked({"-p", "Other\n"}).out);
  CHECK(asked({"-p", "/help"}).out != "");  // no command
  check_error_of("chat", asked({"What", "is", "it?"}), 2,
                 "only one message may follow the model, and 'is' is a second one: quote a message "
                 "of several words");
  check_error_of("chat", asked({"-p", "refuse"}), 1, "Not that.");
  check_error_of("chat", asked({"-p", ""}), 2, "--prompt: there is nothing to answer");
  check_error_of("chat", asked({"-p", "Hi", "--prompt-file", "-"}), 2,
                 "--prompt and --prompt-file exclude each other");
  check_error_of("chat", asked({"--prompt-file", folder.put("empty.txt", "")}), 1,
                 "the file is empty: there is nothing to answer");
}

TEST_CASE("at a terminal, lines are edited and answered", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate);
  const std::string all = on_terminal(
      "chat", {"--model", model, "--max-new-tokens", "4", "--greedy"}, {}, {"Hi\n", "/quit\n"});
  CHECK(all.find("A line is a message.") != all.npos);
  CHECK(all.find("tok/s") != all.npos);
}

TEST_CASE("Ctrl-C ends an answer from a pipe, and the program", "[chat]") {
  const TempFolder folder;
  const fs::path model = put_hf_model(folder, kTemplate);
  Program program(
      "chat", {"--model", model, "--max-new-tokens", "100000000", "--greedy", "--context", "shift"},
      ".", folder.put("lines.txt", "Hi\nNever answered\n"));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  program.send(SIGINT);
  CHECK(program.wait().code == 130);
}
