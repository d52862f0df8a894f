#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "tapegrad/apps/watch/run_files.h"

namespace tapegrad::watch {

inline constexpr std::size_t kMostRuns = 200;

// The runs that are watched. A run's place in the list is its ID: it stays as long as the list
// does.
class RunList {
 public:
  // `runs` are shown whatever they have; `folders` are a run folder each, or a folder of runs,
  // whose new ones come by themselves.
  RunList(const std::vector<std::filesystem::path>& runs,
          const std::vector<std::filesystem::path>& folders);

  // Adds the runs that have come. Returns whether there are any.
  bool look();
  std::size_t size() const { return runs_.size(); }
  RunFiles& operator[](std::size_t id) { return *runs_[id]; }
  // Runs that are not in the list because it is full.
  bool is_full() const { return full_; }

 private:
  void look_in(const std::filesystem::path& folder, int depth, std::size_t& entries);
  void add(const std::filesystem::path& folder);

  std::vector<std::filesystem::path> folders_;
  std::vector<std::unique_ptr<RunFiles>> runs_;
  std::set<std::filesystem::path> known_;
  bool full_ = false;
};

}  // namespace tapegrad::watch
