#include <string>
#include <vector>

#include "tapegrad/base/text/internal/line_splitter.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

std::vector<std::string> lines_of(const std::vector<std::string>& pieces, bool* within = nullptr) {
  LineSplitter splitter(5);
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    splitter.take(piece, [&](std::string_view line) { lines.emplace_back(line); });
  }
  if (within != nullptr) *within = splitter.within_line();
  return lines;
}

}  // namespace

TEST_CASE("lines are the same wherever the pieces of a text are cut", "[base]") {
  const std::string text = "ab\n\n12345\n123456\nc\nd";
  const std::vector<std::string> lines = {"ab", "", "12345", "", "c"};
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    INFO(cut);
    bool within = false;
    CHECK(lines_of({text.substr(0, cut), text.substr(cut)}, &within) == lines);
    CHECK(within);
  }
}

TEST_CASE("a text that ends with a line feed ends in no line", "[base]") {
  bool within = true;
  CHECK(lines_of({"123456789", "0\nab\n"}, &within) == std::vector<std::string>{"", "ab"});
  CHECK_FALSE(within);
  lines_of({"1234567"}, &within);
  CHECK(within);
}
