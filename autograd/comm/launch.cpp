#include <charconv>
#include <cstdlib>
#include <string_view>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/autograd/comm/carrier.h"

namespace tapegrad::detail {
namespace {

// Variables by which launchers tell the processes how many they are. Slurm's is that of a step,
// which srun starts: a job's own script has SLURM_NTASKS, too, and is one process.
struct Sign {
  const char *variable, *launcher;
};
constexpr Sign kSizes[] = {
    {"OMPI_COMM_WORLD_SIZE", "mpirun"},     // Open MPI
    {"PMI_SIZE", "mpiexec"},                // MPICH, Intel MPI
    {"MV2_COMM_WORLD_SIZE", "mpirun_rsh"},  // MVAPICH2
    {"FLUX_JOB_SIZE", "flux run"},
    {"SLURM_STEP_NUM_TASKS", "srun"},
};
// Of launchers that tell no size, but how MPI finds it.
constexpr Sign kRanks[] = {{"PMIX_RANK", "a launcher with PMIx"},
                           {"PMI_RANK", "a launcher with PMI"}};

}  // namespace

Launch launch_of_environment() {
  for (const Sign& sign : kSizes) {
    const char* value = std::getenv(sign.variable);
    if (value == nullptr) continue;
    const std::string_view text = value;
    int size = 0;
    const auto [end, error] = std::from_chars(text.begin(), text.end(), size);
    check(error == std::errc() && end == text.end() && size >= 1,
          "[processes] {} is '{}', which is no number of processes", sign.variable, text);
    return {sign.launcher, size};
  }
  for (const Sign& sign : kRanks) {
    if (std::getenv(sign.variable) != nullptr) return {sign.launcher, 0};
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
