#include "tapegrad/run/record/header_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/base/text/words.h"
#include "tapegrad/run/record/text_chart.h"

namespace tapegrad::run {
namespace {

bool schedule_has_ended(const OptimizerOptions& o, const Progress& progress) {
  return o.learning_rates().ends() && progress.iteration > 0 && progress.iteration >= o.decay_end();
}

// "cosine", "step (× 0.1 every 500 steps)".
std::string describe_kind(const optim::Schedule& s) {
  using Kind = optim::Schedule::Kind;
  std::string text(name_of_enum(s.kind));
  if (s.kind == Kind::step) {
    text += fmt::format(" (× {:.6g} every {})", s.gamma, counted(s.step_size, "step"));
  } else if (s.kind == Kind::multistep) {
    text += fmt::format(" (× {:.6g} at {})", s.gamma, fmt::join(s.milestones, ", "));
  } else if (s.kind == Kind::exponential) {
    text += fmt::format(" (× {:.6g} at each step)", s.gamma);
  } else if (s.kind == Kind::cosine_with_restarts) {
    text += fmt::format(" (of {}{})", counted(s.step_size, "step"),
                        s.t_mult > 1 ? fmt::format(", then {} times as many", s.t_mult) : "");
  }
  return text;
}

// "0.001, cosine, 0.0001 at the end", and what becomes of it when a run goes on.
std::string describe_schedule(const OptimizerOptions& o, const Progress& progress) {
  const optim::Schedule rates = o.learning_rates();
  const double end = rates(o.max_iters);
  if (schedule_has_ended(o, progress)) {
    return fmt::format(
        "{:.3g} from now on: its schedule has ended at step {}, and "
        "--schedule-restart begins it anew",
        end, grouped(o.decay_end()));
  }
  std::string text =
      fmt::format("{:.3g}, {}, {:.3g} at the end", o.learning_rate, describe_kind(rates), end);
  if (o.schedule_begin > 0) text += fmt::format(", begun at step {}", grouped(o.schedule_begin));
  if (rates.ends() && o.lr_decay_iters && *o.lr_decay_iters < o.max_iters) {
    text += fmt::format(", which is reached at step {}", grouped(*o.lr_decay_iters));
  }
  return text;
}

// "2,000 of 768 tokens, about 2 minutes", and how these came about.
HeaderLine steps_line(const RunHeader& about, const OptimizerOptions& o, const Progress& progress) {
  HeaderLine line{"steps", grouped(o.max_iters)};
  if (!about.step.empty()) line.text += " of " + about.step;
  if (!about.minutes.empty()) line.text += ", about " + about.minutes;
  const std::string rate = "learning rate " + describe_schedule(o, progress);
  if (schedule_has_ended(o, progress)) {  // nobody should have to ask for that
    line.text += ", " + rate;
  } else {
    line.details = rate;
  }
  return line;
}

// The precision, and the library that multiplies: without `verbose`, only a warning about it.
void add_compute(std::vector<HeaderLine>& lines, const RunHeader& about, const OptimizerOptions& o,
                 bool verbose) {
  if (about.product) lines.push_back({"dtype", describe_precision(o.precision(), *about.product)});
  const std::vector<std::string> compute = describe_compute(about.product);
  if (verbose) lines.push_back({"compute", compute.front()});
  if (compute.size() > 1) lines.push_back({"warning", compute.back()});
}

}  // namespace

std::vector<std::string> schedule_lines(const OptimizerOptions& o) {
  constexpr int width = 64, height = 6;
  constexpr std::int64_t most_points = 512;  // several for each dot
  const optim::Schedule rates = o.learning_rates();
  std::vector<ChartPoint> points;
  const std::int64_t last = o.max_iters - 1, n = std::min(last, most_points);
  for (std::int64_t k = 0; k <= n; ++k) {
    const std::int64_t step = n == 0 ? 0 : std::llround(static_cast<double>(last) * k / n);
    points.push_back({static_cast<double>(step), rates(step)});
  }
  std::vector<std::string> lines = {describe_schedule(o, {})};
  for (std::string& line : text_chart(points, {}, "learning rate", width, height))
    lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> header_lines(const RunHeader& about, const OptimizerOptions& o,
                                      const Progress& progress,
                                      const std::vector<std::string>& groups, bool verbose) {
  std::vector<HeaderLine> lines = about.lines;
  lines.push_back(steps_line(about, o, progress));
  if (!about.minutes_reason.empty()) lines.push_back({"", "", about.minutes_reason});
  if (o.ema) {
    lines.push_back(
        {"ema", fmt::format("averages of about the last {} are evaluated and saved, not "
                            "the weights themselves",
                            counted(o.averaged_steps(), "step"))});
  }
  if (o.swa_start) {
    lines.push_back(
        {"swa", fmt::format("from update {} on, the mean of the weights is evaluated and "
                            "saved, not the weights themselves",
                            grouped(*o.swa_start))});
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    lines.push_back({i == 0 ? "groups" : "", groups[i]});
  }
  if (about.memory) {
    lines.push_back(
        {"memory", verbose ? describe(*about.memory) : "about " + size_text(about.memory->total)});
  }
  add_compute(lines, about, o, verbose);
  std::vector<std::string> texts;
  for (const HeaderLine& line : lines) {
    const std::string name = line.name.empty() ? "" : line.name + ":";
    if (!line.text.empty()) texts.push_back(fmt::format("{:<8} {}", name, line.text));
    if (verbose && !line.details.empty())
      texts.push_back(fmt::format("{:<8} {}", "", line.details));
  }
  return texts;
}

}  // namespace tapegrad::run
