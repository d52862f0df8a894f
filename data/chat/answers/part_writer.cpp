#include "tapegrad/data/chat/answers/internal/part_writer.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/text/internal/spaces.h"

namespace tapegrad::data {
namespace {

using Kind = AnswerPart::Kind;

}  // namespace

void PartWriter::add(Kind kind, std::string_view text) {
  const bool goes_on = !parts_.empty() && parts_.back().kind == kind &&
                       (kind != Kind::call_arguments || parts_.back().index == index_);
  if (!goes_on) parts_.push_back({.kind = kind});
  if (kind == Kind::call_arguments) parts_.back().index = index_;
  parts_.back().text += text;
}

void PartWriter::content(char c) {
  const bool waits = calls_ || trims_ || (reasoning_ && !any_content_);
  if (is_space(c) && waits) {
    if (!trims_) space_ += c;
    return;
  }
  space_ += c;
  add(Kind::content, space_);
  space_.clear();
  trims_ = false;
  any_content_ = any_content_ || !is_space(c);
}

void PartWriter::content(std::string_view text) {
  for (const char c : text) content(c);
}

void PartWriter::reasoning(char c) {
  if (is_space(c)) {
    if (any_reasoning_) space_ += c;
    return;
  }
  space_ += c;
  add(Kind::reasoning, space_);
  space_.clear();
  any_reasoning_ = true;
}

void PartWriter::end_reasoning() {
  in_reasoning_ = false;
  space_.clear();
  trims_ = !any_content_;
}

void PartWriter::begin_reasoning() {
  in_reasoning_ = true;
  space_.clear();
  if (any_reasoning_) space_ = '\n';
}

void PartWriter::next_line() {
  if (any_content_) space_ = '\n';
}

bool PartWriter::calls(const std::vector<ScannedCall>& calls) {
  bool any = false;
  for (; said_ < calls.size(); ++said_) {
    const ScannedCall& call = calls[said_];
    if (!call.named) break;
    if (!open_) {
      parts_.push_back(
          {.kind = Kind::call_begin, .index = index_, .name = call.name, .id = call.id});
      open_ = any = true;
      said_bytes_ = 0;
    }
    if (call.arguments.size() > said_bytes_) {
      add(Kind::call_arguments, std::string_view(call.arguments).substr(said_bytes_));
      said_bytes_ = call.arguments.size();
      any = true;
    }
    if (!call.complete) break;
    parts_.push_back({.kind = Kind::call_end, .index = index_});
    open_ = false;
    any = true;
    ++index_;
  }
  if (any) space_.clear();
  if (any) trims_ = !any_content_;
  return any;
}

void PartWriter::end_calls() {
  if (open_) ++index_;
  open_ = false;
  said_ = 0;
}

void PartWriter::end() {
  const bool called = any_calls() || open_;
  if (in_reasoning_) {
    if (!space_.empty()) add(Kind::reasoning, space_);
  } else if (!called && !space_.empty()) {
    add(Kind::content, space_);
  }
  space_.clear();
}

std::vector<AnswerPart> PartWriter::take() { return std::exchange(parts_, {}); }

}  // namespace tapegrad::data
