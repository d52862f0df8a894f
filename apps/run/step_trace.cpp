#include "tapegrad/run/step_trace.h"

#include "tapegrad/run/chrome_trace.h"

namespace tapegrad::run {

StepTrace::StepTrace(const TraceOptions& options,
                     std::span<const std::pair<std::string, Tensor>> names)
    : options_(options), names_(names) {}

Report::Step StepTrace::run(const std::function<Report::Step()>& step) {
  if (options_.profile.empty()) return step();
  if (made_ == kLeftOut) {
    profile_ = std::make_unique<Profile>(ProfileOptions{.timeline = true, .names = names_});
  }
  ++made_;
  const ProfiledPart part("step");
  return step();
}

std::optional<std::string> StepTrace::write(bool at_end) {
  if (profile_ == nullptr || (made_ < kLeftOut + options_.profile_steps && !at_end))
    return std::nullopt;
  const std::string file = std::exchange(options_.profile, {});
  write_chrome_trace(file, *profile_);
  profile_.reset();
  return fmt::format("trace of {} steps: {} (ui.perfetto.dev and chrome://tracing open it)",
                     made_ - kLeftOut, file);
}

}  // namespace tapegrad::run
