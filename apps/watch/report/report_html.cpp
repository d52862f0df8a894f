#include "tapegrad/apps/watch/report/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/apps/chart/svg_chart.h"
#include "tapegrad/apps/watch/report/layer_map.h"
#include "tapegrad/apps/watch/report/model_page.h"
#include "tapegrad/apps/watch/report/report_tables.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/text/internal/markup.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::embedded {
std::string_view report_style();
}

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;
using Points = std::vector<std::pair<double, double>>;

constexpr std::size_t kMostShownSamples = 8, kMostTitles = 4;
constexpr int kSmallWidth = 460;  // of a chart beside others

Points points_of(const History& history, const std::string& name) {
  Points points;
  const auto series = history.series().find(name);
  if (series == history.series().end()) return points;
  for (std::size_t i = 0; i < series->second.size(); ++i) {
    const History::Point& point = series->second[i];
    points.emplace_back(static_cast<double>(point.iteration), point.value);
  }
  return points;
}

// The mean of each point and those around it, which shows where a noisy loss goes.
Points smoothed(const Points& points) {
  const std::size_t reach = points.size() / 60;
  Points result;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t begin = i - std::min(i, reach), end = std::min(i + reach + 1, points.size());
    double sum = 0;  // anew for each: a spike would leave its rounding in a running sum
    for (std::size_t k = begin; k < end; ++k) sum += points[k].second;
    result.emplace_back(points[i].first, sum / static_cast<double>(end - begin));
  }
  return result;
}

// "12,345", or as few digits as say it for a number that no file of ours has.
std::string whole(double number) {
  return std::abs(number) < 1e15 ? grouped(std::llround(number)) : fmt::format("{:.3g}", number);
}

// A legend names the curves below the chart.
std::string figure(const charts::Chart& chart, const std::string& caption,
                   bool with_legend = true) {
  const std::string svg = charts::svg_of(chart);
  if (svg.empty()) return "";
  std::string legend;
  for (const charts::Series& curve : chart.series) {
    if (!with_legend || curve.points.empty()) continue;
    legend += fmt::format("<li>{}{}</li>\n", charts::curve_key(curve.colour, curve.faint),
                          escaped_markup(curve.name));
  }
  if (!legend.empty()) legend = "<ul class=\"legend\">\n" + legend + "</ul>\n";
  return fmt::format("<figure><figcaption>{}</figcaption>\n{}{}</figure>\n",
                     escaped_markup(caption), svg, legend);
}

// A chart of one number of metrics.jsonl.
std::string figure_of(const Runs& runs, const std::string& name, const std::string& caption,
                      bool log_y = false) {
  charts::Chart chart{
      .title = caption, .series = {}, .log_y = log_y, .width = kSmallWidth, .height = 180};
  for (const RunFiles* run : runs) {
    const int colour = static_cast<int>(chart.series.size());
    chart.series.push_back({name_of_run(*run), points_of(run->history(), name), colour});
  }
  return figure(chart, caption, false);
}

// Each run has a colour, faint for its training loss, which is smoothed. One run alone has two.
std::string loss_figure(const Runs& runs) {
  charts::Chart chart{.title = "loss by step", .series = {}, .log_y = true, .height = 320};
  const bool alone = runs.size() == 1;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string prefix = run_prefix(runs, *runs[i]);
    const auto add = [&](const char* name, const Points& points, int colour, bool faint) {
      chart.series.push_back({prefix + name, points, colour, faint});
    };
    const int colour = static_cast<int>(i);
    add("train loss", smoothed(points_of(runs[i]->history(), "loss")), colour, !alone);
    add("validation loss", points_of(runs[i]->history(), "val_loss"), alone ? 1 : colour, false);
  }
  return figure(chart,
                alone ? "Loss by step (logarithmic)"
                      : "Loss by step (logarithmic): validation, and training faint",
                alone);
}

std::string layers(const Runs& runs) {
  std::string text;
  for (const RunFiles* run : runs) {
    if (run->history().layers().size() == 0) continue;
    const std::string prefix = run_prefix(runs, *run);
    text += layer_map(run->history(), 0, prefix + "mean |gradient| of layers");
    text += layer_map(run->history(), 2, prefix + "mean |update| of layers");
  }
  return part(runs, "Layers", text);
}

std::string result(const std::string& value, const std::string& name) {
  return fmt::format("<li><b>{}</b><span>{}</span></li>\n", escaped_markup(value),
                     escaped_markup(name));
}

std::string results(const RunFiles& run) {
  const History& history = run.history();
  std::string text;
  const auto add_last = [&](const std::string& series, const std::string& name) {
    const Points points = points_of(history, series);
    if (!points.empty()) text += result(loss_text(points.back().second), name);
  };
  add_last("final_val_loss", "final validation loss");
  if (const auto& best = history.best()) {
    text += result(loss_text(best->val_loss),
                   "lowest validation loss, at step " + grouped(best->iteration));
    if (best->train_loss) text += result(loss_text(*best->train_loss), "training loss there");
  }
  add_last("loss", "last training loss");
  add_last("bits_per_byte", "bits per byte");
  std::vector<double> rates;
  for (const auto& [step, rate] : points_of(history, "tokens_per_second")) rates.push_back(rate);
  if (!rates.empty()) text += result(whole(median(rates)), "tokens per second (median)");
  if (history.last_iteration() >= 0) {
    const std::string of = run.max_iters() ? " of " + grouped(*run.max_iters()) : "";
    text += result(grouped(history.last_iteration()) + of, "steps");
  }
  return text.empty() ? "" : "<ul class=\"results\">\n" + text + "</ul>\n";
}

std::string samples(const Runs& runs) {
  std::string text;
  for (const RunFiles* run : runs) {
    const auto& list = run->history().samples();
    const std::size_t shown = std::min(list.size(), kMostShownSamples);
    for (std::size_t k = 0; k < shown; ++k) {  // the first, the last, and some between them
      const auto& sample = list[shown == 1 ? list.size() - 1 : k * (list.size() - 1) / (shown - 1)];
      text += fmt::format("<h3>{}step {}</h3>\n", escaped_markup(run_prefix(runs, *run)),
                          grouped(sample.iteration));
      if (!sample.wanted.empty()) {
        text += fmt::format(
            "<p>Question</p>\n<pre>{}</pre>\n<p>Wanted answer</p>\n<pre>{}</pre>\n"
            "<p>The model's answer</p>\n",
            escaped_markup(sample.prompt), escaped_markup(sample.wanted));
      }
      text += fmt::format("<pre>{}</pre>\n", escaped_markup(sample.text));
    }
  }
  return part(runs, "Samples", text);
}

std::string head(const Runs& runs) {
  std::string title;
  for (const RunFiles* run : runs) title += (title.empty() ? "" : ", ") + name_of_run(*run);
  if (runs.size() > kMostTitles) title = fmt::format("{} runs", runs.size());
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
      escaped_markup(title), embedded::report_style());
}

// How the run ended, and why. In its own folder, nothing is said of one that is done.
std::string state_note(const RunFiles& run, bool in_folder) {
  std::string state =
      run.state() == RunState::training ? "still in training" : std::string(name_of(run.state()));
  const std::string reason = run.reason();
  if (in_folder && run.state() == RunState::ended && reason.empty()) return "";
  if (!reason.empty()) state += ": " + reason;
  return fmt::format("<p class=\"note\">{}</p>\n", escaped_markup(state));
}

std::string page_link(const RunFiles& run) {
  const auto page = model_page_of(run.folder());
  if (!page) return "";
  return fmt::format("<p><a href=\"{}\">The model in a page</a>{}</p>\n",
                     escaped_markup(page->link),
                     page->is_older ? ", with weights of earlier steps" : "");
}

// `in_folder`: the report is that of one run, and will lie in its folder.
std::string report_text(const Runs& runs, bool in_folder) {
  std::string text = head(runs);
  if (runs.size() == 1) {
    text += state_note(*runs.front(), in_folder) + results(*runs.front());
    if (in_folder) text += page_link(*runs.front());
  } else {
    text += results_table(runs);
  }
  text += heading("Curves") + "<div class=\"charts\">\n" + loss_figure(runs);
  text += figure_of(runs, "val_reward_margin", "Reward margin of the validation pairs");
  text +=
      figure_of(runs, "val_reward_accuracy", "Share of validation pairs whose margin is above 0");
  text += figure_of(runs, "lr", "Learning rate");
  text += figure_of(runs, "norm", "Norm of the gradient (logarithmic)", true);
  text += figure_of(runs, "tokens_per_second", "Tokens per second");
  text += "</div>\n";
  text += layers(runs) + samples(runs) + sessions(runs) + options(runs) + sizes(runs);
  return text +
         "</main>\n<footer>Made by tapegrad. This file needs no "
         "network.</footer>\n</body>\n</html>\n";
}

}  // namespace

std::string report_of(const Runs& runs) { return report_text(runs, false); }

std::string loss_page(const fs::path& folder) {
  RunFiles run(folder);
  run.read_all();
  return fmt::format(
      "<!doctype html>\n<meta charset=\"utf-8\">\n<style>\n{}body {{ padding: 0; }}\n</style>\n{}",
      embedded::report_style(), loss_figure({&run}));
}

void write_report(const fs::path& folder) {
  RunFiles run(folder);
  run.end_training();  // this program holds the lock
  run.read_all();
  write_file_atomically(folder / run::kReportFile, report_text({&run}, true));
}

bool link_model_page(const fs::path& folder) {
  const fs::path report = folder / run::kReportFile;
  if (!is_run_folder(folder) || !path_exists(report) || !model_page_of(folder)) return false;
  RunFiles run(folder);
  run.read_all();
  if (run.state() == RunState::training) return false;  // its end writes the report
  write_file_atomically(report, report_text({&run}, true));
  return true;
}

}  // namespace tapegrad::watch
