#include "tapegrad/data/chat/chat_tokens.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/internal/chat_json.h"
#include "tapegrad/data/chat/internal/tool_lines.h"
#include "tapegrad/data/chat/render_chat.h"
#include "tapegrad/data/tokenize/document_ends.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"

namespace tapegrad::data {
namespace {

// The tokens of a text, and where each of them ends in it.
class PlacedTokens {
 public:
  PlacedTokens(const RenderedChat& chat, const Tokenizer& tokenizer)
      : text_(chat.text), tokenizer_(tokenizer), tokens_(tokens_of(chat, tokenizer)) {
    if (place_in(text_)) return;
    normalized_ = true;
    const std::string changed = nfc(text_);
    check(place_in(changed), "the tokens of a text of {} bytes have other ones", text_.size());
  }
  std::vector<Token> take() { return std::move(tokens_); }

  // The token that has a byte of the text; behind the last one if the text is not so long.
  std::int64_t token_at(std::size_t byte) const {
    // Normalizing changes lengths, and what stands before a character by itself alone.
    const std::size_t place = normalized_ ? nfc(text_.substr(0, byte)).size() : byte;
    return std::upper_bound(ends_.begin(), ends_.end(), place) - ends_.begin();
  }
  // The end, in bytes of the text, of the first special token at or behind a byte, if there is one.
  std::optional<std::size_t> next_special(std::size_t byte) const {
    for (auto i = static_cast<std::size_t>(token_at(byte)); i < tokens_.size(); ++i) {
      if (!is_special(tokenizer_, tokens_[i])) continue;
      const std::string name = tokenizer_.token_bytes(tokens_[i]);
      const std::size_t found = text_.find(name, byte);
      check(found != std::string::npos, "the special token {} is not in the text", name);
      return found + name.size();
    }
    return std::nullopt;
  }
  // Error if there is none.
  std::size_t end_of_special(std::size_t byte) const {
    const auto end = next_special(byte);
    check(end.has_value(),
          "the template writes no special token behind an answer, and its end cannot be told");
    return *end;
  }

 private:
  // True if the tokens' bytes are those of a text, but for spaces that the tokenizer puts before
  // parts of it.
  bool place_in(std::string_view text) {
    ends_.clear();
    std::size_t end = 0;
    for (const Token token : tokens_) {
      const std::string own = tokenizer_.token_bytes(token);
      std::string_view bytes = own;
      if (bytes.starts_with(' ') && !text.substr(end).starts_with(bytes)) bytes.remove_prefix(1);
      if (!text.substr(end).starts_with(bytes)) return false;
      ends_.push_back(end += bytes.size());
    }
    return end == text.size();
  }

  const std::string& text_;
  const Tokenizer& tokenizer_;
  std::vector<Token> tokens_;
  std::vector<std::size_t> ends_;  // in the normalized text
  bool normalized_ = false;
};

std::size_t start_of_last_char(std::string_view text, std::size_t end) {
  const auto is_inside = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  std::size_t at = end - 1;
  while (at > 0 && is_inside(at)) --at;
  return at;
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

// An answer's text as templates may write it: trimmed, and without the thoughts before it.
std::string_view bare_answer(std::string_view content) {
  constexpr std::string_view end_of_thought = "</think>";
  if (const std::size_t at = content.rfind(end_of_thought); at != content.npos) {
    content.remove_prefix(at + end_of_thought.size());
  }
  const std::size_t first = std::min(content.find_first_not_of(kWhiteSpace), content.size());
  content.remove_prefix(first);
  return content.substr(0, content.find_last_not_of(kWhiteSpace) + 1);
}

// Which bytes of a conversation's text are answers, by the texts of its beginnings.
class AnswersByPrefixes {
 public:
  AnswersByPrefixes(const Conversation& whole, const ChatTemplate& chat_template,
                    const Tokenizer& tokenizer, const std::string& text, const PlacedTokens& tokens)
      : whole_(whole),
        template_(chat_template),
        tokenizer_(tokenizer),
        text_(text),
        tokens_(tokens) {}

  // Of the first answer, and of others that begin within so many tokens.
  std::vector<TextSpan> spans(std::int64_t most_tokens) {
    std::vector<TextSpan> spans;
    for (std::size_t i = 0; i < whole_.messages.size(); ++i) {
      if (whole_.messages[i].role != "assistant") continue;
      ended_early_ = rendered_ > kMostRenderedMessages;
      if (ended_early_) break;
      const std::size_t begin = begin_of(i);
      if (!spans.empty() && tokens_.token_at(begin) >= most_tokens) break;
      spans.push_back({begin, end_of(i, begin)});
      check(spans.back().end >= begin, "the template writes no answer for message {}", i + 1);
    }
    return spans;
  }
  // True if spans() left out answers because there are too many messages before them.
  bool ended_early() const { return ended_early_; }

 private:
  std::string render(std::size_t messages, bool prompt) {
    Conversation part{.messages = {}, .tools = whole_.tools, .documents = whole_.documents};
    part.messages.assign(whole_.messages.begin(),
                         whole_.messages.begin() + static_cast<std::ptrdiff_t>(messages));
    return render(part, prompt);
  }
  std::string render(const Conversation& conversation, bool prompt) {
    rendered_ += std::ssize(conversation.messages);
    return render_chat(template_, tokenizer_, conversation, prompt).text;
  }

  std::size_t begin_of(std::size_t i) {
    const std::string prompt = render(i, true);
    const std::size_t same = common_prefix(prompt, text_);
    if (same == prompt.size()) return same;
    // A prompt may begin an answer in a way that answers do not begin later: with <think>.
    const std::string before = render(i, false);
    if (!text_.starts_with(before) || same <= before.size()) {
      return begin_behind_header(i, before, prompt);
    }
    // An answer may begin with letters of the prompt's, as calls with the < of <think>.
    if (!whole_.messages[i].content.empty()) return std::min(same, place_of(i, 0));
    const std::size_t line = prompt.rfind('\n', same - 1);
    return line != prompt.npos && line >= before.size() ? line + 1 : same;
  }

  // If the template writes earlier answers otherwise once this one follows (Qwen3, which leaves out
  // the thoughts of calls when the user has said more): behind the last generation prompt before
  // the message.
  std::size_t begin_behind_header(std::size_t i, std::string_view before, std::string_view prompt) {
    const bool has_header = prompt.starts_with(before) && prompt.size() > before.size();
    const std::string_view header = has_header ? prompt.substr(before.size()) : "";
    const std::size_t place =
        whole_.messages[i].content.empty() ? place_in_last_call(i).value_or(0) : place_of(i, 0);
    const std::size_t found =
        has_header ? std::string_view(text_).substr(0, place).rfind(header) : text_.npos;
    check(found != text_.npos,
          "the template writes the messages before message {} otherwise when it follows, so that "
          "its answer cannot be told: a template with {{% generation %}} marks can tell it",
          i + 1);
    return found + header.size();
  }

  std::size_t end_of(std::size_t i, std::size_t begin) {
    const std::string through =
        i + 1 == whole_.messages.size() ? text_ : render(i + 1, /*prompt=*/false);
    // Some templates (Llama 3's first one) write the beginning of a next answer in any case.
    const bool asks_on = render(i + 1, /*prompt=*/true) == through;
    if (!asks_on && text_.starts_with(through)) return through.size();
    if (const auto place = place_in_last_call(i)) return end_behind_call(*place, through);
    const std::string& content = whole_.messages[i].content;
    const std::string_view answer = bare_answer(content);
    const auto byte = static_cast<std::size_t>(answer.data() - content.data());
    const std::size_t found = content.empty() ? begin : place_of(i, byte);
    check(found >= begin && std::string_view(text_).substr(found).starts_with(answer),
          "the template writes message {} otherwise than it is, so that its end cannot be told: a "
          "template with {{% generation %}} marks can tell it",
          i + 1);
    return tokens_.end_of_special(found + answer.size());
  }

  // The marks of calls may be special tokens, too. So the end is that of the first one up to which
  // the text is what the message ends with in `through`, if there is any.
  std::size_t end_behind_call(std::size_t place, std::string_view through) const {
    constexpr int kMostMarks = 8;
    through = through.substr(0, through.find_last_not_of(kWhiteSpace) + 1);
    const std::size_t first = tokens_.end_of_special(place);
    std::optional<std::size_t> end = first;
    for (int marks = 0; marks < kMostMarks && end; ++marks) {
      if (through.ends_with(std::string_view(text_).substr(place, *end - place))) return *end;
      end = tokens_.next_special(*end);
    }
    return first;
  }

  // A place in the arguments of a message's last call, or at their end: behind it, the text is the
  // same if others are given. No special token stands between it and their end. Nothing if the
  // message has no calls.
  std::optional<std::size_t> place_in_last_call(std::size_t i) {
    if (whole_.messages[i].json.empty()) return std::nullopt;
    Json message = chat_json(whole_.messages[i].json, "a message");
    Json* calls = calls_in(message);
    if (calls == nullptr) return std::nullopt;
    Json& arguments = function_in(calls->back())["arguments"];
    const char* key = json_text(arguments).find('_') == std::string::npos ? "_" : "1";
    const Json others = {{key, key}};
    arguments = arguments.is_string() ? Json(json_text(others)) : others;
    Conversation other = whole_;
    other.messages[i] = message_of_json(json_text(message));
    const std::string text = render(other, /*prompt=*/false);
    const auto same = std::mismatch(text_.rbegin(), text_.rend(), text.rbegin(), text.rend());
    return static_cast<std::size_t>(text_.rend() - same.first);
  }

  // Where the template writes the content of a message from this byte on: there the text changes if
  // another content is given. A search would find an answer "a" in "<|channel|>", too.
  std::size_t place_of(std::size_t i, std::size_t byte) {
    const Message& message = whole_.messages[i];
    const std::string_view answer = bare_answer(message.content);
    // Of these, one is neither the next letter nor that behind thoughts which are left out.
    std::string_view others = "123";
    const auto begins = [&](std::string_view text) { return text.starts_with(others.front()); };
    while (begins(std::string_view(message.content).substr(byte)) || begins(answer)) {
      others.remove_prefix(1);
    }
    Conversation other = whole_;
    other.messages[i] = with_content(message, message.content.substr(0, byte) + others.front());
    return common_prefix(render(other, /*prompt=*/false), text_);
  }

  const Conversation& whole_;
  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  const std::string& text_;
  const PlacedTokens& tokens_;
  std::int64_t rendered_ = 0;
  bool ended_early_ = false;
};

}  // namespace

bool is_special(const Tokenizer& tokenizer, Token token) {
  const std::string name = tokenizer.token_bytes(token);
  return tokenizer.encode(name) != tokenizer.encode(name, true);
}

ChatTokens chat_tokens(const Conversation& conversation, const ChatTemplate& chat_template,
                       const Tokenizer& tokenizer, std::int64_t most_tokens) {
  const RenderedChat chat = render_chat(chat_template, tokenizer, conversation, false);
  PlacedTokens tokens(chat, tokenizer);
  const bool marked = chat_template.marks_generations();
  AnswersByPrefixes by_prefixes(conversation, chat_template, tokenizer, chat.text, tokens);
  const std::vector<TextSpan> spans = marked ? chat.generated : by_prefixes.spans(most_tokens);
  ChatTokens result;
  for (const TextSpan& span : spans) {
    if (span.end <= span.begin) continue;
    const std::size_t last = marked ? start_of_last_char(chat.text, span.end) : span.end - 1;
    const TokenRange range{tokens.token_at(span.begin), tokens.token_at(last) + 1};
    auto& answers = result.answers;
    if (!answers.empty() && range.begin < answers.back().end) {  // one token has a byte of both
      answers.back().end = range.end;
    } else {
      answers.push_back(range);
    }
  }
  result.tokens = tokens.take();
  result.spelled = std::ssize(chat.letters);
  if (by_prefixes.ended_early() && !result.answers.empty()) {
    result.divided = true;
    result.tokens.resize(static_cast<std::size_t>(result.answers.back().end));
  }
  return result;
}

bool cut_at_turn(std::int64_t& length, std::vector<TokenRange>& answers, std::int64_t block_size) {
  if (length <= block_size + 1) return !answers.empty();
  while (!answers.empty() && answers.back().end > block_size + 1) answers.pop_back();
  if (answers.empty()) return false;
  length = answers.back().end;
  return true;
}

bool cut_at_turn(ChatTokens& chat, std::int64_t block_size) {
  std::int64_t length = std::ssize(chat.tokens);
  if (!cut_at_turn(length, chat.answers, block_size)) return false;
  chat.tokens.resize(static_cast<std::size_t>(length));
  return true;
}

}  // namespace tapegrad::data
