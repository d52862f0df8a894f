#include <fmt/ranges.h>

#include <cstdio>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/events/metrics_csv.h"
#include "tapegrad/apps/events/tables.h"
#include "tapegrad/apps/watch/report/experiments.h"
#include "tapegrad/apps/watch/run_list.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out, format = "csv";
  bool csv = true, layers = false, samples = false;
  bool table = false;  // of experiments, in place of one run's steps
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(call.name,
                       "Writes a run's records for spreadsheets and other programs: a row "
                       "for each step. Of several runs, a row for all that differ in nothing but "
                       "the seed: mean ± standard deviation of their results.");
  cli.words(o.runs, "RUN",
            "a run folder, of a run that may be going on; several, or a folder of runs");
  cli.group("Output");
  cli.choice("format", o.format, {"text", "csv", "markdown"},
             "the table of several runs is text, one run's steps are csv");
  cli("csv", o.csv, "the same as --format csv: comma-separated values (RFC 4180)");
  cli("layers", o.layers, "layers.jsonl, which --layer-stats writes, in place of metrics.jsonl");
  cli("samples", o.samples, "samples have a column, too");
  cli("out", o.out, "the file that is written [stdout]", {.value = "FILE"});
  cli.alias("-o", "--out");
  cli.example("tapegrad metrics runs/notes-1 --csv > losses.csv", "all numbers of metrics.jsonl");
  cli.example("tapegrad metrics runs/notes-1 --layers --out layers.csv", "a row for each layer");
  cli.example("tapegrad metrics runs --format markdown", "a table of experiments, for a paper");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (o.runs.empty()) cli::usage_error("a RUN is needed: a run folder");
  if (!o.csv) cli::usage_error("--no-csv is no format: --format text and --format markdown are");
  if (o.layers && o.samples) cli::usage_error("--layers and --samples exclude each other");
  if (cli.given("--csv") && o.format != "csv") cli::usage_error("--csv is --format csv");
  const std::filesystem::path first = o.runs.front();
  for (const std::string& run : o.runs) check(is_folder(run), "{} is not a folder of a run", run);
  o.table = o.runs.size() > 1 || o.format != "csv" ||
            !(watch::is_run_folder(first) || path_exists(first / run::kMetricsFile));
  if (!o.table) return o;
  if (o.layers || o.samples) {
    cli::usage_error("--layers and --samples write the steps of one RUN, as csv");
  }
  if (!cli.given("--format") && !cli.given("--csv")) o.format = "text";
  return o;
}

void warn_of_broken(const events::MetricsLines& lines) {
  if (lines.broken() == 0) return;
  print_error(
      fmt::format("warning: {}: {} that cannot be read {} left out; the first "
                  "is line {}\n",
                  cli::printable(lines.path().string()), counted(lines.broken(), "line"),
                  lines.broken() == 1 ? "is" : "are", lines.first_broken()));
}

int write_experiments(const Options& o) {
  const watch::RunList list({}, {o.runs.begin(), o.runs.end()});
  check(!list.runs().empty(), "there is no run in {}", fmt::join(o.runs, ", "));
  watch::Runs runs;
  for (const auto& [id, run] : list.runs()) {
    run->read_all();
    runs.push_back(run.get());
  }
  const bool csv = o.format == "csv";
  const watch::Experiments table = watch::experiments_of(runs, csv);
  const std::string text = csv                      ? events::csv_table(table.head, table.rows)
                           : o.format == "markdown" ? events::markdown_table(table.head, table.rows)
                                                    : events::text_table(table.head, table.rows);
  if (o.out.empty()) {
    fmt::print("{}", text);
  } else {
    write_file_atomically(o.out, text);
  }
  for (const std::string& note : table.notes) {
    print_error(fmt::format("warning: {}\n", cli::printable(note)));
  }
  if (list.is_full()) {
    print_error(fmt::format("warning: only the newest {} runs are in the table\n", runs.size()));
  }
  return 0;
}

int export_metrics(const Options& o) {
  const std::filesystem::path folder = o.runs.front();
  const std::filesystem::path path = folder / (o.layers ? run::kLayersFile : run::kMetricsFile);
  check(!o.layers || path_exists(path), "{} is missing: --layer-stats N writes it", path.string());
  events::MetricsLines lines(path);
  const auto write_to = [&](const events::Write& write) {
    if (o.layers)
      events::write_layers_csv(lines, write);
    else
      events::write_metrics_csv(lines, o.samples, write);
  };
  if (o.out.empty()) {
    write_to([](std::string_view text) { fmt::print("{}", text); });
  } else {
    write_file_atomically(o.out, [&](FileWriter& file) {
      write_to([&](std::string_view text) { file.write(text); });
    });
  }
  warn_of_broken(lines);
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    if (!options) return 0;
    return options->table ? write_experiments(*options) : export_metrics(*options);
  });
}

const cli::Command kCommand("metrics", cli::CommandGroup::look,
                            "write numbers of runs for spreadsheets and papers", run);

}  // namespace
}  // namespace tapegrad
