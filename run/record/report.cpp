#include "tapegrad/run/record/report.h"

#include <algorithm>

#include "tapegrad/base/text/words.h"

namespace tapegrad::run {

namespace {

// A batch with a lower loss is learnt by heart.
constexpr double kLearnt = 0.1;

std::string clock_time(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// A name of metrics.jsonl as words.
std::string words_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

using Numbers = std::vector<std::pair<std::string, double>>;

std::string text_of(const Numbers& numbers) {
  std::string text;
  for (const auto& [name, value] : numbers) {
    text += fmt::format(", {} {:.4f}", words_of(name), value);
  }
  return text;
}

// The numbers of a step for metrics.jsonl. `rate`: tokens per second; 0 if there are none.
RunFolder::Metrics numbers_of(std::int64_t iteration, const Report::Step& step, double seconds,
                              double rate) {
  RunFolder::Metrics numbers = {{"iteration", iteration}, {"loss", step.loss}};
  numbers.insert(numbers.end(), step.metrics.begin(), step.metrics.end());
  numbers.emplace_back("lr", step.lr);
  numbers.emplace_back("norm", step.norm);
  numbers.emplace_back("ms", seconds * 1e3);
  if (rate > 0) numbers.emplace_back("tokens_per_second", rate);
  return numbers;
}

}  // namespace

Report::Report(RunFolder& folder, const OptimizerOptions& optimizer,
               const EvaluationOptions& evaluation, const RunHeader& about,
               const Progress& progress)
    : folder_(folder),
      about_(about),
      progress_(progress),
      all_(optimizer.max_iters),
      iter_lines_{evaluation.log_interval},
      decays_(optimizer.learning_rates().ends()),
      repeats_batch_(optimizer.overfit_batch),
      keeps_best_(keep_rule(evaluation.keep).best),
      terminal_(evaluation.strict_log) {
  if (evaluation.chart && terminal_.is_terminal()) chart_.emplace();
}

void Report::header(const std::vector<std::string>& lines, const std::vector<Change>& changes) {
  for (const std::string& text : lines) line(text);
  line(fmt::format("folder:  {}", folder_.path().string()));
  if (progress_.iteration > 0) line(fmt::format("resumed at step {}", progress_.iteration));
  if (const auto last = folder_.back_from()) {
    line(fmt::format(
        "went back from step {} to step {}, whose val loss {} is the lowest: the "
        "later steps are gone. The optimiser's state and the batches are those after "
        "step {}",
        *last, progress_.iteration, loss_text(progress_.best_val_loss.value_or(0)), *last));
  }
  for (const Change& c : changes) line(fmt::format("changed: {} {} → {}", c.name, c.before, c.now));
}

void Report::step(const Step& step) {
  const double taken = step.times.total();
  time_left_.add(taken, since_last_ ? since_last_->seconds() - taken : 0);
  since_last_.emplace();
  last_loss_ = step.loss;
  seconds_ += taken;
  tokens_ += step.tokens;
  ++steps_;
  if (step.skipped) {
    result(
        fmt::format("iter {}: skipped, with loss {} ({:.1f} standard deviations above the "
                    "last steps) and norm {:.2f} ({:.1f})",
                    progress_.iteration, loss_text(step.loss), step.loss_z, step.norm, step.norm_z),
        {{"skipped", true}, {"loss", step.loss}, {"norm", step.norm}});
  } else if (iter_lines_.due(progress_.iteration)) {
    print_step(step);
  }
  folder_.tell_step(numbers_of(progress_.iteration, step, taken,
                               taken > 0 ? static_cast<double>(step.tokens) / taken : 0));
  if (!step.layers.empty()) folder_.append_layers(progress_.iteration, step.layers);
  if (chart_) chart_->add(progress_.iteration, step.loss);
  if (terminal_.wants_progress()) draw_progress(step.loss);
}

void Report::print_step(const Step& step) {
  const double seconds = seconds_ / static_cast<double>(steps_);
  const double rate = static_cast<double>(tokens_) / static_cast<double>(steps_) / seconds;
  std::string text = fmt::format("iter {}: loss {}{}", progress_.iteration, loss_text(step.loss),
                                 text_of(step.metrics));
  text += fmt::format(", lr {:.1e}, norm {:.2f}, {:.2f} ms", step.lr, step.norm, seconds * 1e3);
  if (tokens_ > 0) text += fmt::format(", {:.0f} tok/s", rate);
  RunFolder::Metrics metrics =
      numbers_of(progress_.iteration, step, seconds, tokens_ > 0 ? rate : 0);
  if (const auto load = load_.next()) {
    metrics.emplace_back("cpu_percent", load->cpu);
    metrics.emplace_back("memory_percent", load->memory);
  }
  line(text);
  folder_.append_metrics(metrics);
  seconds_ = 0;
  steps_ = tokens_ = 0;
}

void Report::evaluation(const Losses& losses) {
  if (chart_) chart_->add_val(progress_.iteration, losses.val);
  std::string text = fmt::format("step {}: train loss {}, val loss {}", progress_.iteration,
                                 loss_text(losses.train), loss_text(losses.val));
  RunFolder::Metrics numbers = {{"train_loss", losses.train}, {"val_loss", losses.val}};
  for (const auto& [name, share] : losses.val_shares) {
    text += fmt::format(", {} {:.2f} %", words_of(name), 100 * share);
    numbers.emplace_back(name, share);
  }
  numbers.insert(numbers.end(), losses.val_numbers.begin(), losses.val_numbers.end());
  result(text + text_of(losses.val_numbers), numbers);
}

void Report::result(const std::string& text, const RunFolder::Metrics& numbers) {
  line(text);
  record(numbers);
}

void Report::record(const RunFolder::Metrics& numbers) {
  RunFolder::Metrics metrics = {{"iteration", progress_.iteration}};
  metrics.insert(metrics.end(), numbers.begin(), numbers.end());
  folder_.append_metrics(metrics);
}

// As wide as the terminal is now, and as high as it has room, but small.
void Report::draw_chart() {
  constexpr int most_rows = 10, most_columns = 100, around = 2;
  const Terminal::Size size = Terminal::size();
  terminal_.set_chart(chart_->draw(std::min(size.columns - 1, most_columns),
                                   std::min(size.rows - around, most_rows)));
}

void Report::leave_chart() {
  if (chart_) draw_chart();
  terminal_.leave_chart();
}

void Report::next_steps() {
  leave_chart();
  const bool best_is_earlier =
      progress_.best_val_loss && progress_.best_iteration < progress_.iteration;
  const bool best_is_kept = best_is_earlier && keeps_best_;
  if (best_is_earlier) {
    line(fmt::format("the lowest val loss was {}, at step {}{}",
                     loss_text(*progress_.best_val_loss), progress_.best_iteration,
                     best_is_kept ? ", whose weights are kept: --checkpoint best" : ""));
  }
  const bool commands = !about_.use_command.empty() || !about_.resume_command.empty();
  if (progress_.skipped > 0) {
    line(fmt::format("{} of {} steps were skipped as outliers", grouped(progress_.skipped),
                     grouped(progress_.iteration)));
  }
  if (repeats_batch_ && last_loss_) {
    line(fmt::format(
        "--overfit-batch: the loss of the batch is {} at last{}", loss_text(*last_loss_),
        *last_loss_ < kLearnt ? ""
                              : ". A model without a fault, a rate that is not "
                                "too small and enough steps would bring it to about 0"));
  }
  line(fmt::format("\nThe run is in {}, after {} of training.{}", folder_.path().string(),
                   clock_time(progress_.seconds), commands ? " What to try next:" : ""));
  if (!about_.use_command.empty()) line("  " + about_.use_command);
  if (!about_.use_command.empty() && best_is_kept) {
    line("  " + about_.use_command + " --checkpoint best");
  }
  if (!about_.resume_command.empty()) {
    line(fmt::format("  {} --max-iters {}{}", about_.resume_command,
                     2 * std::max<std::int64_t>(progress_.iteration, 1),
                     decays_ ? " --schedule-restart" : ""));
  }
  if (!about_.last_note.empty()) line(about_.last_note);
}

void Report::stopped() {
  leave_chart();
  line(fmt::format("stopped at step {}, which is saved.", progress_.iteration) +
       (about_.resume_command.empty() ? "" : " To go on:\n  " + about_.resume_command));
}

void Report::draw_progress(double loss) {
  const std::int64_t done = progress_.iteration + 1;
  constexpr std::int64_t width = 24;
  if (chart_) draw_chart();
  const auto filled = static_cast<std::size_t>(width * done / all_);
  // A narrow terminal cuts off what matters least.
  terminal_.progress(fmt::format("{:>{}}/{} {:3}%  {} left  loss {}  [{}{}]", done,
                                 fmt::formatted_size("{}", all_), all_, 100 * done / all_,
                                 clock_time(time_left_.seconds(all_ - done)), loss_text(loss),
                                 std::string(filled, '#'), std::string(width - filled, '.')));
}

}  // namespace tapegrad::run
