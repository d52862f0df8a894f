// The programs' words for an error.

#include "tapegrad/apps/cli/run_main.h"
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
