#include "tapegrad/apps/watch/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tapegrad/base/text/markup.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/folder/session.h"

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

// JSON's texts without quotes, other values as JSON has them.
std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

// A name of a file or folder, which may be any bytes.
std::string name_text(std::string name) {
  while (const auto invalid = find_invalid_utf8(name)) name[*invalid] = '?';
  return name;
}

// A table with a column for each run; rows are those that `shows` wants.
template <class Shows>
std::string option_table(const Runs& runs, const std::string& section, const Shows& shows) {
  std::vector<std::string> names;
  for (const RunFiles* run : runs) {
    const auto found = run->options().find(section);
    if (found == run->options().end()) continue;
    for (const auto& [name, value] : found->items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string rows;
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const RunFiles* run : runs) {
      const auto found = run->options().find(section);
      const bool has = found != run->options().end() && found->contains(name);
      values.push_back(has ? text_of((*found)[name]) : "");
    }
    if (!shows(values)) continue;
    rows += "<tr><th scope=\"row\">" + escaped_markup(name) + "</th>";
    for (const std::string& value : values) rows += "<td>" + escaped_markup(value) + "</td>";
    rows += "</tr>\n";
  }
  return rows;
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
  return "<div class=\"scroll\" tabindex=\"0\"><table>\n" + head + rows + "</table></div>\n";
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

std::string name_of_run(const RunFiles& run) { return name_text(run.name()); }

std::string run_prefix(const Runs& runs, const RunFiles& run) {
  return runs.size() == 1 ? "" : name_of_run(run) + ": ";
}

std::string differences(const Runs& runs) {
  if (runs.size() == 1) return "";
  std::string rows;
  for (const std::string& section : sections_of(runs)) {
    rows += option_table(runs, section, [](const std::vector<std::string>& values) {
      return std::any_of(values.begin(), values.end(),
                         [&](const std::string& value) { return value != values.front(); });
    });
  }
  return heading("Options that differ") + (rows.empty() ? "<p>None.</p>\n" : table(runs, rows));
}

std::string options(const Runs& runs) {
  std::string text;
  for (const std::string& section : sections_of(runs)) {
    const std::string rows =
        option_table(runs, section, [](const std::vector<std::string>&) { return true; });
    if (!rows.empty()) text += "<h3>" + escaped_markup(section) + "</h3>\n" + table(runs, rows);
  }
  return text.empty() ? "" : heading("Options") + text;
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
  return rows.empty() ? "" : heading("Files") + "<table>\n" + rows + "</table>\n";
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
  return text.empty() ? "" : heading("Machine and command line") + text;
}

}  // namespace tapegrad::watch
