#include <cstdio>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/events/metrics_csv.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad {
namespace {

struct Options {
  std::string run, out;
  bool csv = true, layers = false, samples = false;
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(call.name,
                       "Writes what a run has recorded for spreadsheets and other programs: a row "
                       "for each step.");
  std::vector<std::string> words;
  cli.words(words, "RUN", "a run folder, of a run that may be going on");
  cli.group("Output");
  cli("csv", o.csv, "comma-separated values (RFC 4180), which is the only format");
  cli("layers", o.layers, "layers.jsonl, which --layer-stats writes, in place of metrics.jsonl");
  cli("samples", o.samples, "samples have a column, too");
  cli("out", o.out, "the file that is written [stdout]", {.value = "FILE"});
  cli.alias("-o", "--out");
  cli.example("tapegrad metrics runs/notes-1 --csv > losses.csv", "all numbers of metrics.jsonl");
  cli.example("tapegrad metrics runs/notes-1 --layers --out layers.csv", "a row for each layer");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (words.size() != 1) cli::usage_error("one RUN is needed: a run folder");
  if (!o.csv) cli::usage_error("--no-csv leaves no format: --csv is the only one");
  if (o.layers && o.samples) cli::usage_error("--layers and --samples exclude each other");
  o.run = words.front();
  return o;
}

void warn_of_broken(const events::MetricsLines& lines) {
  if (lines.broken() == 0) return;
  print_error(fmt::format(
      "warning: {}: {} line{} that cannot be read {} left out; the first "
      "is line {}\n",
      cli::printable(lines.path().string()), lines.broken(), lines.broken() == 1 ? "" : "s",
      lines.broken() == 1 ? "is" : "are", lines.first_broken()));
}

int export_metrics(const Options& o) {
  const std::filesystem::path folder = o.run;
  check(is_folder(folder), "{} is not a folder of a run", o.run);
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
    return options ? export_metrics(*options) : 0;
  });
}

const cli::Command kCommand("metrics", cli::CommandGroup::look,
                            "write a run's numbers for spreadsheets", run);

}  // namespace
}  // namespace tapegrad
