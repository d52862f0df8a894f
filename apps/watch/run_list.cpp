#include "tapegrad/apps/watch/run_list.h"

#include <algorithm>
#include <system_error>

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 3;
constexpr std::size_t kMostEntries = 10'000;

}  // namespace

RunList::RunList(const std::vector<fs::path>& runs, const std::vector<fs::path>& folders)
    : folders_(folders) {
  for (const fs::path& run : runs) add(run);
  look();
}

bool RunList::look() {
  const std::size_t before = runs_.size();
  std::size_t entries = 0;
  for (const fs::path& folder : folders_) look_in(folder, 0, entries);
  return runs_.size() > before;
}

void RunList::look_in(const fs::path& folder, int depth, std::size_t& entries) {
  if (is_run_folder(folder)) return add(folder);
  if (depth == kMostDepth) return;
  std::error_code error;
  std::vector<fs::path> inner;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (++entries > kMostEntries) break;
    std::error_code ignored;
    if (fs::is_directory(at->symlink_status(ignored))) inner.push_back(at->path());
  }
  std::sort(inner.begin(), inner.end());
  for (const fs::path& path : inner) look_in(path, depth + 1, entries);
}

void RunList::add(const fs::path& folder) {
  std::error_code ignored;
  const fs::path path = fs::weakly_canonical(folder, ignored);
  if (known_.count(path) > 0) return;
  full_ = runs_.size() >= kMostRuns;
  if (full_) return;
  known_.insert(path);
  runs_.push_back(std::make_unique<RunFiles>(folder));
}

}  // namespace tapegrad::watch
