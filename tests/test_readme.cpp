#include <sstream>
#include <string>

#include "tapegrad/autograd/base/file.h"
#include "tapegrad/tests/catch.h"

namespace {

std::string read(const std::string& path) {
  return tapegrad::read_file(std::string(TAPEGRAD_SOURCE_DIR) + "/" + path);
}

}  // namespace

TEST_CASE("the README's example is the program that a test builds and runs") {
  const std::string example = read("tests/consumer/main.cpp");
  CHECK(read("README.md").find("```cpp\n" + example + "```") != std::string::npos);
}

TEST_CASE("the README's lines on generation are those of the example that a test builds and runs") {
  const std::string readme = read("README.md"), program = read("examples/generate.cpp");
  const std::size_t begin = readme.find("```cpp\nconst run::TextModel");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(readme.substr(begin, readme.find("```\n", begin) - begin));
  std::string line;
  std::getline(lines, line);  // ```cpp
  while (std::getline(lines, line)) {
    INFO(line);
    CHECK(program.find("    " + line + "\n") != std::string::npos);
  }
}
