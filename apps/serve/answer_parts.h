#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/base/random.h"
#include "tapegrad/data/chat/answers/internal/answer_reader.h"

namespace tapegrad::serve {

// One text of an answer, taken apart into reasoning, content and calls. Each call has an id: the
// one that the model wrote, or nine letters and digits, as Mistral's templates want them.
class AnswerParts {
 public:
  // The same seed gives the same ids.
  AnswerParts(const data::AnswerReading& reading, std::uint64_t seed);

  // The text of the next tokens, and what becomes certain by it.
  std::vector<data::AnswerPart> push(std::string_view text, std::int64_t tokens);
  std::vector<data::AnswerPart> end();

  // There are calls, of which none is cut.
  bool has_called() const { return calls_ > 0 && !open_; }
  // The tokens up to the end of the reasoning, if there is any.
  std::int64_t reasoning_tokens() const { return reasons_ ? reasoning_tokens_ : 0; }

 private:
  std::vector<data::AnswerPart> seen(std::vector<data::AnswerPart> parts);

  data::AnswerReader reader_;
  Rng rng_;
  std::int64_t calls_ = 0, reasoning_tokens_ = 0;
  bool open_ = false, reasons_ = false;  // a call; there is reasoning
};

// Puts parts behind others: neighbours of one kind become one.
void append_parts(std::vector<data::AnswerPart>& parts, std::vector<data::AnswerPart> more);

}  // namespace tapegrad::serve
