#include <cstdlib>
#include <optional>
#include <string_view>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/comm/internal/carrier.h"

namespace tapegrad::detail {
namespace {

// Variables by which launchers tell the processes how many they are, and which of them is which.
// Slurm's are those of a step, which srun starts: a job's own script has SLURM_NTASKS, too, and is
// one process.
struct Signs {
  const char *launcher, *size, *rank;
};
constexpr Signs kSigns[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},    // Open MPI
    {"mpiexec", "PMI_SIZE", "PMI_RANK"},                           // MPICH, Intel MPI
    {"mpirun_rsh", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},  // MVAPICH2
    {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"a launcher with PMIx", "", "PMIX_RANK"},  // it tells no size
};

// The number in a variable, or nothing.
std::optional<int> number_in(const char* variable, int least) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  const std::optional<int> number = number_of<int>(text);
  check(number && *number >= least,
        "[processes] the environment variable {} is '{}', not a number from {} on", variable, text,
        least);
  return number;
}

}  // namespace

Launch launch_of_environment() {
  for (const Signs& signs : kSigns) {
    const std::optional<int> size = number_in(signs.size, 1), rank = number_in(signs.rank, 0);
    if (size) return {signs.launcher, *size, rank.value_or(0)};
    if (rank && *signs.size == '\0') return {signs.launcher, 0, *rank};
  }
  return {};
}

#ifndef TAPEGRAD_MPI
std::unique_ptr<Carrier> mpi_carrier(const Launch& launch) {
  const std::string several = launch.size == 0 ? "several" : fmt::format("{}", launch.size);
  fail(
      "[processes] {} has started {} processes, but this program was built without MPI, by which "
      "they would work together. Install it (Debian: apt install openmpi-bin libopenmpi-dev) and "
      "build again: cmake then says \"Processes work together by MPI\"",
      launch.launcher, several);
}
#endif

}  // namespace tapegrad::detail
