#include "tapegrad/run/report.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::apps {
namespace {

constexpr auto redraw_interval = std::chrono::milliseconds(100);

// A dumb terminal cannot clear a line.
bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

size_t terminal_width() {
  struct winsize size {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string clock_time(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// How a program of this build is called from here: by its path from the working folder, unless it
// lies in one of PATH's.
std::string program(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const char* path = std::getenv("PATH");
  const std::string folders = ":" + std::string(path == nullptr ? "" : path) + ":";
  if (error || folders.find(":" + folder.string() + ":") != std::string::npos) return name;
  const std::string near = fs::proximate(folder / name, error).string();
  if (error) return quoted((folder / name).string());
  return quoted(near.find('/') == std::string::npos ? "./" + near : near);
}

// A run whose output nobody can read any more (the pipe or the terminal was closed) stops, and so
// is saved, as for Ctrl-C.
void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    interrupt();
  }
}

}  // namespace

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/._-+:,@").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

Report::Report(RunFolder& folder, const RunOptions& options, const Progress& progress,
               Programs programs)
    : folder_(folder),
      options_(options),
      progress_(progress),
      programs_(std::move(programs)),
      terminal_(is_terminal()) {}

void Report::line(const std::string& text) {
  clear_progress();
  print(text + "\n");
}

void Report::header(const About& about) {
  const RunOptions& o = options_;
  line("model:   " + about.model);
  line("text:    " + about.text);
  line(fmt::format("steps:   {} of {}, learning rate {:.3g}, {}, {:.3g} at the end",
                   grouped(o.max_iters), about.step, o.learning_rate, o.schedule,
                   o.lr_schedule()(o.max_iters)));
  line("memory:  " + describe(about.memory));
  if (o.precision() == Precision::bf16) line("dtype:   " + describe_bf16(about.product));
  line(fmt::format("compute: {}; {} thread{}", gemm_description(), num_threads(),
                   num_threads() == 1 ? "" : "s"));
  line(fmt::format("folder:  {}", folder_.path().string()));
  if (progress_.iteration > 0) line(fmt::format("resumed at step {}", progress_.iteration));
}

double Report::step(const Step& step) {
  const double taken = std::chrono::duration<double>(Clock::now() - step.begin).count();
  if (first_iteration_ < 0) {
    first_iteration_ = progress_.iteration;
    begin_ = step.begin;
  }
  seconds_ += taken;
  tokens_ += step.tokens;
  ++steps_;
  if (progress_.iteration % options_.log_interval == 0) {
    const double seconds = seconds_ / static_cast<double>(steps_);
    const double tokens = static_cast<double>(tokens_) / static_cast<double>(steps_);
    line(fmt::format("iter {}: loss {:.4f}, lr {:.1e}, norm {:.2f}, {:.2f} ms, {:.0f} tok/s",
                     progress_.iteration, step.loss, step.lr, step.norm, seconds * 1e3,
                     tokens / seconds));
    folder_.append_metrics({{"iteration", progress_.iteration},
                            {"loss", step.loss},
                            {"lr", step.lr},
                            {"norm", step.norm},
                            {"ms", seconds * 1e3},
                            {"tokens_per_second", tokens / seconds}});
    seconds_ = 0;
    steps_ = tokens_ = 0;
  }
  draw_progress(step.loss);
  return taken;
}

void Report::evaluation(const Losses& losses) {
  std::string text = fmt::format("step {}: train loss {:.4f}, val loss {:.4f}", progress_.iteration,
                                 losses.train, losses.val);
  Json numbers = {{"train_loss", losses.train}, {"val_loss", losses.val}};
  for (const auto& [name, share] : losses.val_shares) {
    std::string words = name;
    std::replace(words.begin(), words.end(), '_', ' ');
    text += fmt::format(", {} {:.2f} %", words, 100 * share);
    numbers[name] = share;
  }
  result(text, numbers);
}

void Report::result(const std::string& text, const Json& numbers) {
  line(text);
  Json metrics = {{"iteration", progress_.iteration}};
  metrics.update(numbers);
  folder_.append_metrics(metrics);
}

void Report::next_steps() {
  const std::string path = quoted(folder_.path().string());
  if (progress_.best_val_loss && progress_.best_iteration < progress_.iteration) {
    line(fmt::format("the lowest val loss was {:.4f}, at step {}", *progress_.best_val_loss,
                     progress_.best_iteration));
  }
  line(fmt::format("\nThe run is in {}, after {} of training. What to try next:",
                   folder_.path().string(), clock_time(progress_.seconds)));
  line(fmt::format("  {} --model {} {}", program(programs_.use), path, programs_.use_arguments));
  line(fmt::format("  {} --init-from resume --out-dir {} --max-iters {}", program(programs_.train),
                   path, 2 * std::max<int64_t>(progress_.iteration, 1)));
}

void Report::stopped() {
  line(
      fmt::format("stopped at step {}, which is saved. To go on:\n"
                  "  {} --init-from resume --out-dir {}",
                  progress_.iteration, program(programs_.train), quoted(folder_.path().string())));
}

void Report::draw_progress(double loss) {
  const auto now = Clock::now();
  if (!terminal_ || now - last_drawn_ < redraw_interval) return;
  last_drawn_ = now;
  const int64_t done = progress_.iteration + 1, all = options_.max_iters;
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const double left =
      elapsed / static_cast<double>(done - first_iteration_) * static_cast<double>(all - done);
  constexpr int64_t width = 24;
  const auto filled = static_cast<size_t>(width * done / all);
  // A narrow terminal cuts off what matters least.
  std::string text =
      fmt::format("{:>{}}/{} {:3}%  {} left  loss {:.4f}  [{}{}]", done,
                  fmt::formatted_size("{}", all), all, 100 * done / all, clock_time(left), loss,
                  std::string(filled, '#'), std::string(width - filled, '.'));
  if (text.size() >= terminal_width()) text.resize(terminal_width() - 1);
  show_below(text);
}

void Report::working(const std::string& what) {
  if (terminal_) show_below(what + " …");
}

void Report::show_below(const std::string& text) {
  print("\r\x1b[K" + text);
  drawn_ = true;
}

void Report::clear_progress() {
  if (drawn_) print("\r\x1b[K");
  drawn_ = false;
}

}  // namespace tapegrad::apps
