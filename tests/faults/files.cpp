#include "tapegrad/tests/faults/files.h"

#include <fstream>
#include <regex>
#include <sstream>

#include "tapegrad/tests/temp_folder.h"

namespace faults {

namespace fs = std::filesystem;

Files read_files(const fs::path& folder) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (entry.is_directory()) {
      files[name + "/"];
    } else {
      files[name] = TempFolder::get(entry.path());
    }
  }
  return files;
}

void write_files(const fs::path& folder, const Files& files) {
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  for (const auto& [name, contents] : files) {  // a folder comes before what is in it
    if (name.back() == '/') {
      fs::create_directory(folder / name);
    } else {
      std::ofstream(folder / name, std::ios::binary) << contents;
    }
  }
}

Files essence(const Files& files) {
  static const std::regex process("\\.tmp-[0-9]+-");
  static const std::regex times(
      "\"(seconds|ms|tokens_per_second|cpu_percent|memory_percent)\": ?(null|[0-9.e+-]+),?");
  Files result;
  for (const auto& [name, contents] : files) {
    // They tell of each call and its time, and a run that was stopped has more calls than one that
    // was not: see fault_of_sessions.
    if (name.ends_with("sessions.jsonl") || name.ends_with("report.html")) continue;
    const bool has_times = name.find("trainer.json") != std::string::npos ||
                           name.find("metrics.jsonl") != std::string::npos;
    result[std::regex_replace(name, process, ".tmp-N-")] =
        has_times ? std::regex_replace(contents, times, "") : contents;
  }
  return result;
}

std::string fault_of_sessions(const Files& files) {
  for (const auto& [name, contents] : files) {
    if (!name.ends_with("sessions.jsonl")) continue;
    if (!contents.empty() && contents.back() != '\n') return name + " ends within a line";
    std::istringstream lines(contents);
    for (std::string line; std::getline(lines, line);) {
      const bool whole = line.starts_with("{\"first_step\":") && line.ends_with("}");
      if (!whole || line.find("first_step", 3) != line.npos) return name + " has a broken line";
    }
  }
  return {};
}

std::string difference(const Files& a, const Files& b) {
  std::string names;
  for (const auto& [name, contents] : a) {
    if (b.count(name) == 0 || b.at(name) != contents) names += " " + name;
  }
  for (const auto& [name, contents] : b) {
    if (a.count(name) == 0) names += " " + name;
  }
  return names;
}

}  // namespace faults
