#include "tapegrad/data/chat/answers/internal/answer_reader.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/data/chat/answers/internal/answer_text.h"
#include "tapegrad/data/chat/answers/internal/channel_text.h"

namespace tapegrad::data {
namespace {

// Reasoning, then content with calls.
class MarkedText : public AnswerReader::Text {
 public:
  explicit MarkedText(AnswerReading reading)
      : Text(std::move(reading)), in_reasoning_(reading_.within_reasoning && reading_.reasoning) {
    if (reading_.calls != nullptr) begin_ = without_space(reading_.calls->begin);
    if (in_reasoning_) writer_.begin_reasoning();
    find_marks();
  }

  void push(char c) override {
    if (block_) {
      push_call(c);
    } else if (in_reasoning_) {
      push_reasoning(c);
    } else if (finder_.push(c, marks_, [this](char out) { content(out); })) {
      begin_part(finder_.found());
    }
  }

  bool reasons() const override {
    return in_reasoning_ || (reading_.reasoning && !reasoned_ && at_start());
  }

 private:
  void begin_part(const std::string& mark) {
    if (reading_.reasoning && mark == reading_.reasoning->begin) {
      in_reasoning_ = true;
      writer_.begin_reasoning();
      find_marks();
      return;
    }
    const std::string_view end = without_space(reading_.calls->end);
    const bool brace = whole() && mark == "{";
    begin_call(brace ? "" : mark, end.empty() ? std::vector<std::string_view>{} : std::vector{end});
    if (brace) push_call('{');
  }

  void push_reasoning(char c) {
    if (!finder_.push(c, marks_, [this](char out) { reasoning(out); })) return;
    if (finder_.found() == reading_.reasoning->begin) return;  // the prompt had it already
    in_reasoning_ = false;
    reasoned_ = true;
    writer_.end_reasoning();
    find_marks();
  }

  void reasoning(char c) {
    const bool first = !writer_.any_reasoning();
    writer_.reasoning(c);
    if (first) find_marks();
  }

  void content(char c) {
    const bool first = !writer_.any_content();
    const bool between = whole() && writer_.any_calls() && !writer_.any_content();
    writer_.content(between && c == ';' ? ' ' : c);
    if (first && writer_.any_content()) find_marks();
  }

  // The marks that may come next.
  void find_marks() {
    marks_.clear();
    const bool begins = !writer_.any_content() && !writer_.any_calls();
    if (in_reasoning_) {
      marks_.push_back(reading_.reasoning->end);
      if (!writer_.any_reasoning()) marks_.push_back(reading_.reasoning->begin);
      return;
    }
    if (reading_.reasoning && begins && !reasoned_) marks_.push_back(reading_.reasoning->begin);
    if (reading_.calls == nullptr) return;
    if (!whole()) {
      marks_.push_back(begin_);
    } else if (!writer_.any_content()) {
      marks_.push_back("{");
      if (!reading_.calls->before.empty()) marks_.push_back(reading_.calls->before);
    }
  }

  // The answer as a whole is a body.
  bool whole() const { return reading_.calls != nullptr && begin_.empty(); }

  // Only the end of the text can be in a further mark. Where the text was valid up to there, a
  // mark within it was in a text of its JSON.
  void push_failed(std::string_view text, std::size_t body, char c) override {
    const std::size_t again = whole() ? 0 : std::min(body, begin_.size() - 1);
    writer_.content(text.substr(0, text.size() - again));
    find_marks();
    for (const char end : text.substr(text.size() - again)) push(end);
    push(c);
  }

  void end_text() override {
    for (const char c : finder_.take()) {
      if (in_reasoning_) {
        writer_.reasoning(c);
      } else {
        writer_.content(c);
      }
    }
  }

  bool in_reasoning_;
  bool reasoned_ = false;
  std::string_view begin_ = {};  // of a call
  std::vector<std::string_view> marks_ = {};
  MarkFinder finder_ = {};
};

}  // namespace

void AnswerReader::Text::begin_call(std::string text, std::vector<std::string_view> ends,
                                    std::string_view name) {
  block_.emplace(*reading_.calls, reading_.functions, std::move(text), std::move(ends), name);
  said_ = 0;
}

// What is said of the calls is not said as content again.
bool AnswerReader::Text::say_calls() {
  if (writer_.calls(block_->calls())) said_ = block_->text().size();
  return said_ > 0;
}

void AnswerReader::Text::push_call(char c) {
  const CallBlock::Step step = block_->push(c);
  if (reading_.held || step == CallBlock::Step::done) say_calls();
  if (step == CallBlock::Step::more) return;
  const CallBlock block = *std::exchange(block_, std::nullopt);
  const std::size_t said = std::exchange(said_, 0);
  writer_.end_calls();
  if (step == CallBlock::Step::done) return end_call(block.end_mark());
  const std::string_view rest = std::string_view(block.text()).substr(said);
  push_failed(rest, std::min(rest.size(), block.text().size() - block.begin()), c);
}

// Of a call that was cut, what its parts cannot say yet, such as the first digits of a number, is
// not text.
void AnswerReader::Text::end() {
  if (!block_) {
    end_text();
  } else {
    const bool call = (block_->body_complete() || reading_.held) && say_calls();
    if (!call) writer_.content(block_->text());
  }
  writer_.end();
}

AnswerReader::AnswerReader(AnswerReading reading) {
  const bool channels = (reading.calls != nullptr && reading.calls->channels) ||
                        (reading.reasoning && reading.reasoning->channels);
  if (channels) {
    text_ = channel_text(std::move(reading));
  } else {
    text_ = std::make_unique<MarkedText>(std::move(reading));
  }
}
AnswerReader::AnswerReader(AnswerReader&&) noexcept = default;
AnswerReader& AnswerReader::operator=(AnswerReader&&) noexcept = default;
AnswerReader::~AnswerReader() = default;

bool AnswerReader::reasons() const { return text_->reasons(); }

std::vector<AnswerPart> AnswerReader::push(std::string_view text) {
  for (const char c : text) text_->push(c);
  return text_->take();
}

std::vector<AnswerPart> AnswerReader::end() {
  text_->end();
  return text_->take();
}

}  // namespace tapegrad::data
