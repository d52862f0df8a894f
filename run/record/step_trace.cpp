#include "tapegrad/run/record/internal/step_trace.h"

#include <exception>

#include "tapegrad/run/record/chrome_trace.h"

namespace tapegrad::run {

StepTrace::StepTrace(const TraceOptions& options,
                     std::span<const std::pair<std::string, Tensor>> names)
    : options_(options), names_(names) {}

void StepTrace::begin_step(std::optional<ProfiledPart>& part) {
  if (options_.profile.empty()) return;
  if (made_ == kLeftOut) {
    profile_ = std::make_unique<Profile>(ProfileOptions{.timeline = true, .names = names_});
  }
  ++made_;
  part.emplace("step");
}

std::optional<std::string> StepTrace::write(bool at_end) {
  const bool complete = made_ >= kLeftOut + options_.profile_steps;
  if (options_.profile.empty() || (!complete && !at_end)) return std::nullopt;
  const std::string file = std::exchange(options_.profile, {});
  if (profile_ == nullptr) {
    return fmt::format("note: no trace: this call made {} steps, and the first {} are left out",
                       made_, kLeftOut);
  }
  const std::unique_ptr<Profile> profile = std::move(profile_);
  try {
    const std::int64_t left_out = write_chrome_trace(file, *profile);
    return fmt::format("trace of {} steps: {} (ui.perfetto.dev and chrome://tracing open it){}",
                       made_ - kLeftOut, file,
                       left_out == 0 ? "" : fmt::format("; it lacks {} ops at its end", left_out));
  } catch (const std::exception& error) {
    return fmt::format("note: no trace: {}", error.what());
  }
}

}  // namespace tapegrad::run
