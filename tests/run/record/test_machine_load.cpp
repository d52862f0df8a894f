#include <cmath>

#include "tapegrad/run/record/machine_load.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

constexpr const char* kBefore = "cpu  100 20 30 1000 50 5 5 10 7 0\ncpu0 1 1 1\n";

void put_memory(const TempFolder& root) {
  root.put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 250 kB\n");
}

const auto kBegin = run::MachineLoad::Clock::now();
const auto kLater = kBegin + std::chrono::seconds(1);

}  // namespace

TEST_CASE("the load of a machine is that of the time since the last look", "[machine-load]") {
  const TempFolder root;
  put_memory(root);
  root.put("proc/stat", kBefore);
  run::MachineLoad load(root.path());
  CHECK_FALSE(load.next(kBegin));
  root.put("proc/stat", "cpu  140 20 40 1040 60 5 5 10 7 0\n");   // 50 of 100 ticks
  CHECK_FALSE(load.next(kLater - std::chrono::milliseconds(1)));  // too soon
  const auto percent = load.next(kLater);
  REQUIRE(percent);
  CHECK(std::abs(percent->cpu - 50) < 1e-9);
  CHECK(std::abs(percent->memory - 75) < 1e-9);
}

TEST_CASE("a machine that does not tell its load has none", "[machine-load]") {
  const TempFolder root;
  put_memory(root);
  const std::string after = GENERATE("", "cpu 1 2\n", "intr 1 2 3 4 5 6 7 8\n", kBefore,
                                     "cpu  100 20 30 900 50 5 5 10 7 0\n", "cpu a b c d e f g h\n");
  root.put("proc/stat", kBefore);
  run::MachineLoad load(root.path());
  CHECK_FALSE(load.next(kBegin));
  root.put("proc/stat", after);
  CHECK_FALSE(load.next(kLater));
}
