#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tapegrad::testing {

// The text, without comments, of every .h and .cpp file in the given folders of this source tree,
// by its path from the root.
inline std::map<std::string, std::string> read_sources(const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  const fs::path root = TAPEGRAD_SOURCE_DIR;
  std::map<std::string, std::string> texts;
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp") continue;
      std::string& text = texts[fs::relative(entry.path(), root).generic_string()];
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        text += line.substr(0, line.find("//")) + "\n";
      }
    }
  }
  return texts;
}

}  // namespace tapegrad::testing
