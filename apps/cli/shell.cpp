#include "tapegrad/apps/cli/shell.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace tapegrad::cli {

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/._-+:,@").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string program_path(const std::string& command) {
  const std::size_t space = command.find(' ');
  if (space != command.npos) return program_path(command.substr(0, space)) + command.substr(space);
  const std::string& name = command;
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const char* path = std::getenv("PATH");
  const std::string folders = ":" + std::string(path == nullptr ? "" : path) + ":";
  if (error || folders.find(":" + folder.string() + ":") != std::string::npos) return name;
  // The folder alone is made relative: the program's name may be a link, which would be followed.
  const std::string near = (fs::proximate(folder, error) / name).lexically_normal().string();
  if (error) return quoted((folder / name).string());
  return quoted(near.find('/') == std::string::npos ? "./" + near : near);
}

}  // namespace tapegrad::cli
