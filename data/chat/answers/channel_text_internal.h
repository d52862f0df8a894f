#pragma once

#include <memory>

#include "tapegrad/data/chat/answers/answer_text_internal.h"

namespace tapegrad::data {

// gpt-oss's answers (openai/harmony): messages, each behind a header that names its channel, and
// the function that it calls. The prompt has begun the first header, "<|start|>assistant". A
// message that calls a function which is not known is content, with its header.
std::unique_ptr<AnswerReader::Text> channel_text(AnswerReading reading);

}  // namespace tapegrad::data
