#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tapegrad/apps/watch/run_files.h"

namespace tapegrad::watch {

inline constexpr std::size_t kMostRuns = 200;

// The runs that are watched, by ID. Where there are more than kMostRuns, those in training are in
// the list, and the newest others; one that must leave takes its ID with it.
class RunList {
 public:
  // `runs` are shown whatever they have; `folders` are a run folder each, or a folder of runs,
  // whose new ones come by themselves.
  RunList(const std::vector<std::filesystem::path>& runs,
          const std::vector<std::filesystem::path>& folders);

  // Adds the runs that have come, and leaves out those whose folder is gone. Returns whether there
  // are any.
  bool look();
  const std::map<std::size_t, std::unique_ptr<RunFiles>>& runs() const { return runs_; }
  RunFiles* find(std::size_t id) const;  // null if there is none
  // All runs have ended, although this program still holds their locks.
  void end_training();
  // The paths that were given, as `runs` and as `folders`.
  std::vector<std::string> folder_names() const;
  // True if there are runs that are not in the list because it is full.
  bool is_full() const { return full_; }

 private:
  // The runs that a look finds and that are not in the list yet.
  struct Search {
    std::vector<std::filesystem::path> runs = {};
    std::set<std::filesystem::path> canonical = {};  // the same, to know each once
    std::size_t entries = 0;                         // of folders, so far
  };
  void look_in(const std::filesystem::path& folder, int depth, Search& search) const;
  void add_unknown(const std::filesystem::path& run, Search& search) const;
  bool add_best(Search search);
  bool drop_deleted();
  void make_room(std::vector<std::filesystem::path>& found);

  std::vector<std::filesystem::path> given_runs_, folders_;
  std::map<std::size_t, std::unique_ptr<RunFiles>> runs_;
  std::set<std::filesystem::path> known_;  // canonical
  std::size_t next_id_ = 0;
  bool full_ = false;
};

}  // namespace tapegrad::watch
