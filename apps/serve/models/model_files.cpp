#include "tapegrad/apps/serve/models/model_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::serve {
namespace {

// By ctime, which changes with a file's bytes and with who may read them.
std::string stamp_of_one(const std::filesystem::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return "";
  return fmt::format("{}:{}:{}:{}.{};", about.st_dev, about.st_ino, about.st_size,
                     about.st_ctim.tv_sec, about.st_ctim.tv_nsec);
}

std::vector<std::filesystem::path> sorted_paths(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths = list_folder(folder);
  std::ranges::sort(paths);
  return paths;
}

// True for MODEL-00002-of-00003.gguf and all further parts: the first one opens them.
bool is_later_part(const std::filesystem::path& path) {
  constexpr std::string_view kForm = "-00000-of-00000";
  const std::string stem = path.stem().string();
  if (path.extension() != ".gguf" || stem.size() < kForm.size()) return false;
  const std::string end = stem.substr(stem.size() - kForm.size());
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool fits = kForm[i] == '0' ? end[i] >= '0' && end[i] <= '9' : end[i] == kForm[i];
    if (!fits) return false;
  }
  return !end.starts_with("-00001-");
}

// Records of a run grow while it trains. No model is read from them.
bool is_record(const std::filesystem::path& path) {
  return path.extension() == ".jsonl" || path.extension() == ".log";
}

}  // namespace

std::string name_of_model(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::path whole = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const bool is_file = std::filesystem::is_regular_file(whole, ignored);
  return (is_file ? whole.stem() : whole.filename()).string();
}

std::string stamp_of(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return stamp_of_one(path);
  std::string stamp = "folder;";  // whose own time changes with files that do not count
  try {
    for (const auto& inside : sorted_paths(path)) {
      if (!is_record(inside)) stamp += inside.filename().string() + stamp_of_one(inside);
    }
  } catch (const Error&) {  // it has just gone
  }
  return stamp;
}

ModelFiles::ModelFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  check(is_folder(folder_), "--models-dir: {} is no folder", folder_.string());
  for (const auto& path : sorted_paths(folder_)) take(path, true);
}

void ModelFiles::read_again() {
  const std::vector<std::filesystem::path> all = sorted_paths(folder_);
  const auto is_gone = [&](const std::filesystem::path& path) {
    return !std::ranges::binary_search(all, path);
  };
  std::erase_if(paths_, [&](const auto& entry) { return is_gone(entry.second); });
  std::erase_if(passed_, is_gone);
  std::erase_if(looks_, [&](const auto& entry) { return is_gone(entry.first); });
  for (const auto& path : all) take(path, false);
}

// Files are opened for that only if they have changed since the last time.
bool ModelFiles::looks_like_model(const std::filesystem::path& path) {
  std::string stamp = stamp_of(path);
  Look& last = looks_[path];
  if (!stamp.empty() && last.stamp == stamp) return last.is_model;
  last.stamp = std::move(stamp);
  try {
    last.is_model = run::is_model(path);
  } catch (const Error&) {  // it may not be read
    last = {};              // nor be remembered: it may have been for a moment
  }
  return last.is_model;
}

void ModelFiles::take(const std::filesystem::path& path, bool is_first) {
  if (path.filename().string().starts_with(".") || is_later_part(path)) return;
  const std::string name = name_of_model(path);
  const auto known = paths_.find(name);
  if (known != paths_.end() && known->second == path) return;
  if (!looks_like_model(path)) return pass_over(path, "is no model");
  if (find_invalid_utf8(name)) return pass_over(path, "has a name that is not UTF-8");
  if (known == paths_.end()) {
    passed_.erase(path);
    paths_.emplace(name, path);
    return;
  }
  check(!is_first, "--models-dir: {} and {} would both be called '{}': rename one of them",
        known->second.string(), path.string(), name);
  pass_over(path, fmt::format("would be called '{}', as {} is", name, known->second.string()));
}

void ModelFiles::pass_over(const std::filesystem::path& path, const std::string& why) {
  if (!passed_.insert(path).second) return;
  print_error(fmt::format("note: --models-dir passes over {}\n",
                          cli::printable(fmt::format("{}, which {}", path.string(), why))));
}

}  // namespace tapegrad::serve
