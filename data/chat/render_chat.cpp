#include "tapegrad/data/chat/render_chat.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/chat/internal/chat_json.h"
#include "tapegrad/data/tokenize/document_ends.h"

// A template mixes the contents of messages with its own marks, and may cut, trim and search the
// contents. So a mark is put into each special token that a message spells, behind its first
// character: a noncharacter of Unicode, which the messages do not have. The template takes the mark
// along like any letter, or prints it as \ufdd0. It is taken out of the template's text, and the
// byte before it is known to be a message's, if it can begin such a token: a template may have cut
// the first character off.

namespace tapegrad::data {
namespace {

constexpr char32_t kFirstMark = 0xFDD0, kLastMark = 0xFDEF;  // never characters, by Unicode

// As Python and JSON print it, behind a backslash.
std::string printed_digits(char32_t mark) { return fmt::format("u{:04x}", std::uint32_t{mark}); }

bool has_printed(std::string_view text, const std::string& digits) {
  return std::search(text.begin(), text.end(), digits.begin(), digits.end(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
         }) != text.end();
}

char32_t unused_mark(const Conversation& conversation, std::string_view variables,
                     const std::string& source) {
  for (char32_t c = kFirstMark; c <= kLastMark; ++c) {
    const std::string mark = to_utf8(c), digits = printed_digits(c);
    const auto has = [&](std::string_view text) {
      return text.find(mark) != text.npos || has_printed(text, digits);
    };
    const auto in_message = [&](const Message& m) {
      return has(m.role) || has(m.content) || has(m.json);
    };
    const bool used = has(source) || has(variables) || has(conversation.tools) ||
                      has(conversation.documents) ||
                      std::ranges::any_of(conversation.messages, in_message);
    if (!used) return c;
  }
  fail(
      "[chat template] the messages and the template have all of Unicode's noncharacters U+FDD0 to "
      "U+FDEF, of which one must be left for marks: leave one out");
}

class MessageMarks {
 public:
  MessageMarks(const Tokenizer& tokenizer, char32_t mark)
      : tokenizer_(tokenizer), mark_(to_utf8(mark)), digits_(printed_digits(mark)) {}

  // `look`: of RenderLimits.
  Conversation marked(Conversation conversation, const std::function<void()>& look) {
    for (Message& message : conversation.messages) {
      if (look) look();
      message.role = marked_text(message.role);
      message.content = marked_text(message.content);
      message.json = marked_json(message.json, "a message");
    }
    conversation.tools = marked_json(conversation.tools, "tools");
    conversation.documents = marked_json(conversation.documents, "documents");
    return conversation;
  }

  std::string marked_variables(std::string_view variables) {
    if (variables.empty()) return {};
    Json json = chat_json(variables, "variables");
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
    std::vector<TextSpan> cuts;  // the marks, each with its end in the text that is made
    for (TextSpan cut; (cut = next_mark(chat.text, done)).begin < chat.text.size();
         done = cut.end) {
      made.text.append(chat.text, done, cut.begin - done);
      cuts.push_back({cut.end, made.text.size()});
      // A template that takes letters out may leave marks alone.
      const bool repeats = !made.letters.empty() && made.letters.back() + 1 == made.text.size();
      const bool begins = std::any_of(firsts_.begin(), firsts_.end(), [&](const auto& first) {
        return made.text.ends_with(first);
      });
      if (begins && !repeats) made.letters.push_back(made.text.size() - 1);
    }
    made.text.append(chat.text, done);
    const auto moved = [&](std::size_t place) {
      const auto behind = std::ranges::upper_bound(cuts, place, {}, &TextSpan::begin);
      if (behind == cuts.begin()) return place;
      return place - (behind[-1].begin - behind[-1].end);
    };
    for (const TextSpan& span : chat.generated) {
      made.generated.push_back({moved(span.begin), moved(span.end)});
    }
    return made;
  }

 private:
  // The first mark at or behind a place, as it is or printed. Behind the text: none.
  TextSpan next_mark(const std::string& text, std::size_t at) const {
    const char begins[] = {mark_[0], '\\', '\0'};
    while ((at = text.find_first_of(begins, at)) != text.npos) {
      if (text.compare(at, mark_.size(), mark_) == 0) return {at, at + mark_.size()};
      if (text[at] != '\\') {
        ++at;
        continue;
      }
      // What is printed twice has more of them.
      const std::size_t digits = std::min(text.find_first_not_of('\\', at), text.size());
      if (has_printed(std::string_view(text).substr(digits, digits_.size()), digits_)) {
        return {at, digits + digits_.size()};
      }
      at = digits;
    }
    return {text.size(), text.size()};
  }

  std::string marked_text(const std::string& text) {
    std::string made;
    std::size_t done = 0;
    for (const std::size_t place : tokenizer_.special_places(text)) {
      const std::size_t end = place + first_char(std::string_view(text).substr(place)).size;
      firsts_.insert(text.substr(place, end - place));
      made.append(text, done, end - done).append(mark_);
      done = end;
      ++count_;
    }
    return done == 0 ? text : made.append(text, done);
  }

  std::string marked_json(const std::string& text, const char* what) {
    if (text.empty()) return text;
    Json json = chat_json(text, what);
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
        // Its own operator[] would look through all members for each.
        made.get_ref<Json::object_t&>().emplace_back(marked_text(name), std::move(value));
      }
      json = std::move(made);
    }
  }

  const Tokenizer& tokenizer_;
  const std::string mark_, digits_;
  std::set<std::string> firsts_;  // first characters of what was marked
  std::size_t count_ = 0;
};

void cut(RenderedChat& chat, std::size_t end) {
  chat.text.resize(end);
  std::erase_if(chat.letters, [&](std::size_t place) { return place >= end; });
  std::erase_if(chat.generated, [&](const TextSpan& span) { return span.begin >= end; });
  for (TextSpan& span : chat.generated) span.end = std::min(span.end, end);
}

}  // namespace

RenderedChat render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                         const Conversation& conversation, bool add_generation_prompt,
                         std::string_view variables, const RenderLimits& most) {
  const auto as_it_is = [&] {
    return chat_template.render(conversation, add_generation_prompt, variables, most);
  };
  if (chat_template.special_in_messages()) return as_it_is();
  MessageMarks marks(tokenizer, unused_mark(conversation, variables, chat_template.source()));
  const Conversation marked = marks.marked(conversation, most.look);
  const std::string more = marks.marked_variables(variables);
  if (!marks.any()) return as_it_is();
  return marks.unmarked(chat_template.render(marked, add_generation_prompt, more, most));
}

ContinuedChat render_continued(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                               Conversation conversation, std::string_view variables,
                               const RenderLimits& most) {
  check(!conversation.messages.empty(), "[chat template] there is no message to go on with");
  // A mark ends the content, and spaces behind it tell whether the template trims: more of them
  // than templates write behind a content.
  constexpr std::string_view kTrimmed = "   ";
  const std::string mark = to_utf8(unused_mark(conversation, variables, chat_template.source()));
  Message& last = conversation.messages.back();
  const std::string content = last.content;
  last = with_content(std::move(last), content + mark + std::string(kTrimmed));
  RenderedChat chat = render_chat(chat_template, tokenizer, conversation, false, variables, most);
  const std::size_t place = chat.text.find(mark);
  const auto check_shown = [&](bool shown) {
    check(shown,
          "[chat template] the template does not show the last message as it is, so that nothing "
          "can go on with it");
  };
  check_shown(place != chat.text.npos);
  check(chat.text.rfind(mark) == place,
        "[chat template] the template shows the last message several times, so that nothing can go "
        "on with it");
  const bool trims = chat.text.compare(place + mark.size(), kTrimmed.size(), kTrimmed) != 0;
  const std::size_t first = content.find_first_not_of(kWhiteSpace);
  const bool blank = first == content.npos;
  const std::string_view before = std::string_view(chat.text).substr(0, place);
  if (blank && !content.empty() && (trims || !before.ends_with(content))) {
    // Which spaces stand before the mark, those of the content or the template's, is not seen.
    conversation.messages.back() = with_content(std::move(last), "");
    return render_continued(chat_template, tokenizer, std::move(conversation), variables, most);
  }
  check_shown(before.ends_with(std::string_view(content).substr(blank ? 0 : first)));
  const std::size_t kept = trims ? content.find_last_not_of(kWhiteSpace) + 1 : content.size();
  cut(chat, place - (content.size() - kept));
  return {std::move(chat), kept};
}

std::vector<Token> tokens_of(const RenderedChat& chat, const Tokenizer& tokenizer) {
  return tokenizer.encode_with_letters(chat.text, chat.letters);
}

}  // namespace tapegrad::data
