#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/serve/api/chat_prompt.h"
#include "tapegrad/apps/serve/text_job.h"

namespace tapegrad::serve {

// What chat completions and responses share: they read the same fields of a text, say the same to
// the model, and so get the same from it.

// The first fields of a request for an answer.
void read_chat_request(Fields& fields, const Asked& asked, TextRequest& request);

struct ChatText {
  TextPrompt prompt;
  std::optional<std::string> begun;  // see ChatPrompt
};
// What the model is given, and how long its answer may be. Behind the last field that the endpoint
// reads itself: what is left is ignored, and named. `format`: the field that says what an answer
// must be.
ChatText chat_text(Fields& fields, const Asked& asked, ChatMessages messages,
                   std::string_view format, TextRequest& request);

// Makes one answer to the prompt.
std::unique_ptr<Job> answer_job(const Asked& asked, const TextRequest& request, TextPrompt prompt,
                                std::unique_ptr<TextFormat> format);

// Tokens as a list with the log probability of each, and of the likeliest ones in its place.
Json logprobs_of(const data::Tokenizer& tokenizer, const std::vector<ShownToken>& tokens);

}  // namespace tapegrad::serve
