#include "tapegrad/run/folder/internal/session.h"

#include <sched.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/version.h"

namespace tapegrad::run {
namespace {

std::string time_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

// "" where the system does not tell.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "";
}

std::int64_t cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

RunFolder::Metrics session_of(std::int64_t first_step, const std::string& command, int processes) {
  RunFolder::Metrics line = {{"first_step", first_step}, {"time", time_now()}};
  if (!command.empty()) line.emplace_back("command", command);
  std::error_code removed;
  const std::string folder = std::filesystem::current_path(removed).string();
  if (!removed) line.emplace_back("folder", folder);
  line.insert(line.end(), {{"processor", processor_name()},
                           {"cores", cores()},
                           {"threads", std::int64_t{num_threads()}},
                           {"processes", std::int64_t{processes}},
                           {"version", std::string(TAPEGRAD_VERSION)},
                           {"products", gemm_description()},
                           {std::string(kTellsEnd), true}});
  return line;
}

RunFolder::Metrics end_of_session(std::int64_t first_step, std::int64_t last_step, Ending ending,
                                  const std::string& why) {
  RunFolder::Metrics line = {{"first_step", first_step},
                             {"ended", std::string(name_of_enum(ending))},
                             {"ended_at", time_now()},
                             {"last_step", last_step}};
  if (!why.empty()) line.emplace_back("why", why);
  return line;
}

}  // namespace tapegrad::run
