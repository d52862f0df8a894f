#include "tapegrad/data/chat/render_chat.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/base/text/utf8.h"

// A template mixes the contents of messages with its own marks, and may cut, trim and search the
// contents. So a mark is put into each special token that a message spells, behind its first
// character: a noncharacter of Unicode, which the messages do not have. The template takes the mark
// along like any letter. It is taken out of the template's text, and the byte before it is known to
// be a message's.

namespace tapegrad::data {
namespace {

constexpr int kMostMarkedDepth = 64;
constexpr char32_t kFirstMark = 0xFDD0, kLastMark = 0xFDEF;  // never characters, by Unicode

class MessageMarks {
 public:
  MessageMarks(const Tokenizer& tokenizer, const Conversation& conversation,
               std::string_view variables)
      : tokenizer_(tokenizer), mark_(unused_mark(conversation, variables)) {}

  Conversation marked(Conversation conversation) {
    for (Message& message : conversation.messages) {
      message.role = marked_text(message.role);
      message.content = marked_text(message.content);
      message.json = marked_json(message.json);
    }
    conversation.tools = marked_json(conversation.tools);
    conversation.documents = marked_json(conversation.documents);
    return conversation;
  }

  std::string marked_variables(std::string_view variables) {
    if (variables.empty()) return {};
    Json json = parse_json<Json>(variables, kMostMarkedDepth);
    if (!json.is_object()) return std::string(variables);  // which the template refuses
    const std::size_t before = count_;
    for (auto& [name, value] : json.items()) {
      if (!name.ends_with("_token")) mark(value);
    }
    return count_ == before ? std::string(variables) : json_text(json);
  }

  bool any() const { return count_ > 0; }

  // Takes the marks out of a template's text.
  RenderedChat unmarked(RenderedChat chat) const {
    RenderedChat made;
    std::size_t done = 0;
    std::vector<std::size_t> cuts;  // places of the marks
    for (std::size_t at; (at = chat.text.find(mark_, done)) != chat.text.npos;
         done = at + mark_.size()) {
      made.text.append(chat.text, done, at - done);
      cuts.push_back(at);
      // A template that takes letters out may leave marks alone.
      const bool repeats = !made.letters.empty() && made.letters.back() + 1 == made.text.size();
      if (!made.text.empty() && !repeats) made.letters.push_back(made.text.size() - 1);
    }
    made.text.append(chat.text, done);
    const auto moved = [&](std::size_t place) {
      const auto before = std::lower_bound(cuts.begin(), cuts.end(), place) - cuts.begin();
      return place - static_cast<std::size_t>(before) * mark_.size();
    };
    for (const TextSpan& span : chat.generated) {
      made.generated.push_back({moved(span.begin), moved(span.end)});
    }
    return made;
  }

 private:
  static std::string unused_mark(const Conversation& conversation, std::string_view variables) {
    for (char32_t c = kFirstMark; c <= kLastMark; ++c) {
      const std::string mark = to_utf8(c), escaped = fmt::format("\\u{:x}", std::uint32_t{c});
      const auto in = [&](std::string_view text) { return text.find(mark) != text.npos; };
      const auto in_json = [&](std::string_view text) {
        return in(text) || std::search(text.begin(), text.end(), escaped.begin(), escaped.end(),
                                       [](char a, char b) {
                                         return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
                                       }) != text.end();
      };
      const auto in_message = [&](const Message& m) {
        return in(m.role) || in(m.content) || in_json(m.json);
      };
      const auto& messages = conversation.messages;
      if (in_json(variables) || in_json(conversation.tools) || in_json(conversation.documents)) {
        continue;
      }
      if (std::none_of(messages.begin(), messages.end(), in_message)) return mark;
    }
    fail(
        "[chat template] the messages have all of Unicode's noncharacters U+FDD0 to U+FDEF, of "
        "which "
        "one must be left for marks: leave one out");
  }

  std::string marked_text(const std::string& text) {
    std::string made;
    std::size_t done = 0;
    for (const std::size_t place : tokenizer_.special_places(text)) {
      const std::size_t end = place + first_char(std::string_view(text).substr(place)).size;
      made.append(text, done, end - done).append(mark_);
      done = end;
      ++count_;
    }
    return done == 0 ? text : made.append(text, done);
  }

  std::string marked_json(const std::string& text) {
    if (text.empty()) return text;
    Json json = parse_json<Json>(text, kMostMarkedDepth);
    const std::size_t before = count_;
    mark(json);
    return count_ == before ? text : json_text(json);
  }

  void mark(Json& json) {
    if (json.is_string()) {
      json = marked_text(json.get_ref<const std::string&>());
    } else if (json.is_array()) {
      for (Json& element : json) mark(element);
    } else if (json.is_object()) {
      Json made = Json::object();
      for (auto& [name, value] : json.items()) {
        mark(value);
        made[marked_text(name)] = std::move(value);
      }
      json = std::move(made);
    }
  }

  const Tokenizer& tokenizer_;
  const std::string mark_;
  std::size_t count_ = 0;
};

}  // namespace

RenderedChat render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                         const Conversation& conversation, bool add_generation_prompt,
                         std::string_view variables, const RenderLimits& most) {
  const auto as_it_is = [&] {
    return chat_template.render(conversation, add_generation_prompt, variables, most);
  };
  if (chat_template.special_in_messages()) return as_it_is();
  MessageMarks marks(tokenizer, conversation, variables);
  const Conversation marked = marks.marked(conversation);
  const std::string more = marks.marked_variables(variables);
  if (!marks.any()) return as_it_is();
  return marks.unmarked(chat_template.render(marked, add_generation_prompt, more, most));
}

std::vector<Token> tokens_of(const RenderedChat& chat, const Tokenizer& tokenizer) {
  return tokenizer.encode_with_letters(chat.text, chat.letters);
}

}  // namespace tapegrad::data
