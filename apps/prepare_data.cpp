#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/run/corpus/prepare.h"

namespace tapegrad {
namespace {

struct Options {
  run::PrepareOptions prepare;
  std::optional<int> threads;
};

std::optional<Options> parse(int argc, const char* const* argv) {
  Options o;
  cli::CommandLine cli(
      "prepare-data",
      "Turns a corpus of any size into files of tokens, once, for train-gpt --data. It needs\n"
      "little memory, and uses all processors. If it is stopped, the same command goes on behind\n"
      "the last file that was complete. Each document is for training or for validation as a\n"
      "whole, as a draw for it decides; train-gpt --corpus divides a corpus more evenly.");
  cli.group("Corpus and files");
  cli.options(o.prepare);
  cli.group("Computing");
  cli("threads", o.threads, "threads [one per processor]; results do not depend on it",
      {.least = 1, .most = kMaxThreads});
  cli.example("prepare-data --corpus books/ --out-dir data/books",
              "GPT-2's tokens of all text files below a folder");
  cli.example("prepare-data --corpus wiki.jsonl.zst --tokenizer bpe:32000 --out-dir data/wiki",
              "a vocabulary that is learnt from the corpus");
  cli.example("prepare-data --corpus a.txt --val b.txt --tokenizer SmolLM2-135M/ --out-dir data/ab",
              "two texts, with the tokenizer of a model of Hugging Face's");
  cli.example("prepare-data --corpus all.txt --shard-tokens 0 --out-dir nanoGPT/data/all",
              "one train.bin and one val.bin, as nanoGPT reads them");
  if (cli.parse_or_print(argc, argv)) return std::nullopt;
  cli::as_usage([&] { o.prepare.validate(); });
  if (o.threads) set_num_threads(*o.threads);
  return o;
}

int prepare(const Options& o) {
  const int code = run::prepare(o.prepare);
  if (code == 0) {
    fmt::print("use: {} --data {}\n", cli::program_path("train-gpt"),
               cli::quoted(o.prepare.out_dir));
  }
  return code;
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("prepare-data", [&] {
    const auto options = tapegrad::parse(argc, argv);
    return options ? tapegrad::prepare(*options) : 0;
  });
}
