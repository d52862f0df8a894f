#include "tapegrad/apps/cli/run_main.h"

#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <new>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::cli {

namespace {

constexpr std::size_t kLongestMessage = 2000;

// Names and values come from files: what is in them must not control the terminal, or fill it.
std::string printable(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    // No character of UTF-8 is cut in two; text that is not UTF-8 ends soon, too.
    const bool inside = (code & 0xC0) == 0x80 && result.size() < kLongestMessage + 3;
    if (result.size() >= kLongestMessage && !inside) return result + " …";
    if ((code < 0x20 && code != '\n') || code == 0x7F) {
      result += fmt::format("\\x{:02x}", code);
    } else if (code == 0xC2 && next >= 0x80 && next <= 0x9F) {  // U+0080 to U+009F control, too
      result += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

int run_main(const std::string& program, const std::function<int()>& body) {
  int code = 1;
  std::string message;
  ::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error like others
  try {
    static_cast<void>(gemm_description());  // throws for a library that would give wrong results
    code = body();
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    check(written || code == run::kInterruptedExitCode, "the output could not be written");
  } catch (const UsageError& error) {
    code = 2;
    message = fmt::format("{}\nTry '{} --help'.", error.what(), program);
  } catch (const std::bad_alloc&) {
    message = "out of memory";
  } catch (const std::filesystem::filesystem_error& error) {
    message = fmt::format("{}: {}", error.path1().string(), error.code().message());
  } catch (const std::exception& error) {
    message = error.what();
  }
  if (!message.empty()) {
    std::fflush(stdout);
    fmt::print(stderr, "{}: error: {}\n", program, printable(message));
  }
  return message.empty() ? code : code == 2 ? 2 : 1;
}

}  // namespace tapegrad::cli
