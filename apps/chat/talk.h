#pragma once

#include <string>

#include "tapegrad/apps/chat/chat_session.h"

namespace tapegrad::chat {

// Reads messages from stdin, one on each line, and prints the answers on stdout as they are made.
// Lines such as /reset are commands: /help lists them. A signal ends an answer; at the prompt, and
// where messages come from a pipe, it ends the conversation. Returns the exit code.
int talk(ChatSession& session);

}  // namespace tapegrad::chat
