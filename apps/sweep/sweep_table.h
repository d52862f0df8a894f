#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/sweep/sweep_record.h"

namespace tapegrad::sweep {

// The runs from the best to the worst: those that have come through more rungs first, then by their
// final validation losses, which those of fewer steps are not compared with. Then those that have
// failed, and those that are not done.
std::vector<const RunRecord*> ranked(const SweepRecord& record);

// One row for each run: its number, final validation loss, the varied options, steps, minutes, and
// the error if it has failed. For people, in columns; and as comma-separated values.
std::string table_text(const SweepRecord& record);
std::string table_csv(const SweepRecord& record);

// The first sentence of the error, or its beginning: the whole is in output.txt.
std::string short_error(const RunRecord& run);

// "learning-rate=0.003, n-layer=4": the values of a run for people.
std::string described(const SweepRecord& record, const RunRecord& run);
// "--learning-rate=0.003", "--n-layer=4": the values of a run as arguments.
std::vector<std::string> value_args(const SweepRecord& record, const RunRecord& run);

}  // namespace tapegrad::sweep
