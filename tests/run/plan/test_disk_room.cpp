#include "tapegrad/run/plan/internal/disk_room.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

TEST_CASE("a disk without room for checkpoints is told before a run", "[memory]") {
  const TempFolder folder;
  CHECK(run::free_room(folder.path()).value_or(0) > 0);
  CHECK(!run::free_room(folder / "nowhere"));
  run::DiskNeeds needs{.weights = 4e8, .optimizer = 8e8, .keeps_best = true};
  CHECK(needs.bytes() == 2.8e9);
  CHECK_NOTHROW(run::check_room("runs/x", needs, 2.8e9));
  CHECK_NOTHROW(run::check_room("runs/x", needs, std::nullopt));
  CHECK_THROWS_WITH(run::check_room("runs/x", needs, 2.7e9),
                    ContainsSubstring("runs/x: the run needs about 2.8 GB") &&
                        ContainsSubstring("checkpoints of 1.2 GB") &&
                        ContainsSubstring("but 2.7 GB are free there. Free some"));
  needs.replaces = true;  // the last checkpoint is there already
  CHECK(needs.bytes() == 1.2e9);
}
