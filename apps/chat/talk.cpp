#include "tapegrad/apps/chat/talk.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "tapegrad/apps/sample/line_editor.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"

namespace tapegrad::chat {
namespace {

constexpr const char* kHelp =
    "Any line is a message to the model; behind a call, it is what the function returned. These\n"
    "are neither:\n"
    "  /retry         makes the last answer anew\n"
    "  /continue      goes on with the last answer\n"
    "  /reset         forgets what was said, but for the system's message\n"
    "  /system TEXT   the same, with this text as the system's message\n"
    "  /save FILE     adds the conversation to a file, as a line of JSON that can be trained on\n"
    "  /help          this text\n"
    "  /quit          ends the program, as Ctrl-D or Ctrl-C at the prompt do\n"
    "Ctrl-C ends an answer, which stays as far as it came. Arrows move in the line and bring\n"
    "earlier lines back, Ctrl-R searches them; ~/.editrc sets other keys.\n";
constexpr std::int64_t kMostSaved = std::int64_t{1} << 30;

struct ChatCommand {
  std::string name, rest;
};
// "/name rest", where the name is of small letters alone: "/usr/bin" is a message.
std::optional<ChatCommand> command_of(const std::string& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const auto small = [](char c) { return c >= 'a' && c <= 'z'; };
  const bool is_command =
      end > 1 && line[0] == '/' &&
      std::all_of(line.begin() + 1, line.begin() + static_cast<std::ptrdiff_t>(end), small);
  if (!is_command) return std::nullopt;
  return ChatCommand{line.substr(1, end - 1), end < line.size() ? line.substr(end + 1) : ""};
}

// Behind what the file has already, which stays if anything fails.
void save(const ChatSession& session, const std::string& path) {
  check(!path.empty(), "/save: which file?");
  check(!session.empty(), "/save: nothing has been said");
  std::string lines;
  if (path_exists(path)) {
    lines = read_file(path, kMostSaved);
    if (!lines.empty() && lines.back() != '\n') lines += '\n';
  }
  write_file_atomically(path, lines + session.json_line());
  print_error(fmt::format("{}: saved\n", path));
}

void answer_with(const std::function<bool(const sampling::OnText&)>& make) {
  if (make(sampling::SamplePrinter::print)) sampling::SamplePrinter::print("\n");
}

// False to end the conversation.
bool obey(ChatSession& session, const ChatCommand& command) {
  if (command.name == "quit") return false;
  if (command.name == "help") {
    print_error(kHelp);
  } else if (command.name == "retry") {
    check(!session.empty(), "/retry: there is no answer yet");
    answer_with([&](const sampling::OnText& on_text) { return session.retry(on_text); });
  } else if (command.name == "continue") {
    check(!session.empty(), "/continue: there is no answer yet");
    answer_with([&](const sampling::OnText& on_text) { return session.go_on(on_text); });
  } else if (command.name == "reset") {
    session.reset();
  } else if (command.name == "system") {
    check(session.has_template(), "/system: the model has no chat template to write it with");
    session.reset(command.rest);
  } else if (command.name == "save") {
    save(session, command.rest);
  } else {
    fail("/{}: no such command. /help shows all", command.name);
  }
  return true;
}

}  // namespace

int talk(ChatSession& session) {
  catch_interrupts();
  sampling::LineEditor lines;
  if (lines.on_terminal()) print_error("A line is a message. /help tells of keys and commands.\n");
  bool goes_on = true;
  while (goes_on && std::ferror(stdout) == 0) {
    const auto line = lines.next(session.waiting_call() + "> ");
    if (!line) break;
    if (line->empty() && session.waiting_call().empty()) continue;
    try {
      if (const auto command = command_of(*line)) {
        goes_on = obey(session, *command);
      } else {
        answer_with([&](const sampling::OnText& on_text) { return session.say(*line, on_text); });
      }
    } catch (const nn::BrokenLogits&) {  // no other line will do better
      throw;
    } catch (const Error& error) {  // the template refuses, or a file cannot be written
      print_error(fmt::format("{}\n", error.what()));
    }
    if (interrupted() && !lines.on_terminal()) break;
    forget_interrupt();
  }
  session.print_rate();
  return interrupted() && !lines.on_terminal() ? kInterruptedExitCode : 0;
}

int answer(ChatSession& session, const std::vector<std::string>& messages) {
  catch_interrupts();
  for (const std::string& message : messages) {
    if (interrupted() || std::ferror(stdout) != 0) break;
    answer_with([&](const sampling::OnText& on_text) { return session.say(message, on_text); });
  }
  session.print_rate();
  return interrupted() ? kInterruptedExitCode : 0;
}

}  // namespace tapegrad::chat
