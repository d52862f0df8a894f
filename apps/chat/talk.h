#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/chat/chat_session.h"

namespace tapegrad::chat {

// Reads messages from stdin, one on each line, and prints the answers on stdout as they are made.
// A line behind a call is its result: see ChatSession::say().
// Lines such as /reset are commands: /help lists them. A signal ends an answer; at the prompt, and
// where messages come from a pipe, it ends the conversation. Returns the exit code.
int talk(ChatSession& session);
// Prints the answers to these messages, of which none is a command, and one behind a call is its
// result. A signal ends the answer and
// the conversation. Returns the exit code. Error if the template refuses the conversation.
int answer(ChatSession& session, const std::vector<std::string>& messages);

}  // namespace tapegrad::chat
