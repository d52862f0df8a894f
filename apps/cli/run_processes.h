#pragma once

#include <functional>
#include <string>

#include "tapegrad/comm/processes.h"

namespace tapegrad::cli {

// run_main for a program that mpirun or srun may start several times: joins the group, and sees
// that all processes are of the same program. Only rank 0 prints: the others' stdout and notes are
// dropped. Processes that share processors share them out: each uses as many threads as there are
// processors for each, unless --threads says otherwise.
//
// An exception in one process ends all: "train-gpt: error (rank 1 on node7): …". If all fail alike,
// rank 0 alone is heard.
int run_processes(const std::string& program, const std::function<int(Processes&)>& body);

}  // namespace tapegrad::cli
