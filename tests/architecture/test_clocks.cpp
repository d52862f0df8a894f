// Checks that no test judges by a clock: how long something takes depends on what else the machine
// does. Linear work is shown by counting it, an order by events, and speed is measured by
// tests/bench.

#include <set>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

// They read a clock for other ends.
const std::set<std::string> kReaders = {
    // To give up on what hangs.
    "tests/apps/on_terminal.h", "tests/apps/program.h", "tests/apps/watch/browser.h",
    // To kill at moments that are spread over a run.
    "tests/apps/corpus/test_prepare_data.cpp", "tests/faults/kills.cpp",
    // To compute for a while.
    "tests/apps/cli/ranks_main.cpp",
    // To print what was measured, by hand or beside what is tested.
    "tests/clients/compare_logits.cpp", "tests/clients/render_chats.cpp", "tests/comm/ranks.cpp",
    "tests/json_schema/schema_answers.cpp",
    // To say what is looked for.
    "tests/architecture/test_clocks.cpp"};

bool reads_clock(const std::string& text) {
  for (const char* name : {"steady_clock", "system_clock", "high_resolution_clock", "std::clock",
                           "clock_gettime", "gettimeofday", "::time(", "time(nullptr)", "ru_utime",
                           "ru_stime", "Stopwatch", "seconds_of("}) {
    if (text.find(name) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("no test reads a clock, but for a hang or a figure", "[architecture]") {
  std::set<std::string> readers;
  for (const auto& [path, text] : read_sources({"tests"})) {
    if (!path.starts_with("tests/bench/") && reads_clock(text)) readers.insert(path);
  }
  CHECK(readers == kReaders);
}
