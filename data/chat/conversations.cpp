#include "tapegrad/data/chat/conversations.h"

#include <functional>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/text/internal/line_splitter.h"
#include "tapegrad/data/chat/preference_pairs.h"
#include "tapegrad/data/corpus/internal/text_file.h"
#include "tapegrad/data/tokenize/document_ends.h"

namespace tapegrad::data {

void BadLines::add(const std::filesystem::path& file, std::int64_t line, std::string_view reason) {
  std::string text = fmt::format("'{}', line {}: {}", file.string(), line, reason);
  check(!strict_, "[chat] {}", text);
  ++count_;
  if (first_.size() < kMostKept) first_.push_back(std::move(text));
}

namespace {

// Reads a line, or throws its fault. The function that it returns keeps the line; its argument is
// the line's number.
using TakeLine =
    std::function<std::function<void(std::int64_t)>(std::string_view line, LeftOutKeys& left_out)>;

ConversationFile each_line(const std::filesystem::path& path, const CorpusOptions& options,
                           BadLines& bad, std::string_view what, const TakeLine& take_line) {
  ConversationFile file{.path = path, .conversations = {}, .lines = {}, .fingerprint = {}};
  Fingerprint hash;
  std::int64_t number = 0, found = 0;
  std::string first_reason;
  const auto reject = [&](std::string_view reason) {
    if (first_reason.empty()) first_reason = fmt::format("line {}: {}", number, reason);
    bad.add(path, number, reason);
  };
  const auto take = [&](std::string_view line, bool too_long) {
    ++number;
    hash.add(line);
    hash.add("\n");
    if (too_long) {
      return reject(fmt::format("it has more than {} bytes", options.max_line_bytes));
    }
    if (is_blank(line)) return;
    check(found > 0 || line[line.find_first_not_of(kWhiteSpace)] != '[',
          "[chat] '{}' is a list in JSON, where each line must be an object: `jq -c '.[]' FILE "
          "> FILE.jsonl` makes lines of it",
          path.string());
    std::function<void(std::int64_t)> keep;
    try {
      keep = take_line(line, file.left_out);
    } catch (const Error& error) {
      return reject(error.what());
    }
    ++found;
    keep(number);
  };
  TextFile text(path, options, options.max_bytes);
  LineSplitter lines(static_cast<std::size_t>(options.max_line_bytes));
  // The splitter passes on a line that is too long as an empty one.
  std::int64_t line_bytes = 0;
  const auto take_piece = [&](std::string_view piece) {
    file.bytes += std::ssize(piece);
    std::string_view rest = piece;
    lines.take(piece, [&](std::string_view line) {
      const std::size_t end = rest.find('\n');
      line_bytes += static_cast<std::int64_t>(end);
      rest.remove_prefix(end + 1);
      take(line, line_bytes > options.max_line_bytes);
      line_bytes = 0;
    });
    line_bytes += std::ssize(rest);
  };
  for (std::string_view piece; !(piece = text.next()).empty();) take_piece(piece);
  if (const auto& fault = text.fault()) {
    fail("[chat] '{}' {}; conversations are JSON lines in UTF-8", path.string(), *fault);
  }
  if (lines.within_line()) take_piece("\n");
  check(found > 0, "[chat] '{}': no line is a {}{}", path.string(), what,
        first_reason.empty() ? "" : ": " + first_reason);
  file.fingerprint = hash.str();
  return file;
}

}  // namespace

ConversationFile each_conversation(const std::filesystem::path& path, const CorpusOptions& options,
                                   BadLines& bad, const TakeConversation& take) {
  Conversation made;
  return each_line(path, options, bad, "conversation",
                   [&](std::string_view line, LeftOutKeys& left_out) {
                     made = conversation_of_line(line, left_out);
                     return [&](std::int64_t number) { take(std::move(made), number); };
                   });
}

ConversationFile read_conversations(const std::filesystem::path& path, const CorpusOptions& options,
                                    BadLines& bad, LineForm form) {
  std::vector<Conversation> conversations, rejected;
  std::vector<std::int64_t> lines;
  const auto take = [&](Conversation&& conversation, std::int64_t line) {
    conversations.push_back(std::move(conversation));
    lines.push_back(line);
  };
  PreferencePair made;
  ConversationFile file = form == LineForm::conversation
                              ? each_conversation(path, options, bad, take)
                              : each_line(path, options, bad, "pair of answers",
                                          [&](std::string_view line, LeftOutKeys& left_out) {
                                            made = pair_of_line(line, left_out);
                                            return [&](std::int64_t number) {
                                              take(std::move(made.chosen), number);
                                              rejected.push_back(std::move(made.rejected));
                                            };
                                          });
  file.conversations = std::move(conversations);
  file.rejected = std::move(rejected);
  file.lines = std::move(lines);
  return file;
}

}  // namespace tapegrad::data
