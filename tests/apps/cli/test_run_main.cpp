// The programs' words for an error.

#include <unistd.h>

#include <cstdio>
#include <system_error>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using cli::printable;

TEST_CASE("a message shows what would control a terminal", "[run_main]") {
  CHECK(printable("a\nb\tc\x1b[31m\x7f") == "a\\nb\\x09c\\x1b[31m\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m and \xe2\x80\xae") == "\\u009b31m and \\u202e");
  CHECK(printable("\x9b \xff \xe2\x80") == "\\x9b \\xff \\xe2\\x80");
  CHECK(printable("café, 世界, …") == "café, 世界, …");
}

TEST_CASE("a broken pipe ends a program without a word only if it is stdout", "[run_main]") {
  const auto outcome = [] {
    return cli::run_body([]() -> int {
      throw std::system_error(std::make_error_code(std::errc::broken_pipe), "a socket");
    });
  };
  // With a reader, and without one.
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  const cli::Outcome elsewhere = outcome();
  ::close(ends[0]);
  const cli::Outcome closed = outcome();
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  ::close(ends[1]);
  CHECK(elsewhere.code == 1);
  CHECK_THAT(elsewhere.error, ContainsSubstring("a socket: Broken pipe"));
  CHECK(closed.code == kClosedPipeExitCode);
  CHECK(closed.error.empty());
}

TEST_CASE("a long message keeps the file at its beginning and the cause at its end", "[run_main]") {
  const std::string middle(1'000'000, '\x1b');
  const std::string shown = printable("model.json: '" + middle + "' is not a number");
  CHECK(shown.size() < 1000);
  CHECK(shown.rfind("model.json: '\\x1b", 0) == 0);
  CHECK(shown.substr(shown.size() - 17) == "' is not a number");
  // No character is cut in two.
  for (int i = 0; i < 4; ++i) {
    std::string wide(static_cast<std::size_t>(i), 'x');
    for (int j = 0; j < 1000; ++j) wide += "界";
    CHECK(printable(wide).find("\\x") == std::string::npos);
  }
}
