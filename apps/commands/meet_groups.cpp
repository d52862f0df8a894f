#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/optim/meetings/hold_meeting.h"
#include "tapegrad/run/folder/internal/folder_calls.h"

namespace tapegrad {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder, meet_key;
  std::optional<double> wait;
  cli::ComputeOptions compute;
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(
      call.name,
      "Holds the next meeting of groups that train in different places (tapegrad train --meet):\n"
      "of the files in DIR, one from each group, it makes the one that all of them go on from.\n"
      "All groups must be there, unless --wait says for how long they are waited for.");
  std::vector<std::string> words;
  cli.words(words, "DIR", "the folder with the groups' files");
  cli.group("Meeting");
  cli("wait", o.wait,
      "wait M minutes for groups that are missing, and then hold the meeting without them: what "
      "they have trained since the last meeting does not count [no meeting without all]",
      {.least = 0, .most = 1e6, .value = "M"});
  cli("meet_key", o.meet_key,
      "take only files that are signed by the key in FILE, and sign the new one",
      {.value = "FILE"});
  cli.options(o.compute);
  cli.example("tapegrad meet meetings/", "once the files of all groups are there");
  cli.example("while tapegrad meet meetings/ --wait 120 --meet-key key; do :; done",
              "meeting after meeting; ends when nobody comes for two hours");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (words.size() != 1) cli::usage_error("one folder is needed: that of the groups' files");
  o.folder = words.front();
  cli::use_compute(o.compute);
  return o;
}

// What a folder looks like: files are read again only when that changes.
std::map<fs::path, std::pair<std::uintmax_t, fs::file_time_type>> look_of(const fs::path& folder) {
  std::map<fs::path, std::pair<std::uintmax_t, fs::file_time_type>> look;
  for (const fs::path& path : list_folder(folder)) {
    std::error_code ignored;
    look[path] = {fs::file_size(path, ignored), fs::last_write_time(path, ignored)};
  }
  return look;
}

void say(const std::vector<std::string>& refused) {
  for (const std::string& why : refused) fmt::print(stderr, "left out: {}\n", cli::printable(why));
}

bool all_there(const optim::Arrivals& a) { return !a.present.empty() && a.missing.empty(); }

// Returns once the files of all groups are there, or the time is over. False if a signal ends the
// waiting.
bool wait_for_groups(const Options& o, const std::string& key) {
  constexpr auto kLookAgain = std::chrono::milliseconds(500);
  constexpr double minute = 60;
  const Stopwatch watch;
  auto look = look_of(o.folder);
  optim::Arrivals found = optim::find_arrivals(o.folder, key);
  std::vector<std::string> before, said;
  while (!all_there(found)) {
    // What is said of a file that is being copied changes all the time.
    if (found.refused != said && found.refused == before) say(said = found.refused);
    before = found.refused;
    if (watch.seconds() >= minute * o.wait.value_or(0)) break;
    std::this_thread::sleep_for(kLookAgain);
    if (interrupted()) return false;
    if (auto now = look_of(o.folder); now != look) {
      look = std::move(now);
      found = optim::find_arrivals(o.folder, key);
    }
  }
  if (found.refused != said) say(found.refused);
  return true;
}

int meet(const Options& o) {
  check(is_folder(o.folder), "{}: there is no such folder", o.folder);
  const std::string key = optim::meeting_key(o.meet_key);
  static_cast<void>(run::lock_folder(o.folder, "holding meetings"));  // until the program ends
  catch_interrupts();
  if (!wait_for_groups(o, key)) return kInterruptedExitCode;
  const optim::HeldMeeting held = optim::hold_meeting(
      o.folder, key, o.wait ? optim::MissingGroups::left_out : optim::MissingGroups::refused);
  fmt::print("meeting {} of {}{}: bring {} to all groups\n", held.arrivals.meeting,
             fmt::join(held.arrivals.present, ", "),
             held.arrivals.missing.empty()
                 ? ""
                 : fmt::format(", without {}", fmt::join(held.arrivals.missing, ", ")),
             held.step.string());
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? meet(*options) : 0;
  });
}

const cli::Command kCommand("meet", cli::CommandGroup::train,
                            "hold a meeting of groups that train in different places", run);

}  // namespace
}  // namespace tapegrad
