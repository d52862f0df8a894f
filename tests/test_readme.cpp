#include <string>

#include "tapegrad/autograd/base/file.h"
#include "tapegrad/tests/catch.h"

TEST_CASE("the README's example is the program that a test builds and runs") {
  const std::string root = TAPEGRAD_SOURCE_DIR;
  const std::string readme = tapegrad::read_file(root + "/README.md");
  const std::string example = tapegrad::read_file(root + "/tests/consumer/main.cpp");
  CHECK(readme.find("```cpp\n" + example + "```") != std::string::npos);
}
