#pragma once

#include <vector>

#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/jinja/render_limits.h"

namespace tapegrad::data {

// Messages whose calls stand behind their content, as texts of this format; as those of
// plain_call_format() if it is gemma's or has channels, whose templates show calls. Results are in
// the order of their calls: messages as they came, if `keeps_results`; else those that follow each
// other are one message of the user, with the text that the user says next.
std::vector<Message> with_call_texts(const CallFormat& format, bool keeps_results,
                                     std::vector<Message> messages, const RenderLimits& most);

}  // namespace tapegrad::data
