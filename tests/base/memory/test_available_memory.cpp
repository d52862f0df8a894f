#include <unistd.h>

#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

// A file system whose machine has 1,000,000 of 2,000,000 kB available.
struct Machine {
  TempFolder root;
  Machine() {
    put("proc/meminfo",
        "MemTotal:       2000000 kB\nMemFree:          50000 kB\nMemAvailable:   1000000 kB\n");
  }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root / path).parent_path());
    root.put(path, text);
  }
  AvailableMemory memory() const {
    const auto found = available_memory(root / "");
    REQUIRE(found);
    return *found;
  }
};

}  // namespace

TEST_CASE("without a control group, what the machine can still give is available", "[memory]") {
  const Machine machine;
  CHECK(machine.memory().bytes == 1'000'000.0 * 1024);
  CHECK(machine.memory().text() == "1.0 GB of this machine's 2.0 GB are available");
  machine.put("proc/self/cgroup", "0::/\n");
  CHECK(machine.memory().limit.empty());
}

TEST_CASE("a control group's limit counts, less what is used, but not by cached files",
          "[memory]") {
  const Machine machine;
  machine.put("proc/self/cgroup", "1:cpu:/other\n0::/user/job\n");
  const std::string job = "sys/fs/cgroup/user/job/";
  machine.put(job + "memory.max", "500000000\n");
  machine.put(job + "memory.current", "300000000\n");
  machine.put(job + "memory.stat",
              "anon 100\nfile 150000000\nactive_file 40000000\ninactive_file 60000000\nslab 5\n");
  CHECK(machine.memory().bytes == 300'000'000);
  CHECK(machine.memory().text() ==
        "300 MB of the 500 MB that the control group /user/job allows are available");
  machine.put(job + "memory.max", "max\n");
  CHECK(machine.memory().limit.empty());
}

TEST_CASE("the tightest group around this process decides", "[memory]") {
  const Machine machine;
  machine.put("proc/self/cgroup", "0::/user/job\n");
  for (const auto& [folder, limit] :
       {std::pair("user/job/", "900000000"), std::pair("user/", "200000000")}) {
    machine.put("sys/fs/cgroup/" + std::string(folder) + "memory.max", limit);
    machine.put("sys/fs/cgroup/" + std::string(folder) + "memory.current", "0");
  }
  CHECK(machine.memory().bytes == 200'000'000);
  CHECK(machine.memory().limit == "the control group /user");
}

TEST_CASE("limits of the older interface count, and those of a container's root", "[memory]") {
  const Machine machine;
  machine.put("proc/self/cgroup", "9:name=systemd:/\n5:cpu,memory:/docker/0123\n0::/\n");
  machine.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "400000000");
  machine.put("sys/fs/cgroup/memory/memory.usage_in_bytes", "450000000");
  CHECK(machine.memory().bytes == 0);
  CHECK(machine.memory().limit == "the control group /");
}

TEST_CASE("limits of the process count, less what it has", "[memory]") {
  const Machine machine;
  const auto set = [&](const std::string& addresses, const std::string& data) {
    machine.put("proc/self/limits",
                "Limit                     Soft Limit           Hard Limit\n"
                "Max data size             " +
                    data +
                    "   unlimited   bytes\n"
                    "Max address space         " +
                    addresses + "   900   bytes\n");
  };
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  machine.put("proc/self/statm", "1000 30 20 10 0 300 0\n");
  set("unlimited", "unlimited");
  CHECK(machine.memory().limit.empty());
  set(std::to_string(5000 * page), "unlimited");
  CHECK(machine.memory().bytes == static_cast<double>(4000 * page));
  CHECK(machine.memory().limit == "ulimit -v");
  set(std::to_string(5000 * page), std::to_string(400 * page));
  CHECK(machine.memory().text() == "410 kB of the 1.6 MB that ulimit -d allows are available");
  set(std::to_string(500 * page), "unlimited");
  CHECK(machine.memory().bytes == 0);
}

TEST_CASE("files that say nothing are no limit", "[memory]") {
  const TempFolder empty;
  CHECK(!available_memory(empty / ""));
  const Machine machine;
  machine.put("proc/self/cgroup", "nonsense\n::\n0::/../..\n7:memory\n");
  CHECK(machine.memory().limit.empty());
}
