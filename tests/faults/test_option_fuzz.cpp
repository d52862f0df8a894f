// Random command lines of every program: each does what it says, or is refused by a message that a
// user can act on.

#include <fcntl.h>

#include <regex>

#include "tapegrad/base/error.h"
#include "tapegrad/base/random.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/faults/child.h"
#include "tapegrad/tests/faults/verdict.h"
#include "tapegrad/tests/places.h"

namespace fs = std::filesystem;
using namespace tapegrad;
using namespace tapegrad::faults;

namespace {

// A program, what its command lines begin with, and an end that keeps valid ones short: of an
// option that is there twice, the last one counts.
struct Fuzzed {
  std::string name;
  Args begin, end;
};

template <class T>
const T& one_of_list(const std::vector<T>& list, Rng& rng) {
  return list[static_cast<std::size_t>(rng.randint(static_cast<std::int64_t>(list.size())))];
}

// All options in the program's own help.
Args options_of(const std::string& program) {
  const std::string help = run_program(program, {"--help", "all"}).out;
  const std::regex option("--[a-z][a-z0-9-]*");
  Args names(std::sregex_token_iterator(help.begin(), help.end(), option), {});
  REQUIRE(names.size() > 3);
  return names;
}

// Numbers and texts that are good for some options, and bad for all others.
const Args& values() {
  static const Args list = {"-1",
                            "0",
                            "1",
                            "2",
                            "3",
                            "7",
                            "100",
                            "1000",
                            "0.5",
                            "1e3",
                            "-0",
                            "+5",
                            " 5",
                            "5 ",
                            "1099511627776",
                            "9223372036854775807",
                            "9223372036854775808",
                            "-9223372036854775809",
                            "1e999",
                            "1e-999",
                            "nan",
                            "inf",
                            "0x10",
                            "1,000",
                            "",
                            "true",
                            "no",
                            "perhaps",
                            "char",
                            "gpt2",
                            "bpe:260",
                            "bpe:0",
                            "bpe:99999999999",
                            "char-cpu",
                            "quickstart",
                            "char-fast",
                            "fast",
                            "epochs",
                            "cosine",
                            "torch",
                            "bf16",
                            "auto",
                            "resume",
                            "relu",
                            "step",
                            "ops",
                            "nothing",
                            ".",
                            "run",
                            "/dev/full",
                            "/dev/zero",
                            "/proc/self/mem",
                            "/etc/passwd",
                            "/no/such/file",
                            std::string(5000, 'x'),
                            std::string(300, '/'),
                            "\x1b[31mred\x1b[0m",
                            "two\nlines",
                            "\xff\xfe",
                            "caf\xc3\xa9",
                            "--",
                            "-h",
                            "--seed",
                            "=",
                            "a=b",
                            "[1,2]",
                            "\"quoted\"",
                            "'",
                            "$(true)"};
  return list;
}

Args random_line(const Fuzzed& program, const Args& options, Rng& rng) {
  Args args = program.begin;
  const std::int64_t count = 1 + rng.randint(5);
  for (std::int64_t i = 0; i < count; ++i) {
    std::string option = one_of_list(options, rng);
    const std::string& value = one_of_list(values(), rng);
    switch (rng.randint(10)) {
      case 0:
        args.push_back(value);
        break;
      case 1:
        args.push_back(option);
        break;
      case 2:
        option[2 + static_cast<std::size_t>(
                       rng.randint(static_cast<std::int64_t>(option.size()) - 2))] = 'q';
        args.push_back(option);
        break;
      case 3:
        args.push_back("--no-" + option.substr(2));
        break;
      case 4:
        std::replace(option.begin() + 2, option.end(), '-', '_');
        args.push_back(option + "=" + value);
        break;
      case 5:
      case 6:
        args.push_back(option + "=" + value);
        break;
      default:
        args = args + Args{option, value};
    }
  }
  return args + program.end;
}

std::string shown(const Args& args) {
  std::string text;
  for (const std::string& arg : args) text += " '" + arg.substr(0, 60) + "'";
  return text;
}

std::string fault_of(const std::string& program, const Ended& ended) {
  constexpr int interrupted = 130;
  if (never_ended(ended)) return "does not end";
  if (ended.code < 0 || (ended.code > 2 && ended.code != interrupted)) {
    return fmt::format("ended with {}", ended.code);
  }
  if (!kSanitized && ended.most_kb > std::int64_t{1} << 20)
    return fmt::format("took {} KB", ended.most_kb);
  if (ended.code == 0) return ended.err.empty() ? "" : fault_of_message(ended.err);
  if (ended.err.find(program + ": error: ") == ended.err.npos) return "no error is named";
  return fault_of_message(ended.err);
}

}  // namespace

TEST_CASE("random command lines are refused by a message that says why, or valid",
          "[option-fuzz]") {
  const TinyRun text(2);
  const TinyPairRun pairs(2);
  const Args tiny = {"--n-head",     "1",  "--n-embd",  "16", "--n-layer", "1",
                     "--block-size", "16", "--out-dir", "run"};
  const Args brief = {"--max-iters", "0", "--eval-iters", "1", "--batch-size", "2", "--no-sample"};
  const std::vector<Fuzzed> programs = {
      {"train-gpt", Args{"--preset", "char-cpu", "--corpus", text.corpus} + tiny, brief},
      {"train-gpt",
       {"--init-from", "resume", "--out-dir", text.run},
       {"--max-iters", "2", "--eval-iters", "1"}},
      {"train-gpt",
       {"--init-from", text.run, "--corpus", text.corpus, "--lora-rank", "2", "--out-dir", "run"},
       brief},
      {"prepare", {"--corpus", text.corpus, "--out-dir", "tokens"}, {"--tokenizer", "char"}},
      {"merge", {"--model", text.run, "--out-dir", "merged"}, {}},
      {"train-seq2seq", Args{"--tokenizer", "char", "--corpus", pairs.corpus} + tiny, brief},
      {"sample-text", {"--model", text.run}, {"--max-new-tokens", "2", "--num-samples", "2"}},
      {"evaluate", {"--model", text.run, text.corpus}, {"--batch-size", "2", "--limit", "2"}},
      {"inspect", {"--model", text.run}, {"--text", "the cat"}},
      {"translate", {"--model", pairs.run}, {"--beam", "2", "123"}},
      {"gradient-check", {}, {"--filter", "gelu"}},
      {"gradient-demo", {}, {"--width", "3", "--layers", "4"}},
      {"bench", {"step", "char-cpu"}, {"--steps", "1"}}};
  const std::size_t lines = 1400 / programs.size() / one_of(4, 28);
  const TempFolder memory(memory_folder());
  for (const fs::path& folder : {memory.path(), text.folder.path(), pairs.folder.path()}) {
    give_to_nobody(folder);
    for (const auto& entry : fs::recursive_directory_iterator(folder)) give_to_nobody(entry);
  }
  Rng rng(3);
  std::size_t refused = 0, done = 0;
  std::vector<std::string> faults;
  for (const Fuzzed& program : programs) {
    const std::string path = std::string(places::kPrograms) + "/" + program.name;
    // Nobody, as whom the children run, may not look where the project is, if that is below /root.
    // An emulator of another processor opens it once more when it has begun: not O_CLOEXEC.
    const int opened = ::open(path.c_str(), O_RDONLY);
    REQUIRE(opened >= 0);
    const Args options = options_of(program.name);
    std::vector<Args> all;
    for (std::size_t i = 0; i < lines; ++i) all.push_back(random_line(program, options, rng));
    run_children(
        lines, processors(),
        [&](std::size_t i, std::size_t slot) {
          const fs::path folder = memory / std::to_string(slot);
          fs::remove_all(folder);
          fs::create_directory(folder);
          give_to_nobody(folder);
          return Child([&program, opened, folder, args = all[i]] {
            std::vector<char*> argv{const_cast<char*>(program.name.c_str())};
            for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
            argv.push_back(nullptr);
            fs::current_path(folder);
            return ::fexecve(opened, argv.data(), environ);
          });
        },
        [&](std::size_t i, const Ended& ended) {
          ++(ended.code == 0 ? done : refused);
          const std::string fault = fault_of(program.name, ended);
          if (!fault.empty()) {
            faults.push_back(program.name + shown(all[i]) + ": " + fault + "\n    " +
                             ended.err.substr(0, 1200));
          }
        });
    ::close(opened);
  }
  fmt::print("command lines: {} random, {} refused, {} done, {} faults\n", refused + done, refused,
             done, faults.size());
  for (const std::string& fault : faults) UNSCOPED_INFO(fault);
  CHECK(faults.empty());
}
