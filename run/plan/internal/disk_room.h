#pragma once

#include <filesystem>
#include <optional>

namespace tapegrad::run {

// Bytes that a run writes into its folder.
struct DiskNeeds {
  double weights = 0, optimizer = 0;  // of a checkpoint
  bool keeps_best = false;            // the best weights, too
  bool replaces = false;              // a checkpoint that is there already

  double bytes() const;  // at most at once, beside what is there
};

// Bytes that may still be written into a folder; nothing if the system does not say.
std::optional<double> free_room(const std::filesystem::path& folder);

// Error, before a run begins, if `room` is too little: checkpoints could not be written then.
void check_room(const std::filesystem::path& folder, const DiskNeeds& needs,
                std::optional<double> room);

}  // namespace tapegrad::run
