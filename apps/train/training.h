#pragma once

#include <optional>

#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/apps/train/plan.h"

namespace tapegrad::gpt {

// The command line of train-gpt.
const cli::TrainingProgram<Options>& training();

// A call up to where a text is needed: the plan is of arguments and facts.
struct ParsedCall {
  Arguments arguments;
  Facts facts;
  Plan plan;
};
// Nothing if --help or --version was printed. UsageError for invalid values, and for values that
// cannot change when a run is resumed. --dtype may still be automatic.
std::optional<ParsedCall> parse(const cli::Call& call, int processes = 1,
                                const cli::ProductRate& rate = cli::rate_here);
// The same of these processes, with the dtype that is faster on the machine where it is automatic.
// Chooses what multiplies.
std::optional<ParsedCall> parse(const cli::Call& call, Processes& processes);

// Its main().
int train(const cli::Call& call);

}  // namespace tapegrad::gpt
