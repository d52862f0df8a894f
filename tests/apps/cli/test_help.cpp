// `tapegrad help`, --help and --help all: one screen for those who begin, and a way to each option.

#include <algorithm>
#include <sstream>

#include "tapegrad/apps/cli/field_words.h"
#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

std::string help_of(const std::string& command, const Args& more = {}) {
  const Result r = run_program("tapegrad", Args{command} + more);
  CHECK(r.code == 0);
  return r.out;
}

// Lines that begin with an option.
std::ptrdiff_t options_in(const std::string& help) {
  std::istringstream lines(help);
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with("  -") ? 1 : 0;
  return count;
}

std::vector<std::string> commands() {
  std::istringstream lines(help_of("help"));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line) && line != "Examples:";) {
    if (line.starts_with("  ") && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

bool has_option(const std::string& command, const std::string& option) {
  const std::string help = help_of(command, {"--help", "all"});
  return help.find(" " + option + " ") != help.npos || help.find(" " + option + ",") != help.npos;
}

}  // namespace

TEST_CASE("train --help is one screen, and --help all has every option", "[help]") {
  const std::string few = help_of("train", {"--help"}), all = help_of("train", {"--help", "all"});
  CHECK(options_in(few) <= 40);
  CHECK(std::count(few.begin(), few.end(), '\n') <= 70);
  CHECK(options_in(all) > 140);
  CHECK_THAT(few, ContainsSubstring("--corpus") && ContainsSubstring("--learning-rate") &&
                      ContainsSubstring("tapegrad train --help all") &&
                      !ContainsSubstring("--rope-low-freq-factor"));
  CHECK_THAT(all, ContainsSubstring("--rope-low-freq-factor") && ContainsSubstring("Presets:"));
  CHECK(help_of("help", {"train"}) == few);
  CHECK(help_of("help", {"train", "all"}) == all);
  CHECK(help_of("sample", {"--help", "all"}) == help_of("sample", {"--help"}));
}

TEST_CASE("--help shows the options of what was chosen", "[help]") {
  CHECK_THAT(help_of("train", {"--help"}), !ContainsSubstring("--ns-steps"));
  CHECK_THAT(help_of("train", {"--optimizer", "muon", "--help"}),
             ContainsSubstring("--ns-steps") && !ContainsSubstring("--lion-beta1"));
}

TEST_CASE("the field's words lead to options", "[help]") {
  const auto [word, expected] = GENERATE(
      table<std::string, std::string>({{"quantize", "--dtype"},
                                       {"Quantise", "--weights"},
                                       {"dequantize", "--weights"},
                                       {"prefill", "--prompt-chunk"},
                                       {"speculative", "--draft"},
                                       {"kv cache", "--cache"},
                                       {"flash attention", "tiles"},
                                       {"mixed precision", "--dtype f32|bf16"},
                                       {"beam search", "--beam N"},
                                       {"early stopping", "--early-stop"},
                                       {"data parallel", "mpirun"},
                                       {"gradient accumulation", "--gradient-accumulation-steps"},
                                       {"top-p", "--top-p X"},
                                       {"top_p", "--top-p X"},
                                       {"vocabulary", "--vocab-size"},
                                       {"momentum", "--muon-momentum"}}));
  INFO(word);
  CHECK_THAT(help_of("help", {word}), ContainsSubstring(expected));
}

TEST_CASE("words of several arguments are looked for together", "[help]") {
  CHECK(help_of("help", {"kv", "cache"}) == help_of("help", {"kv cache"}));
}

TEST_CASE("help about nothing that there is names the nearest command", "[help]") {
  check_error_of("tapegrad", run_program("tapegrad", {"help", "exprot"}), 2,
                 "there is no command 'exprot', and no option about it; did you mean export?");
  check_error_of("tapegrad", run_program("tapegrad", {"help", ""}), 2, "there is no command ''");
}

TEST_CASE("an option of one command is not that of a command whose name ends so", "[help]") {
  const cli::FieldWord word{{"x"}, "X.", {"train --dtype", "--draft"}};
  CHECK(word.names("tapegrad train", "--dtype"));
  CHECK_FALSE(word.names("tapegrad tokenizer train", "--dtype"));
  CHECK_FALSE(word.names("tapegrad train", "--weights"));
  CHECK(word.names("tapegrad sample", "--draft"));
}

TEST_CASE("each option that a word of the field names is an option", "[help]") {
  const std::vector<std::string> names = commands();
  REQUIRE(names.size() > 10);
  for (const cli::FieldWord& word : cli::all_field_words()) {
    INFO(word.words.front());
    CHECK(!word.words.empty());
    for (const std::string_view named : word.options) {
      INFO(named);
      const std::size_t space = named.find(' ');
      if (space != named.npos) {
        CHECK(
            has_option(std::string(named.substr(0, space)), std::string(named.substr(space + 1))));
      } else {
        CHECK(std::any_of(names.begin(), names.end(), [&](const std::string& command) {
          return has_option(command, std::string(named));
        }));
      }
    }
  }
}
