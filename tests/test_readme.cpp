#include <algorithm>
#include <sstream>
#include <string>

#include "tapegrad/base/file.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

namespace {

std::string read(const std::string& path) {
  return tapegrad::read_file(std::string(tapegrad::places::kSources) + "/" + path);
}

}  // namespace

TEST_CASE("the README's example is the program that a test builds and runs") {
  const std::string example = read("tests/consumer/main.cpp");
  CHECK(read("README.md").find("```cpp\n" + example + "```") != std::string::npos);
}

TEST_CASE("the program of docs/arrays.md is the example that a test builds and runs") {
  const std::string example = read("examples/perceptron.cpp");
  CHECK(read("docs/arrays.md").find("```cpp\n" + example + "```") != std::string::npos);
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

TEST_CASE("the op that docs/add-an-op.md adds is that of the example that a test builds and runs") {
  const std::string page = read("docs/add-an-op.md"), program = read("examples/own_op.cpp");
  const std::string open = "```cpp\n", close = "```\n";
  const auto check_block = [&](const std::string& start) {
    const std::size_t begin = page.find(open + start);
    INFO(start);
    REQUIRE(begin != std::string::npos);
    const std::size_t text = begin + open.size();
    CHECK(program.find(page.substr(text, page.find(close, text) - text)) != std::string::npos);
  };
  check_block("Tensor softsign(const Tensor& x) {");
  check_block("#include <tapegrad/autograd/apply.h>");
  check_block("       {check_function(");
}

TEST_CASE("docs/how-a-step-works.md shows the example that a test runs, and lines of the library") {
  const std::string page = read("docs/how-a-step-works.md");
  const std::string example = read("examples/scalar_engine.cpp");
  CHECK(page.find("```cpp\n" + example + "```") != std::string::npos);
  const std::string lines = std::to_string(std::count(example.begin(), example.end(), '\n'));
  CHECK(page.find("## The idea, in " + lines + " lines") != std::string::npos);
  const auto check_lines = [&](const std::string& start, const std::string& source) {
    const std::size_t begin = page.find("```cpp\n" + start);
    INFO(start);
    REQUIRE(begin != std::string::npos);
    std::istringstream shown(page.substr(begin + 7, page.find("```\n", begin + 7) - begin - 7));
    const std::string program = read(source);
    std::size_t at = 0;
    for (std::string line; std::getline(shown, line);) {
      at = program.find(line + "\n", at);
      INFO(line);
      REQUIRE(at != std::string::npos);
    }
  };
  check_lines("for (std::size_t i = tape.steps.size()", "autograd/tape.cpp");
  check_lines("[](const Tensor& d, const Tensor& v)", "autograd/ops/arithmetic.cpp");
}
