#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

// The text of ChatTemplate::render() for a tokenizer. Where a message, a tool, a document or a
// variable spells a special token, such as <|im_end|>, the text has letters, so that nobody ends a
// turn or begins one by a message; the template's own special tokens are none. Variables whose
// names end in _token name special tokens, and have no letters. With
// ChatTemplate::special_in_messages() there are no letters at all. Errors, too: those of
// Tokenizer::special_places().
RenderedChat render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                         const Conversation& conversation, bool add_generation_prompt,
                         std::string_view variables = {}, const RenderLimits& most = {});

struct ContinuedChat {
  RenderedChat chat = {};
  // The bytes of the last content that the text ends with, its spaces at the beginning aside: fewer
  // than it has if the template trims. What the writer adds belongs behind these.
  std::size_t kept = 0;
};
// The same up to the end of the last message's content, behind which its writer goes on: the text
// of transformers' continue_final_message, unless a template that trims has nothing of the content
// left (there, what stands before the content stays). What the template writes behind the content
// is left out; if it trims contents, so are the spaces at the end. Errors, too: there is no
// message, or the template does not show the last content as it is, but for spaces around it, or
// shows its end several times.
ContinuedChat render_continued(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                               Conversation conversation, std::string_view variables = {},
                               const RenderLimits& most = {});

// The tokens of such a text.
std::vector<Token> tokens_of(const RenderedChat& chat, const Tokenizer& tokenizer);

}  // namespace tapegrad::data
