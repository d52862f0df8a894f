#include "tapegrad/apps/watch/run_list.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 3;
constexpr std::size_t kMostEntries = 10'000;

fs::path resolved(const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(path, ignored);
}

// A folder that was given may have no config.json yet, and one that a program trains anew has none
// for a moment.
bool is_deleted(const RunFiles& run) {
  std::error_code ignored;
  if (!fs::is_directory(run.folder(), ignored)) return true;
  return !run.options().empty() && !is_run_folder(run.folder()) && !run::is_locked(run.folder());
}

// How much a run belongs in the list. All in training are equal: they do not take each other's
// places again and again.
std::pair<bool, fs::file_time_type> rank_of(const fs::path& run) {
  if (run::is_locked(run)) return {true, {}};
  std::error_code none;
  return {false, fs::last_write_time(run / run::kMetricsFile, none)};
}

}  // namespace

RunList::RunList(const std::vector<fs::path>& runs, const std::vector<fs::path>& folders)
    : given_runs_(runs), folders_(folders) {
  Search search;
  for (const fs::path& run : runs) add_unknown(run, search);
  add_best(std::move(search));
  look();
}

RunFiles* RunList::find(std::size_t id) const {
  const auto at = runs_.find(id);
  return at == runs_.end() ? nullptr : at->second.get();
}

void RunList::end_training() {
  for (const auto& [id, run] : runs_) run->end_training();
}

bool RunList::look() {
  const bool fewer = drop_deleted();
  Search search;
  for (const fs::path& folder : folders_) look_in(folder, 0, search);
  return add_best(std::move(search)) || fewer;
}

std::vector<std::string> RunList::folder_names() const {
  std::vector<std::string> names;
  for (const auto* list : {&given_runs_, &folders_}) {
    for (const fs::path& path : *list) names.push_back(path.string());
  }
  return names;
}

bool RunList::drop_deleted() {
  return std::erase_if(runs_, [&](const auto& entry) {
           const bool deleted = is_deleted(*entry.second);
           if (deleted) known_.erase(resolved(entry.second->folder()));
           return deleted;
         }) > 0;
}

void RunList::look_in(const fs::path& folder, int depth, Search& search) const {
  if (is_run_folder(folder)) return add_unknown(folder, search);
  if (depth == kMostDepth) return;
  std::error_code error;
  std::vector<fs::path> inner;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (++search.entries > kMostEntries) break;
    std::error_code ignored;
    if (fs::is_directory(at->symlink_status(ignored))) inner.push_back(at->path());
  }
  std::sort(inner.begin(), inner.end());
  for (const fs::path& path : inner) look_in(path, depth + 1, search);
}

void RunList::add_unknown(const fs::path& run, Search& search) const {
  const fs::path path = resolved(run);
  if (!known_.contains(path) && search.canonical.insert(path).second) search.runs.push_back(run);
}

bool RunList::add_best(Search search) {
  full_ = runs_.size() + search.runs.size() > kMostRuns;
  if (full_) make_room(search.runs);
  for (const fs::path& run : search.runs) {
    known_.insert(resolved(run));
    runs_.emplace(next_id_++, std::make_unique<RunFiles>(run));
  }
  return !search.runs.empty();
}

// Leaves, of those in the list and those found, the best that there is room for.
void RunList::make_room(std::vector<fs::path>& found) {
  struct Ranked {
    std::pair<bool, fs::file_time_type> rank;
    std::optional<std::size_t> id;  // in the list
    fs::path run;
  };
  std::vector<Ranked> all;
  for (const auto& [id, run] : runs_) all.push_back({rank_of(run->folder()), id, run->folder()});
  for (const fs::path& run : found) all.push_back({rank_of(run), {}, run});
  // Equally ranked runs keep their order.
  std::stable_sort(all.begin(), all.end(),
                   [](const Ranked& a, const Ranked& b) { return a.rank > b.rank; });
  std::set<fs::path> left_out;
  for (std::size_t i = kMostRuns; i < all.size(); ++i) {
    if (all[i].id) {
      known_.erase(resolved(all[i].run));
      runs_.erase(*all[i].id);
    } else {
      left_out.insert(all[i].run);
    }
  }
  std::erase_if(found, [&](const fs::path& run) { return left_out.contains(run); });
}

}  // namespace tapegrad::watch
