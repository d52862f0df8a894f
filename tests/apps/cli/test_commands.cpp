// The program tapegrad: which command a call is of.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/catch.h"

TEST_CASE("tapegrad without a command lists all, in groups", "[commands]") {
  const Result r = run_program("tapegrad", {});
  CHECK(r.code == 0);
  CHECK(r.out == run_program("tapegrad", {"help"}).out);
  CHECK_THAT(r.out, ContainsSubstring("Train:\n  meet ") && ContainsSubstring("\n  train ") &&
                        ContainsSubstring("Use a model:\n  chat ") &&
                        ContainsSubstring("[sample-text]"));
}

namespace {

// The result of a shell's command whose stdout is a pipe that nobody reads.
int code_without_reader(const std::string& command) {
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  std::fflush(stdout);
  const int kept = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  ::close(ends[1]);
  const int status = std::system(command.c_str());
  ::dup2(kept, STDOUT_FILENO);
  ::close(kept);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a command whose output nobody reads ends without a word", "[commands]") {
  const TempFolder folder;
  const std::filesystem::path err = folder / "err";
  std::istringstream help(run_program("tapegrad", {}).out);
  int commands = 0;
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  ") || line.starts_with("  tapegrad")) continue;
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    const std::string call = quoted_program("tapegrad") + " " + name + " --help 2>" + quoted(err);
    INFO(call);
    ++commands;
    CHECK(code_without_reader("(" + call + ")") == 141);  // as shells report SIGPIPE
    CHECK(code_without_reader("trap '' PIPE; " + call) == 141);
    CHECK(TempFolder::get(err).empty());
  }
  CHECK(commands > 10);
  CHECK(code_without_reader("trap '' PIPE; " + quoted_program("tapegrad") + " 2>" + quoted(err)) ==
        141);
  CHECK(TempFolder::get(err).empty());
}

#ifndef TAPEGRAD_SANITIZED  // which takes more addresses than any limit
TEST_CASE("a plan under a limit of addresses says which limit, and how much it needs",
          "[commands]") {
  const TempFolder folder;
  const std::filesystem::path err = folder / "err";
  const std::string call = "ulimit -v 1000000; " + quoted_program("train-gpt") +
                           " --preset gpt2-124m --plan --threads 1 >" + quoted(folder / "out") +
                           " 2>" + quoted(err);
  CHECK(std::system(call.c_str()) != 0);
  CHECK_THAT(TempFolder::get(err),
             ContainsSubstring("the process limit (ulimit -v) of 1.0 GB is too small even to "
                               "estimate this run: the estimate takes addresses for all tensors "
                               "that live at once, more than 1.") &&
                 ContainsSubstring("'ulimit -v unlimited'") && !ContainsSubstring("["));
}
#endif

TEST_CASE("a command is called by its name, and by that of its program", "[commands]") {
  const Result help = run_program("tapegrad", {"sample", "--help"});
  CHECK_THAT(help.out, ContainsSubstring("Usage: tapegrad sample [options] [MODEL PROMPT…]"));
  CHECK(run_program("tapegrad", {"help", "sample"}).out == help.out);
  CHECK_THAT(run_program("sample-text", {"--help"}).out,
             ContainsSubstring("Usage: sample-text [options]"));
  CHECK(run_program("tapegrad", {"help", "sample-text"}).out == help.out);
}

TEST_CASE("an unknown command is refused, and the nearest is named", "[commands]") {
  check_error_of("tapegrad", run_program("tapegrad", {"smaple", "x"}), 2,
                 "there is no command 'smaple'; did you mean sample?");
  check_error_of("tapegrad", run_program("tapegrad", {"--sample"}), 2, "there is no command");
  check_error_of("tapegrad", run_program("tapegrad", {"help", "nothing"}), 2,
                 "there is no command 'nothing'");
}

TEST_CASE("the first word is the model, and others are prompts", "[commands]") {
  const TinyRun tiny(2);
  const Args few = {"--max-new-tokens", "4", "--seed", "3"};
  const auto sample = [&](const Args& args) {
    const Result r = run_program("sample", args + few);
    CHECK(r.code == 0);
    return r.out;
  };
  const std::string asked = sample({"--model", tiny.run, "--prompt", "the cat"});
  CHECK(sample({tiny.run, "the cat"}) == asked);
  CHECK(sample({"-m", tiny.run, "-p", "the cat"}) == asked);
  CHECK(sample({"-m", tiny.run, "the cat"}) == asked);
  CHECK(sample({tiny.run, "-p", "the cat", "--temp", "0"}) ==
        sample({tiny.run, "-p", "the cat", "--greedy"}));
  const std::string two = sample({tiny.run, "--greedy", "-p", "the cat", "-p", "the mat"});
  CHECK(two == "--- prompt 1 ---\n" + sample({tiny.run, "--greedy", "-p", "the cat"}) +
                   "\n--- prompt 2 ---\n" + sample({tiny.run, "--greedy", "-p", "the mat"}));
}
