#pragma once

#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/jinja/render_limits.h"

namespace tapegrad::data {

// Tools in a conversation: what its model may call (Conversation::tools), the calls of earlier
// answers ("tool_calls" of messages) and their results (messages of the role "tool").

// The format in which a model with this template is to write calls: call_format_of(), or
// plain_call_format() if a message must tell the model how to call.
const CallFormat& call_format_for(const ChatTemplate& chat_template);

// The conversation as a template takes it, to be rendered next. One without tools is the same.
//
// A template of a known format is given the tools. Any other is not: they are told by a message,
// with plain_call_format(), in the words of Qwen's templates. This stands behind the text of the
// system's message, which is added if there is none. If the template shows no such message, it
// stands before the first text of the user.
//
// A template that shows calls and results is given them, in the form in which it does: see
// CallForm. For any other, and beside tools that are told, calls become texts behind the content of
// their message, in call_format_for(). Results are messages of the role "tool" where a template of
// a known format shows such; else, those that follow each other are one message of the user, in the
// order of their calls, with the text that the user says next.
//
// Contents are texts and stay as they are; marks that one spells, such as </tool_response>, are
// text of its turn. See render_chat() for special tokens. Errors of ChatTemplate::render for what
// is no JSON.
Conversation with_tools_for(const ChatTemplate& chat_template, Conversation conversation,
                            const RenderLimits& most = {});

}  // namespace tapegrad::data
