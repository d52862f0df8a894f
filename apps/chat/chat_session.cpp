#include "tapegrad/apps/chat/chat_session.h"

#include <utility>

#include "tapegrad/apps/sample/sampling_options.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/data/chat/render_chat.h"
#include "tapegrad/data/chat/tools/internal/tool_convention.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad::chat {
namespace {

constexpr int kToolsDepth = 64;  // of JSON

sampling::SampleOptions one_at_a_time(sampling::SampleOptions options) {
  options.batch = 1;
  return options;
}

}  // namespace

ChatSession::ChatSession(const run::TextModel& model, ChatOptions options)
    : model_(model),
      options_(std::move(options)),
      generate_(sampling::generate_options(model, options_.sample)),
      printer_(model_, options_.sample),
      generation_(model.gpt, sampling::generation_limits(model, one_at_a_time(options_.sample))) {
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
nn::Tokens ChatSession::prompt(bool goes_on) {
  if (!options_.chat_template) return model_.tokens_of(text_);
  // A template writes what begins a text itself.
  const data::ChatTemplate& chat_template = *options_.chat_template;
  const data::Conversation said = data::with_tools_for(chat_template, with_system());
  data::RenderedChat chat;
  if (goes_on) {
    data::ContinuedChat continued =
        data::render_continued(chat_template, model_.tokenizer, said, options_.variables);
    chat = std::move(continued.chat);
    conversation_.messages.back().content.resize(continued.kept);
  } else {
    chat = data::render_chat(chat_template, model_.tokenizer, said, true, options_.variables);
  }
  if (!chat.letters.empty() && !std::exchange(said_spelled_, true)) {
    print_error(
        "note: a message spells a special token, which is encoded as text: --special-in-messages "
        "makes it such a token\n");
  }
  return data::tokens_of(chat, model_.tokenizer);
}

// The model's text behind prompt().
std::string ChatSession::answer(const sampling::OnText& on_answer, bool goes_on) {
  nn::Tokens tokens = prompt(goes_on);
  if (tokens.empty()) tokens = run::default_prompt(model_.tokenizer);
  printer_.note_length(tokens.size(), generate_);
  nn::TokenStream stream(
      generation_,
      nn::source_of({{.tokens = std::move(tokens),
                      .options = generate_,
                      .seed = options_.seed + answers_,
                      .goes_on = sampling::until_stop(model_.tokenizer, options_.sample)}}));
  std::string made = printer_.make(stream, on_answer).text;
  ++answers_;
  return made;
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

void ChatSession::say(const std::string& message, const sampling::OnText& on_answer) {
  change([&] {
    if (has_template()) {
      conversation_.messages.push_back({.role = "user", .content = message});
      std::string made = answer(on_answer);
      conversation_.messages.push_back({.role = "assistant", .content = std::move(made)});
    } else {
      text_ += message;
      answer_begin_ = text_.size();
      text_ += answer(on_answer) + "\n";
    }
  });
}

bool ChatSession::retry(const sampling::OnText& on_answer) {
  if (empty()) return false;
  change([&] {
    if (has_template()) {
      conversation_.messages.pop_back();
      std::string made = answer(on_answer);
      conversation_.messages.push_back({.role = "assistant", .content = std::move(made)});
    } else {
      text_.resize(answer_begin_);
      text_ += answer(on_answer) + "\n";
    }
  });
  return true;
}

bool ChatSession::go_on(const sampling::OnText& on_answer) {
  if (empty()) return false;
  change([&] {
    if (has_template()) {
      const std::string made = answer(on_answer, true);
      conversation_.messages.back().content += made;
    } else {
      text_.pop_back();  // the line break behind an answer
      text_ += answer(on_answer) + "\n";
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
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  Json line = {{"messages", std::move(messages)}};
  if (!options_.tools.empty()) line["tools"] = parse_json<Json>(options_.tools, kToolsDepth);
  return json_text(line) + "\n";
}

void ChatSession::print_rate() { printer_.rate(generation_.cost()); }

}  // namespace tapegrad::chat
