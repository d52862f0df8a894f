// What shells ask of the program to complete a command line, and bash's own way of asking.

#include <fmt/format.h>

#include <algorithm>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

namespace {

// The last of the arguments is the word at the cursor.
std::string completed(const Args& args) {
  const std::string program = std::string(tapegrad::places::kPrograms) + "/tapegrad";
  const Result r = run_program("/usr/bin/env", Args{"TAPEGRAD_COMPLETE=1", program} + args);
  CHECK(r.code == 0);
  CHECK(r.err.empty());
  return r.out;
}

std::string in_bash(const std::string& words, int at) {
  const std::string script = fmt::format(
      "source '{}/scripts/completion/tapegrad' && COMP_WORDS=({}) COMP_CWORD={} && "
      "_tapegrad; echo ${{COMPREPLY[@]}}",
      tapegrad::places::kSources, words, at);
  const Result r = run_program("/bin/bash", {"-c", script});
  CHECK(r.err.empty());
  return r.out;
}

}  // namespace

TEST_CASE("the first word becomes a command", "[completion]") {
  CHECK(completed({"sam"}) == "sample\tcontinue a text with a GPT\n");
  CHECK(completed({"help", "sam"}) == completed({"sam"}));
  CHECK(completed({"nothing"}).empty());
  const std::string all = completed({""});
  CHECK(std::count(all.begin(), all.end(), '\n') > 15);
}

TEST_CASE("a word that begins with a hyphen becomes an option of its command", "[completion]") {
  CHECK_THAT(completed({"sample", "--che"}), ContainsSubstring("--checkpoint\tweights to use"));
  CHECK_THAT(completed({"sample", "--no-j"}), ContainsSubstring("--no-json\t"));
  CHECK(completed({"sample", "--nothing"}).empty());
  CHECK_THAT(completed({"train", "--nothing", "x", "--pres"}), ContainsSubstring("--preset\t"));
}

TEST_CASE("a value becomes one of its option's, or a file", "[completion]") {
  CHECK(completed({"train", "--optimizer", "m"}) == "muon\t\n");
  CHECK(completed({"sample", "--checkpoint", ""}) == "last\t\nbest\t\n");
  CHECK(completed({"sample", "--weights", "q8"}) == "q8_0\t\n");
  CHECK(completed({"sample", "--model", ""}) == ":files\n");
  CHECK(completed({"sample", "--seed", ""}).empty());
  CHECK(completed({"sample", "--json", ""}) == ":files\n");
  CHECK(completed({"sample", ""}) == ":files\n");
}

TEST_CASE("every command completes its options, and does nothing else", "[completion]") {
  const std::string all = completed({""});
  for (std::size_t begin = 0; begin < all.size(); begin = all.find('\n', begin) + 1) {
    const std::string command = all.substr(begin, all.find('\t', begin) - begin);
    if (command == "help" || command.starts_with("-")) continue;
    INFO(command);
    CHECK_THAT(completed({command, "--help"}),
               Catch::Matchers::StartsWith("--help\tshow this text"));
  }
}

TEST_CASE("bash asks the program", "[completion]") {
  const std::string program = quoted_program("tapegrad");
  CHECK(in_bash(program + " sam", 1) == "sample\n");
  CHECK(in_bash(program + " train --preset quick", 3) == "quickstart\n");
  CHECK(in_bash(program + " sample ''", 2) == "\n");
}
