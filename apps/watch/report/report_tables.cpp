#include "tapegrad/apps/watch/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tapegrad/apps/chart/svg_chart.h"
#include "tapegrad/base/text/internal/markup.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/folder/internal/session.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

// A name of a file or folder, which may be any bytes.
std::string name_text(std::string name) {
  while (const auto invalid = find_invalid_utf8(name)) name[*invalid] = '?';
  return name;
}

// A table with a column for each run.
std::string rows_of(const std::vector<OptionRow>& options) {
  std::string rows;
  for (const OptionRow& option : options) {
    rows += "<tr><th scope=\"row\">" + escaped_markup(option.name) + "</th>";
    for (const auto& value : option.values)
      rows += "<td>" + escaped_markup(value.value_or("")) + "</td>";
    rows += "</tr>\n";
  }
  return rows;
}

std::string row_of(const std::vector<std::string>& cells, const char* cell) {
  std::string row = "<tr>";
  for (const std::string& text : cells)
    row +=
        fmt::format("<{0}>{1}</{2}>", cell, escaped_markup(text), std::string(cell).substr(0, 2));
  return row + "</tr>\n";
}

std::string scrolled(const std::string& rows, const char* kind = "scroll") {
  return fmt::format("<div class=\"{}\" tabindex=\"0\"><table>\n", kind) + rows +
         "</table></div>\n";
}

std::string table(const Runs& runs, const std::string& rows) {
  std::string head;
  if (runs.size() > 1) {
    head = "<tr><td></td>";
    for (const RunFiles* run : runs) {
      head += "<th scope=\"col\">" + escaped_markup(name_of_run(*run)) + "</th>";
    }
    head += "</tr>\n";
  }
  return scrolled(head + rows);
}

std::set<std::string> sections_of(const Runs& runs) {
  std::set<std::string> sections;
  for (const RunFiles* run : runs) {
    for (const auto& [name, section] : run->options().items()) sections.insert(name);
  }
  return sections;
}

}  // namespace

std::string heading(const std::string& text) { return "<h2>" + escaped_markup(text) + "</h2>\n"; }

std::string part(const Runs& runs, const std::string& name, const std::string& text) {
  if (text.empty() || runs.size() == 1) return text.empty() ? "" : heading(name) + text;
  return "<details><summary>" + escaped_markup(name) + "</summary>\n" + text + "</details>\n";
}

std::string name_of_run(const RunFiles& run) { return name_text(run.name()); }

std::string run_prefix(const Runs& runs, const RunFiles& run) {
  return runs.size() == 1 ? "" : name_of_run(run) + ": ";
}

std::string results_table(const Runs& runs) {
  const std::vector<OptionRow> options = differing_options(runs);
  std::vector<std::string> head = {"best val loss", "at step", "train loss there", "steps",
                                   "state"};
  for (const OptionRow& option : options) head.push_back(option.name);
  std::string rows = "<tr><th scope=\"col\">run</th>" + row_of(head, "th scope=\"col\"").substr(4);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunFiles& run = *runs[i];
    const auto& best = run.history().best();
    const std::string reason = run.reason(), state(name_of(run.state()));
    std::vector<std::string> cells = {
        best ? loss_text(best->val_loss) : "", best ? grouped(best->iteration) : "",
        best && best->train_loss ? loss_text(*best->train_loss) : "",
        grouped(std::max<std::int64_t>(run.history().last_iteration(), 0)),
        reason.empty() ? state : state + ": " + reason};
    for (const OptionRow& option : options) cells.push_back(option.values[i].value_or("–"));
    rows += fmt::format("<tr><th scope=\"row\">{}{}</th>", charts::curve_key(static_cast<int>(i)),
                        escaped_markup(name_of_run(run))) +
            row_of(cells, "td").substr(4);
  }
  std::string text = heading("Runs") + scrolled(rows, "scroll short");
  if (std::none_of(runs.begin(), runs.end(), [](auto* run) { return run->history().best(); }))
    return text;
  const Experiments experiments = experiments_of(runs);
  if (!experiments.repeated) return text;
  text += heading("Mean ± standard deviation over seeds");
  rows = row_of(experiments.head, "th scope=\"col\"");
  for (const auto& row : experiments.rows) rows += row_of(row, "td");
  return text + scrolled(rows, "scroll short");
}

std::string options(const Runs& runs) {
  std::string text;
  for (const std::string& section : sections_of(runs)) {
    const std::string rows = rows_of(option_rows(runs, section));
    if (!rows.empty()) text += "<h3>" + escaped_markup(section) + "</h3>\n" + table(runs, rows);
  }
  return part(runs, "Options", text);
}

std::string sizes(const Runs& runs) {
  std::string rows;
  for (const RunFiles* run : runs) {
    std::vector<fs::path> files;
    std::error_code ended, ignored;
    for (fs::directory_iterator at(run->folder(), ended), end;
         !ended && at != end && files.size() < 100; at.increment(ended)) {
      if (at->is_regular_file(ignored)) files.push_back(at->path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      const auto bytes = fs::file_size(file, ignored);
      if (ignored || file.filename() == run::kReportFile) continue;
      rows +=
          fmt::format("<tr><th scope=\"row\">{}{}</th><td class=\"number\">{} bytes</td></tr>\n",
                      escaped_markup(run_prefix(runs, *run)),
                      escaped_markup(name_text(file.filename().string())),
                      grouped(static_cast<std::int64_t>(bytes)));
    }
  }
  return part(runs, "Files", rows.empty() ? "" : "<table>\n" + rows + "</table>\n");
}

std::string sessions(const Runs& runs) {
  std::string text;
  for (const RunFiles* run : runs) {
    const Json all = run->sessions();
    for (const Json& session : all) {
      std::string rows;
      const bool goes_on = run->state() == RunState::training && &session == &all.back();
      if (was_killed(session) && !goes_on) {
        rows += "<tr><th scope=\"row\">ended</th><td>killed, or the power failed</td></tr>\n";
      }
      for (const auto& [name, value] : session.items()) {
        if (name == "command" || name == run::kTellsEnd) continue;
        std::string words = name;
        std::replace(words.begin(), words.end(), '_', ' ');
        rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
                            escaped_markup(words), escaped_markup(text_of(value)));
      }
      if (runs.size() > 1) text += "<h3>" + escaped_markup(name_of_run(*run)) + "</h3>\n";
      if (session.contains("command")) {
        text += "<pre>" + escaped_markup(text_of(session["command"])) + "</pre>\n";
      }
      text += "<table>\n" + rows + "</table>\n";
    }
  }
  return part(runs, "Machine and command line", text);
}

}  // namespace tapegrad::watch
