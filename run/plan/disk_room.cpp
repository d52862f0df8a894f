#include "tapegrad/run/plan/internal/disk_room.h"

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::run {

// A checkpoint is written beside the one that it replaces.
double DiskNeeds::bytes() const {
  const double checkpoint = weights + optimizer;
  return replaces ? checkpoint : 2 * checkpoint + (keeps_best ? weights : 0);
}

std::optional<double> free_room(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.capacity == 0) return std::nullopt;  // some network file systems
  return static_cast<double>(space.available);
}

void check_room(const std::filesystem::path& folder, const DiskNeeds& needs,
                std::optional<double> room) {
  check(
      !room || needs.bytes() <= *room,
      "{}: the run needs about {} of the disk, for checkpoints of {}, each written beside the last"
      "{}, but {} are free there. Free some, or give --out-dir on another disk",
      folder.string(), size_text(needs.bytes()), size_text(needs.weights + needs.optimizer),
      needs.keeps_best && !needs.replaces ? ", and the best weights" : "",
      size_text(room.value_or(0)));
}

}  // namespace tapegrad::run
