#pragma once

#include "tapegrad/apps/sweep/sweep_plan.h"
#include "tapegrad/apps/sweep/sweep_record.h"

namespace tapegrad::sweep {

// Trains all runs that are not done, records the results in the folder, and prints them. Waits for
// the folder of a run while another program trains in it. The first interrupt stops the runs, which
// save. A run that somebody else has stopped is not done, and not tried again by this call. Returns
// the exit code: 0 if no run was stopped, and one has a validation loss.
int run_sweep(const SweepPlan& plan, SweepRecord record);

}  // namespace tapegrad::sweep
