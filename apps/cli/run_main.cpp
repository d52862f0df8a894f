#include "tapegrad/apps/cli/run_main.h"

#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "tapegrad/apps/cli/completion.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::cli {

namespace {

// Bytes shown of a message's beginning, which names the file, and of its end, which names the
// cause.
constexpr std::size_t kShownBegin = 600, kShownEnd = 200;

bool inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The first `begin` and the last `end` bytes of a text that has more; no character of UTF-8 is cut
// in two.
std::string shortened(const std::string& text, std::size_t begin, std::size_t end) {
  if (text.size() <= begin + end) return text;
  std::size_t rest = text.size() - end;
  for (int i = 0; i < 3 && inside_character(text[begin]); ++i) --begin;
  for (int i = 0; i < 3 && inside_character(text[rest]); ++i) ++rest;
  return text.substr(0, begin) + " … " + text.substr(rest);
}

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    const std::string_view bytes = text.substr(0, c.size);
    text.remove_prefix(c.size);
    if (c.kind == Utf8Char::Kind::valid && !controls_terminal(c.code_point)) {
      result += bytes;
    } else if (c.code_point > 0x7F) {
      result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c.code_point));
    } else if (c.code_point == '\n') {
      result += "\\n";
    } else {
      for (const char byte : bytes) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
  }
  return result;
}

}  // namespace

void usage_error_with(fmt::string_view format, fmt::format_args args) {
  throw UsageError(fmt::vformat(format, args));
}

std::string printable(const std::string& message) {
  // The first cut saves work; the second is needed, since escapes are longer than what they show.
  const std::string few = shortened(message, 4 * kShownBegin, 4 * kShownEnd);
  return shortened(escaped(few), kShownBegin, kShownEnd);
}

Outcome run_body(const std::function<int()>& body) {
  ::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error like others
  const auto failed = [](int code, const std::string& message) {
    std::fflush(stdout);
    return Outcome{code, printable(message)};
  };
  try {
    static_cast<void>(gemm_description());  // throws for a library that would give wrong results
    const int code = body();
    if (code != kInterruptedExitCode) flush_stdout();
    return {code, ""};
  } catch (const Completed& completed) {
    return {completed.code, ""};
  } catch (const UsageError& error) {
    return failed(2, error.what());
  } catch (const std::bad_alloc&) {
    return failed(1, "out of memory");
  } catch (const ClosedPipe&) {
    return {kClosedPipeExitCode, ""};
  } catch (const std::filesystem::filesystem_error& error) {
    return failed(1, fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::system_error& error) {  // of fmt::print, and of other files and sockets
    const bool is_broken_pipe = error.code() == std::errc::broken_pipe;
    if (is_broken_pipe && is_stdout_closed()) return {kClosedPipeExitCode, ""};
    return failed(1, error.what());
  } catch (const std::exception& error) {
    return failed(1, error.what());
  }
}

void print_failure(const std::string& program, const std::string& where, const Outcome& outcome) {
  const std::string hint = outcome.code == 2 ? fmt::format("Try '{} --help'.\n", program) : "";
  print_error(fmt::format("{}: error{}: {}\n{}", program, where, outcome.error, hint));
}

int run_main(const std::string& program, const std::function<int()>& body) {
  const Outcome outcome = run_body(body);
  if (!outcome.error.empty()) print_failure(program, "", outcome);
  return outcome.code;
}

}  // namespace tapegrad::cli
