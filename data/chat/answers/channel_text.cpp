#include "tapegrad/data/chat/answers/internal/channel_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapegrad::data {
namespace {

constexpr std::string_view kMessage = "<|message|>", kChannel = "<|channel|>", kTo = "to=";
// A header may begin with these, and have these.
constexpr std::array<std::string_view, 3> kBegins = {"<|start|>", kChannel, " to="};
constexpr std::array<std::string_view, 3> kWithin = {kChannel, "<|constrain|>", kMessage};
const std::vector<std::string_view> kEnds = {"<|end|>", "<|return|>", "<|call|>", "<|start|>",
                                             kChannel};  // of a message
constexpr std::size_t kMostHeader = 256;

bool one_begins(const auto& marks, std::string_view text) {
  return std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) {
    return mark.starts_with(text.substr(0, mark.size()));
  });
}

bool may_be_header(std::string_view text) {
  if (text.size() > kMostHeader || !one_begins(kBegins, text)) return false;
  if (text.find('\n') != std::string_view::npos) return false;
  const std::size_t mark = text.rfind("<|");
  return mark == 0 || mark == std::string_view::npos || one_begins(kWithin, text.substr(mark));
}

// What stands behind `mark`, up to white space or a further mark.
std::string_view word_after(std::string_view header, std::string_view mark) {
  const std::size_t at = header.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + mark.size());
  return rest.substr(0, rest.find_first_of(" <"));
}

class ChannelText : public AnswerReader::Text {
 public:
  explicit ChannelText(AnswerReading reading) : Text(std::move(reading)) {}

  void push(char c) override {
    if (block_) {
      push_call(c);
    } else if (in_header_) {
      push_header(c);
    } else if (finder_.push(c, kEnds, [this](char out) { say(out); })) {
      end_message(finder_.found());
    }
  }

  bool reasons() const override { return reasons_ || at_start(); }

 private:
  void push_header(char c) {
    header_ += c;
    if (std::string_view(header_).ends_with(kMessage)) {
      begin_message(std::exchange(header_, {}));
    } else if (!may_be_header(header_)) {
      in_header_ = reasons_ = false;
      const std::string text = std::exchange(header_, {});
      writer_.content(std::string_view(text).substr(0, text.size() - 1));
      push(c);
    }
  }

  void begin_message(const std::string& header) {
    constexpr std::string_view kFunctions = "functions.";
    in_header_ = false;
    const std::string_view to = word_after(header, kTo);
    reasons_ = to.empty() && word_after(header, kChannel) == "analysis";
    if (reasons_) {
      writer_.begin_reasoning();
    } else if (to.empty()) {
      writer_.next_line();
    } else if (reading_.calls != nullptr && to.starts_with(kFunctions)) {
      call(header, to.substr(kFunctions.size()));
    } else {
      writer_.content(header);
    }
  }

  void call(const std::string& header, std::string_view name) {
    const auto& known = reading_.functions;
    if (std::find(known.begin(), known.end(), name) == known.end()) return writer_.content(header);
    begin_call(header, kEnds, name);
  }

  void say(char c) {
    if (reasons_) {
      writer_.reasoning(c);
    } else {
      writer_.content(c);
    }
  }

  void end_message(std::string_view mark) {
    if (std::exchange(reasons_, false)) writer_.end_reasoning();
    in_header_ = true;
    header_ = one_begins(kBegins, mark) ? mark : "";
  }
  void end_call(std::string_view mark) override { end_message(mark); }

  void push_failed(std::string_view text, std::size_t /*body*/, char c) override {
    writer_.content(text);
    push(c);
  }

  void end_text() override {
    for (const char c : finder_.take()) say(c);
    const bool mark = header_.find("|>") != std::string::npos;
    if (!mark) writer_.content(header_);
  }

  bool in_header_ = true;
  bool reasons_ = false;  // the message is reasoning
  std::string header_ = {};
  MarkFinder finder_ = {};
};

}  // namespace

std::unique_ptr<AnswerReader::Text> channel_text(AnswerReading reading) {
  return std::make_unique<ChannelText>(std::move(reading));
}

}  // namespace tapegrad::data
