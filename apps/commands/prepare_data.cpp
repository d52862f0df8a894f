#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/run/corpus/prepare/prepare.h"

namespace tapegrad {
namespace {

struct Options {
  run::PrepareOptions prepare;
  std::vector<std::string> paths;
  std::optional<int> threads;
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(
      call.name,
      "Turns a corpus of any size into files of tokens, once, for tapegrad train --data. It\n"
      "needs little memory, and uses all processors. If it is stopped, the same command goes on "
      "behind\n"
      "the last file that was complete. Each document is for training or for validation as a\n"
      "whole, as a draw for it decides; tapegrad train --corpus divides a corpus more evenly.");
  cli.group("Corpus and files");
  cli.options(o.prepare);
  cli.alias("-o", "--out-dir");
  cli.words(o.paths, "PATH", "the same as --corpus PATH");
  cli.group("Computing");
  cli("threads", o.threads, "threads [one per processor]; results do not depend on it",
      {.least = 1, .most = kMaxThreads});
  cli.example("tapegrad prepare --corpus books/ --out-dir data/books",
              "GPT-2's tokens of all text files below a folder");
  cli.example("tapegrad prepare --corpus wiki.jsonl.zst --tokenizer bpe:32000 --out-dir data/wiki",
              "a vocabulary that is learnt from the corpus");
  cli.example(
      "tapegrad prepare --corpus a.txt --val b.txt --tokenizer SmolLM2-135M/ --out-dir data/ab",
      "two texts, with the tokenizer of a model of Hugging Face's");
  cli.example("tapegrad prepare --corpus all.txt --shard-tokens 0 --out-dir nanoGPT/data/all",
              "one train.bin and one val.bin, as nanoGPT reads them");
  cli.example(
      "tapegrad prepare --chat chats.jsonl more.jsonl:2 --model SmolLM2-135M/ -o data/chats",
      "conversations, with the chat template of a model that is to learn from them");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (!o.prepare.model.empty() && cli.given("--tokenizer")) {
    cli::usage_error("--model and --tokenizer exclude each other: the model has a tokenizer");
  }
  auto& corpus = o.prepare.corpus;
  corpus.insert(corpus.end(), o.paths.begin(), o.paths.end());
  cli::as_usage([&] { o.prepare.validate(); });
  if (o.threads) set_num_threads(*o.threads);
  return o;
}

int prepare(const Options& o) {
  const int code = o.prepare.chat.empty() ? run::prepare(o.prepare) : run::prepare_chat(o.prepare);
  if (code == 0) {
    const std::string& model = o.prepare.model;
    fmt::print("use: {}{} --data {}\n", cli::program_path("tapegrad train"),
               model.empty() ? "" : " --init-from " + cli::quoted(model),
               cli::quoted(o.prepare.out_dir));
  }
  return code;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? prepare(*options) : 0;
  });
}

const cli::Command kCommand("prepare", cli::CommandGroup::data,
                            "turn a corpus of any size into files of tokens", run);

}  // namespace
}  // namespace tapegrad
