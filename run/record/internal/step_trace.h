#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/run/options/options.h"
#include "tapegrad/run/record/report.h"

namespace tapegrad::run {

// Traces a few steps of a run, and writes them to a file: see chrome_trace.h. The first two of a
// call are left out: they load libraries and take memory from the system, as no later step does.
class StepTrace {
 public:
  // `names` name all parameters, frozen ones too, and must live as long as this.
  StepTrace(const TraceOptions& options, std::span<const std::pair<std::string, Tensor>> names);

  // The time until `part` ends is a step, which is traced if it is one of those.
  void begin_step(std::optional<ProfiledPart>& part);
  // Writes the trace once its steps are made, or, at the end of a run, those that were made: a
  // line for people then, as if there were none to write. An error is such a line, too: a trace is
  // not worth a run.
  std::optional<std::string> write(bool at_end);

 private:
  static constexpr int kLeftOut = 2;

  TraceOptions options_;
  std::span<const std::pair<std::string, Tensor>> names_;
  int made_ = 0;  // steps, those that are left out included
  std::unique_ptr<Profile> profile_;
};

}  // namespace tapegrad::run
