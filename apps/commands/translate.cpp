#include <unistd.h>

#include <algorithm>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/seq2seq/line_translator.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"

namespace tapegrad {
namespace {

struct Options {
  seq2seq::LineOptions lines;
  std::vector<std::string> texts;
  std::optional<std::string> file;
  cli::ComputeOptions compute;
};

std::optional<Options> parse_options(const cli::Call& call) {
  Options o;
  seq2seq::LineOptions& l = o.lines;
  cli::CommandLine cli(call.name,
                       "Translates texts, one per line, with a model of tapegrad seq2seq.");
  cli.words(o.texts, "MODEL TEXT",
            "text to translate with MODEL; lines of stdin if there are none");
  cli.group("Texts");
  cli("model", l.model, "the run folder", {.value = "DIR"});
  cli.alias("-m", "--model");
  cli("checkpoint", l.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("file", o.file, "translate its lines; - is stdin", {.value = "FILE|-"});
  cli("batch_size", l.batch_size, "lines that are read and translated together; 1 on a terminal",
      {.least = 1});
  cli.group("Search");
  cli("beam", l.beam, "hypotheses to keep; 1 takes the likeliest token each time", {.least = 1});
  cli("length_penalty", l.length_penalty, "0 favours short translations; for --beam above 1",
      {.least = 0});
  cli.options(o.compute);
  cli.example(
      "tapegrad translate runs/dates-1 'March 5th, 2021 at half past three in the afternoon'",
      "2021-03-05T15:30");
  cli.example("tapegrad translate runs/dates-1 --beam 4 <dates.txt >iso.txt",
              "writes a line for each line that it reads");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  cli::take_model(l.model, o.texts, "the run folder of a model");
  if (o.file && !o.texts.empty()) {
    cli::usage_error("--file and texts on the command line exclude each other");
  }
  if (o.file == "-") o.file.reset();
  if (o.texts == std::vector<std::string>{"-"}) o.texts.clear();
  cli::use_compute(o.compute);
  cli::as_usage([&] {
    nn::TranslateOptions{.beam = l.beam, .length_penalty = l.length_penalty}.validate();
    constexpr std::int64_t most = 1 << 15;
    if (!cli.given("--batch-size")) l.batch_size = std::min(l.batch_size, most / l.beam);
    check(l.batch_size <= most / l.beam,
          "--batch-size times --beam must be at most {}, not {} x {}", most, l.batch_size, l.beam);
  });
  return o;
}

int translate(Options o) {
  const bool reads_stdin = o.texts.empty() && !o.file;
  if (reads_stdin && ::isatty(STDIN_FILENO) == 1) o.lines.batch_size = 1;
  seq2seq::LineTranslator translator(o.lines, o.file        ? *o.file + ": line"
                                              : reads_stdin ? "stdin: line"
                                                            : "text");
  catch_interrupts();
  nn::naming_model(o.lines.model, [&] {
    if (o.file) translator.add_file(*o.file);
    if (reads_stdin) translator.add_stdin();
    for (const std::string& text : o.texts) translator.add(text);
    translator.flush();
  });
  return interrupted() ? kInterruptedExitCode : 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    auto options = parse_options(call);
    return options ? translate(std::move(*options)) : 0;
  });
}

const cli::Command kCommand("translate", cli::CommandGroup::use,
                            "translate texts with a model of seq2seq", run);

}  // namespace
}  // namespace tapegrad
