#include "tapegrad/base/memory/available_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "tapegrad/base/text/words.h"

namespace tapegrad {
namespace {

namespace fs = std::filesystem;

// The number behind a word, in a file of lines "word number", or "word: number kB".
std::optional<double> number_after(const fs::path& path, std::string_view word) {
  std::ifstream file(path);
  std::string name;
  for (double value = 0; file >> name >> value; file.ignore(100, '\n')) {
    if (name == word) return value;
  }
  return std::nullopt;
}

// The number that a file holds. Nothing for "max".
std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// The files of a control group, by the version of the interface.
struct GroupFiles {
  const char *mount, *limit, *used;
  std::array<const char*, 2> cached;  // pages of files, those used of late and the others
};
constexpr GroupFiles kVersion2 = {
    "sys/fs/cgroup", "memory.max", "memory.current", {"active_file", "inactive_file"}};
constexpr GroupFiles kVersion1 = {"sys/fs/cgroup/memory",
                                  "memory.limit_in_bytes",
                                  "memory.usage_in_bytes",
                                  {"total_active_file", "total_inactive_file"}};

std::optional<AvailableMemory> memory_of_group(const fs::path& folder, const GroupFiles& files) {
  const auto limit = number_in(folder / files.limit), used = number_in(folder / files.used);
  if (!limit || !used) return std::nullopt;
  double cached = 0;
  for (const char* name : files.cached) {
    cached += number_after(folder / "memory.stat", name).value_or(0);
  }
  return AvailableMemory{.bytes = std::max(0.0, *limit - *used + cached), .total = *limit};
}

std::optional<AvailableMemory> least(const std::optional<AvailableMemory>& a,
                                     const std::optional<AvailableMemory>& b) {
  if (!a || !b) return a ? a : b;
  return b->bytes < a->bytes ? b : a;
}

// A group's limit holds for all groups in it. Inside a container, the path may be that of the
// outside: then only the root of what is mounted is found, which is the container's own group.
std::optional<AvailableMemory> memory_of_groups(const fs::path& root, fs::path group,
                                                const GroupFiles& files) {
  std::optional<AvailableMemory> found;
  const fs::path mount = root / files.mount;
  for (;; group = group.parent_path()) {
    auto memory = memory_of_group(mount / group.relative_path(), files);
    if (memory) memory->limit = "the control group " + group.string();
    found = least(found, memory);
    if (group.relative_path().empty()) return found;
  }
}

std::optional<AvailableMemory> memory_of_machine(const fs::path& root) {
  constexpr double kilobyte = 1024;
  const auto available = number_after(root / "proc/meminfo", "MemAvailable:");
  const auto total = number_after(root / "proc/meminfo", "MemTotal:");
  if (!available || !total) return std::nullopt;
  return AvailableMemory{.bytes = kilobyte * *available, .total = kilobyte * *total};
}

// The bytes that a line of proc/self/limits allows; nothing for "unlimited".
std::optional<double> process_limit(const fs::path& root, std::string_view name) {
  std::ifstream file(root / "proc/self/limits");
  double bytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    return rest >> bytes ? std::optional(bytes) : std::nullopt;
  }
  return std::nullopt;
}

// Address space and private memory. Of mappings, a library's count as well: the kernel does so.
std::optional<AvailableMemory> memory_of_process(const fs::path& root) {
  std::ifstream file(root / "proc/self/statm");
  std::array<double, 6> pages{};  // size, resident, shared, text, 0, data
  for (double& count : pages) file >> count;
  if (!file) return std::nullopt;
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const auto left = [&](std::string_view name, double used, const char* limit) {
    const auto total = process_limit(root, name);
    if (!total) return std::optional<AvailableMemory>();
    return std::optional(AvailableMemory{std::max(0.0, *total - used * page), *total, limit});
  };
  return least(left("Max address space", pages[0], "ulimit -v"),
               left("Max data size", pages[5], "ulimit -d"));
}

// True if a list "cpu,memory" names the memory.
bool controls_memory(std::string_view controllers) {
  return ("," + std::string(controllers) + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::string AvailableMemory::text() const {
  return limit.empty() ? fmt::format("{} of this machine's {} are available", size_text(bytes),
                                     size_text(total))
                       : fmt::format("{} of the {} that {} allows are available", size_text(bytes),
                                     size_text(total), limit);
}

std::optional<AvailableMemory> available_memory(const fs::path& root) {
  std::optional<AvailableMemory> found = least(memory_of_machine(root), memory_of_process(root));
  std::ifstream groups(root / "proc/self/cgroup");
  // Each line is "number:controllers:path". The one of version 2 names no controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) found = least(found, memory_of_groups(root, group, kVersion2));
    if (controls_memory(controllers))
      found = least(found, memory_of_groups(root, group, kVersion1));
  }
  return found;
}

}  // namespace tapegrad
