// Output that a program takes for itself.

#include <string>

#include "tapegrad/base/terminal.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

TEST_CASE("output and errors go where a program sends them", "[terminal]") {
  std::string output, errors;
  redirect_output([&](const std::string& text) { output += text; });
  redirect_errors([&](const std::string& text) { errors += text; });
  {
    Terminal terminal;
    CHECK_FALSE(terminal.is_terminal());
    terminal.line("a line");
    terminal.text("and a ");
    terminal.text("piece");
  }
  print_error("note: one\n");
  redirect_output({});
  redirect_errors({});
  CHECK(output == "a line\nand a piece");
  CHECK(errors == "note: one\n");
}
