#include "tapegrad/apps/serve/answer_parts.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapegrad::serve {
namespace {

using Kind = data::AnswerPart::Kind;

std::string new_call_id(Rng& rng) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr int kSize = 9;
  std::string id;
  for (int i = 0; i < kSize; ++i) {
    id += kLetters[static_cast<std::size_t>(rng.randint(std::ssize(kLetters)))];
  }
  return id;
}

}  // namespace

AnswerParts::AnswerParts(const data::AnswerReading& reading, std::uint64_t seed)
    : reader_(reading), rng_(seed, Rng::Kind::philox) {}

std::vector<data::AnswerPart> AnswerParts::push(std::string_view text, std::int64_t tokens) {
  if (reader_.reasons()) reasoning_tokens_ += tokens;
  return seen(reader_.push(text));
}

std::vector<data::AnswerPart> AnswerParts::end() { return seen(reader_.end()); }

std::vector<data::AnswerPart> AnswerParts::seen(std::vector<data::AnswerPart> parts) {
  for (data::AnswerPart& part : parts) {
    reasons_ = reasons_ || part.kind == Kind::reasoning;
    if (part.kind == Kind::call_begin) {
      if (part.id.empty()) part.id = new_call_id(rng_);
      open_ = true;
      ++calls_;
    }
    if (part.kind == Kind::call_end) open_ = false;
  }
  return parts;
}

void append_parts(std::vector<data::AnswerPart>& parts, std::vector<data::AnswerPart> more) {
  for (data::AnswerPart& part : more) {
    const bool is_text = part.kind != Kind::call_begin && part.kind != Kind::call_end;
    if (is_text && !parts.empty() && parts.back().kind == part.kind &&
        parts.back().index == part.index) {
      parts.back().text += part.text;
    } else {
      parts.push_back(std::move(part));
    }
  }
}

}  // namespace tapegrad::serve
