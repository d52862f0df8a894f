#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/tests/places.h"

namespace tapegrad::testing {

// Readers copy the tutorial's programs, so these include the files of their folder by name alone.
inline const std::string kTutorial = "docs/tutorial/programs";
inline const std::vector<std::string> kLibraryAndPrograms = {
    "base", "comm", "autograd", "nn", "optim", "data", "arrays", "run", "apps", kTutorial};

// The folder of a path. Internal headers count as files of the folder above theirs.
inline std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  constexpr std::string_view kInternal = "/internal";
  if (folder.ends_with(kInternal)) folder.resize(folder.size() - kInternal.size());
  return folder;
}

using Names = std::set<std::string>;

inline std::string listed(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The text, without comments, of every .h and .cpp file in the given folders of this source tree,
// by its path from the root. The tutorial's own files are included in it as files of other folders
// are.
inline std::map<std::string, std::string> read_sources(const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  const fs::path root = tapegrad::places::kSources;
  std::map<std::string, std::string> texts;
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp") continue;
      const std::string path = fs::relative(entry.path(), root).generic_string();
      const bool by_name = folder_of(path) == kTutorial;
      std::string& text = texts[path];
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        constexpr std::string_view kInclude = "#include \"";
        if (by_name && line.starts_with(kInclude) && line.find('/') == std::string::npos) {
          line.insert(kInclude.size(), "tapegrad/" + kTutorial + "/");
        }
        text += line.substr(0, line.find("//")) + "\n";
      }
    }
  }
  return texts;
}

// The names that `text` includes with this pair of delimiters.
inline std::vector<std::string> included(const std::string& text, char open, char close) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#include")) continue;
    const auto begin = line.find(open);
    if (begin == std::string::npos) continue;
    names.push_back(line.substr(begin + 1, line.find(close, begin + 1) - begin - 1));
  }
  return names;
}

// The path in the source tree of what is included as `name`.
inline std::string source_path(const std::string& name) {
  constexpr std::string_view kRoot = "tapegrad/";
  return name.starts_with(kRoot) ? name.substr(kRoot.size()) : name;
}

}  // namespace tapegrad::testing
