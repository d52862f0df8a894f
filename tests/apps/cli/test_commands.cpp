// The program tapegrad: which command a call is of.

#include <algorithm>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/catch.h"

TEST_CASE("tapegrad without a command lists all, in groups", "[commands]") {
  const Result r = run_program("tapegrad", {});
  CHECK(r.code == 0);
  CHECK(r.out == run_program("tapegrad", {"help"}).out);
  CHECK_THAT(r.out, ContainsSubstring("Train:\n  merge ") && ContainsSubstring("\n  train ") &&
                        ContainsSubstring("Use a model:\n  chat ") &&
                        ContainsSubstring("[sample-text]"));
}

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
