#include "tapegrad/apps/chat/chat_session.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tapegrad/apps/chat/spoken_answer.h"
#include "tapegrad/apps/sample/sampling_options.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/chat/internal/tool_lines.h"
#include "tapegrad/data/chat/render_chat.h"
#include "tapegrad/data/chat/tools/internal/tool_convention.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad::chat {
namespace {

constexpr int kChatDepth = 64, kMostToolsDepth = 60;  // of JSON
constexpr std::int64_t kMostToolsBytes = std::int64_t{16} << 20;

sampling::SampleOptions one_at_a_time(sampling::SampleOptions options) {
  options.batch = 1;
  return options;
}

}  // namespace

std::string tools_of_file(const std::string& path) {
  const std::string text = read_file(path, kMostToolsBytes);
  Json tools;
  try {
    tools = parse_json<Json>(without_byte_order_mark(text), kMostToolsDepth);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
  tools = data::functions_of(tools, path);
  check(!tools.empty(), "{}: it has no functions", path);
  for (std::size_t i = 0; i < tools.size(); ++i) {
    check(data::is_function_name(tools[i]["function"]["name"].get<std::string>()),
          "{}: element {}: a name has 1 to 64 of the characters a-z, A-Z, 0-9, '_', '-' and '.'",
          path, i);
  }
  return json_text(tools);
}

ChatSession::ChatSession(const run::TextModel& model, ChatOptions options)
    : model_(model),
      options_(std::move(options)),
      generate_(sampling::generate_options(model, options_.sample)),
      printer_(model_, options_.sample),
      generation_(model.gpt, sampling::generation_limits(model, one_at_a_time(options_.sample))) {
  if (!options_.tools.empty()) {
    for (Json& tool : parse_json<Json>(options_.tools, kChatDepth)) {
      functions_.push_back(data::function_in(tool)["name"].get<std::string>());
    }
  }
  if (!options_.chat_template || options_.sample.ignore_eos) return;
  sampling::add_ends(generate_, run::answer_ends(*options_.chat_template, model.tokenizer));
}

data::Conversation ChatSession::with_system() const {
  data::Conversation all = conversation_;
  all.tools = options_.tools;
  if (!options_.system.empty()) {
    all.messages.insert(all.messages.begin(), {.role = "system", .content = options_.system});
  }
  return all;
}

// `goes_on`: with the last answer, of which what the template leaves out is dropped.
data::RenderedChat ChatSession::prompt(bool goes_on) {
  if (!options_.chat_template) return {.text = text_};
  const data::ChatTemplate& chat_template = *options_.chat_template;
  const data::Conversation said = data::with_tools_for(chat_template, with_system());
  data::RenderedChat chat;
  if (goes_on) {
    data::ContinuedChat continued =
        data::render_continued(chat_template, model_.tokenizer, said, options_.variables);
    chat = std::move(continued.chat);
    data::Message& last = conversation_.messages.back();
    last = data::with_content(last, last.content.substr(0, continued.kept));
  } else {
    chat = data::render_chat(chat_template, model_.tokenizer, said, true, options_.variables);
  }
  if (!chat.letters.empty() && !std::exchange(said_spelled_, true)) {
    print_error(
        "note: a message spells a special token, which is encoded as text: --special-in-messages "
        "makes it such a token\n");
  }
  return chat;
}

std::optional<data::AnswerReading> ChatSession::reading(const std::string& prompt,
                                                        bool goes_on) const {
  if (functions_.empty() || !options_.chat_template) return std::nullopt;
  data::AnswerReading made{.calls = &data::call_format_for(*options_.chat_template),
                           .functions = functions_};
  if (goes_on) return made;
  made.reasoning = data::reasoning_marks_of(*options_.chat_template);
  made.within_reasoning = made.reasoning && data::begins_within_reasoning(prompt, *made.reasoning);
  return made;
}

// The model's message behind prompt().
data::Message ChatSession::answer(const sampling::OnText& on_answer, bool goes_on) {
  const data::RenderedChat chat = prompt(goes_on);
  // A template writes what begins a text itself.
  nn::Tokens tokens = options_.chat_template ? data::tokens_of(chat, model_.tokenizer)
                                             : model_.tokens_of(chat.text);
  if (tokens.empty()) tokens = run::default_prompt(model_.tokenizer);
  printer_.note_length(tokens.size(), generate_);
  nn::TokenStream stream(
      generation_,
      nn::source_of({{.tokens = std::move(tokens),
                      .options = generate_,
                      .seed = options_.seed + answers_,
                      .goes_on = sampling::until_stop(model_.tokenizer, options_.sample)}}));
  SpokenAnswer spoken(reading(chat.text, goes_on), on_answer);
  printer_.make(stream, [&](std::string_view piece) { return spoken.push(piece); });
  ++answers_;
  return spoken.end(calls_);
}

template <class F>
void ChatSession::change(const F& make) {
  const data::Conversation before = conversation_;
  const std::string text_before = text_;
  const std::size_t begin_before = answer_begin_;
  try {
    make();
  } catch (...) {
    conversation_ = before;
    text_ = text_before;
    answer_begin_ = begin_before;
    throw;
  }
}

Json ChatSession::waiting_calls() const {
  const std::vector<data::Message>& messages = conversation_.messages;
  std::size_t results = 0;
  while (results < messages.size() && messages[messages.size() - 1 - results].role == "tool") {
    ++results;
  }
  if (results == messages.size()) return Json::array();
  const data::Message& last = messages[messages.size() - 1 - results];
  if (last.role != "assistant" || last.json.empty()) return Json::array();
  Json message = parse_json<Json>(last.json, kChatDepth);
  Json* calls = data::calls_in(message);
  if (calls == nullptr) return Json::array();
  const auto begin = calls->begin();
  calls->erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(results, calls->size())));
  return std::move(*calls);
}

std::string ChatSession::waiting_call() const {
  Json calls = waiting_calls();
  if (calls.empty()) return "";
  return data::function_in(calls.front())["name"].get<std::string>();
}

bool ChatSession::say(const std::string& message, const sampling::OnText& on_answer) {
  bool answers = true;
  change([&] {
    if (!has_template()) {
      text_ += message;
      answer_begin_ = text_.size();
      text_ += answer(on_answer).content + "\n";
      return;
    }
    Json calls = waiting_calls();
    if (calls.empty()) {
      conversation_.messages.push_back({.role = "user", .content = message});
    } else {
      Json& call = calls.front();
      const Json result = {{"role", "tool"},
                           {"tool_call_id", call["id"]},
                           {"name", data::function_in(call)["name"]},
                           {"content", message}};
      conversation_.messages.push_back(data::message_of_json(json_text(result)));
      answers = calls.size() == 1;
    }
    if (answers) conversation_.messages.push_back(answer(on_answer));
  });
  return answers;
}

bool ChatSession::retry(const sampling::OnText& on_answer) {
  if (empty()) return false;
  change([&] {
    if (has_template()) {
      std::vector<data::Message>& messages = conversation_.messages;
      if (!waiting_call().empty()) {
        while (messages.back().role == "tool") messages.pop_back();
      }
      messages.pop_back();
      messages.push_back(answer(on_answer));
    } else {
      text_.resize(answer_begin_);
      text_ += answer(on_answer).content + "\n";
    }
  });
  return true;
}

bool ChatSession::go_on(const sampling::OnText& on_answer) {
  if (empty()) return false;
  const std::string call = waiting_call();
  check(call.empty(), "a call of {} waits for its result, and its answer cannot go on", call);
  change([&] {
    if (has_template()) {
      const data::Message more = answer(on_answer, true);
      data::Message& last = conversation_.messages.back();
      const std::string content = last.content + more.content;
      // Calls are a part of what is new alone.
      if (!more.json.empty()) {
        Json whole = parse_json<Json>(data::json_of_message(last), kChatDepth);
        Json added = parse_json<Json>(more.json, kChatDepth);
        if (Json* calls = data::calls_in(added)) whole["tool_calls"] = std::move(*calls);
        last = data::message_of_json(json_text(whole));
      }
      last = data::with_content(last, content);
    } else {
      text_.pop_back();  // the line break behind an answer
      text_ += answer(on_answer).content + "\n";
    }
  });
  return true;
}

void ChatSession::reset() {
  conversation_.messages.clear();
  text_.clear();
}

void ChatSession::reset(std::string system) {
  reset();
  options_.system = std::move(system);
}

std::string ChatSession::json_line() const {
  if (!has_template()) return json_text(Json{{"text", text_}}) + "\n";
  Json messages = Json::array();
  for (const data::Message& message : with_system().messages) {
    messages.push_back(parse_json<Json>(data::json_of_message(message), kChatDepth));
  }
  Json line = {{"messages", std::move(messages)}};
  if (!options_.tools.empty()) line["tools"] = parse_json<Json>(options_.tools, kChatDepth);
  return json_text(line) + "\n";
}

void ChatSession::print_rate() { printer_.rate(generation_.cost()); }

}  // namespace tapegrad::chat
