#include "tapegrad/apps/chat/chat_session.h"

#include <algorithm>
#include <utility>

#include "tapegrad/apps/sample/stop_text.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad::chat {
namespace {

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
      generation_(model.gpt, sampling::generation_limits(model, one_at_a_time(options_.sample))),
      rng_(options_.seed) {
  if (!options_.chat_template || options_.sample.ignore_eos) return;
  for (const data::Token end : run::answer_ends(*options_.chat_template, model.tokenizer)) {
    auto& ends = generate_.stop_tokens;
    if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
}

data::Conversation ChatSession::with_system() const {
  data::Conversation all = conversation_;
  if (!options_.system.empty()) {
    all.messages.insert(all.messages.begin(), {.role = "system", .content = options_.system});
  }
  return all;
}

std::string ChatSession::prompt() const {
  if (!options_.chat_template) return text_;
  return options_.chat_template->render(with_system(), true, options_.variables).text;
}

// The model's text behind prompt().
std::string ChatSession::answer(const run::OnText& on_answer) {
  const std::string text = prompt();
  // A template writes what begins a text itself.
  nn::Tokens tokens = has_template() ? model_.tokenizer.encode(text, true) : model_.tokens_of(text);
  if (tokens.empty()) tokens = run::default_prompt(model_.tokenizer);
  printer_.note_length(tokens.size(), generate_);
  printer_.begin_text();
  const nn::Generation::Id id = generation_.add(std::move(tokens), generate_, rng_);
  Utf8Stream characters;
  sampling::StopText stop(options_.sample.stops);
  std::string made;
  bool goes_on = true;
  const auto pass_on = [&](const std::string& shown) {
    made += shown;
    goes_on = goes_on && (shown.empty() || on_answer(shown)) && !stop.stopped();
  };
  while (goes_on && !interrupted() && generation_.step()) {
    for (const nn::NewToken& token : generation_.take(id).tokens) {
      if (!goes_on) break;
      printer_.saw_token();
      pass_on(stop.push(characters.push(model_.tokenizer.token_bytes(token.token))));
    }
  }
  if (goes_on) pass_on(stop.push(characters.flush()));
  if (!stop.stopped()) pass_on(stop.flush());
  rng_ = generation_.rng(id);
  generation_.remove(id);
  return made;
}

void ChatSession::say(const std::string& message, const run::OnText& on_answer) {
  const data::Conversation before = conversation_;
  const std::string text_before = text_;
  try {
    if (has_template()) {
      conversation_.messages.push_back({.role = "user", .content = message});
      std::string made = answer(on_answer);
      conversation_.messages.push_back({.role = "assistant", .content = std::move(made)});
    } else {
      text_ += message;
      answer_begin_ = text_.size();
      text_ += answer(on_answer) + "\n";
    }
  } catch (...) {
    conversation_ = before;
    text_ = text_before;
    throw;
  }
}

bool ChatSession::retry(const run::OnText& on_answer) {
  if (empty()) return false;
  if (has_template()) {
    conversation_.messages.pop_back();
    conversation_.messages.push_back({.role = "assistant", .content = answer(on_answer)});
  } else {
    text_.resize(answer_begin_);
    text_ += answer(on_answer) + "\n";
  }
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
  return json_text(Json{{"messages", std::move(messages)}}) + "\n";
}

void ChatSession::print_rate() {
  printer_.count(generation_.cost());
  printer_.rate();
}

}  // namespace tapegrad::chat
