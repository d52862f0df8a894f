#pragma once

#include <cstdlib>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

// Training programs as several processes, and what they leave.

inline bool have_processes() {
  const bool have = !std::string(tapegrad::places::kMpirun).empty();
  if (!have) WARN("skipped: there is no MPI, or no mpirun");
  return have;
}

// Arguments of mpirun for the training program `name` on so many processes.
inline Args processes_args(int count, const std::string& name, const Args& args) {
  // Open MPI starts neither as root nor more processes than processors unless it is asked to.
  for (const char* allow : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                            "OMPI_MCA_rmaps_base_oversubscribe"}) {
    ::setenv(allow, "1", 1);
  }
  ::setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe",
           1);                                    // the same, from Open MPI 5 on
  ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // at its end it leaves memory to the system
  const std::string program = std::filesystem::path(tapegrad::places::kPrograms) / name;
  return Args{"-n", std::to_string(count), program, "--threads", "1"} + args;
}

inline Result on_processes(int count, const std::string& name, const Args& args) {
  return run_program(tapegrad::places::kMpirun, processes_args(count, name, args));
}

// All that a checkpoint says, but for the seconds that it took.
inline std::string checkpoint_bytes(const std::filesystem::path& run) {
  std::string all = TempFolder::get(run / "model.safetensors");
  all += TempFolder::get(run / "optimizer.safetensors");
  std::istringstream trainer(TempFolder::get(run / "trainer.json"));
  for (std::string line; std::getline(trainer, line);) {
    if (line.find("\"seconds\"") == line.npos) all += line;
  }
  return all;
}
