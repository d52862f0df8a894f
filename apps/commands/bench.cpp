// How fast a training step is, and where its time goes.

#include "tapegrad/apps/bench/gemm_bench.h"
#include "tapegrad/apps/bench/step_bench.h"
#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/run/train/options.h"

namespace tapegrad {
namespace {

const bench::BenchCase& case_of(const std::string& name) {
  for (const bench::BenchCase& c : bench::bench_cases()) {
    if (c.name == name) return c;
  }
  cli::usage_error("there is no configuration '{}'; see tapegrad bench --help", name);
}

int bench(const cli::Call& call) {
  bench::BenchOptions o;
  cli::ComputeOptions compute;
  std::vector<std::string> words;
  cli::CommandLine cli(call.name, "Times a training step of a GPT on random tokens.");
  cli.group("Options");
  cli("steps", o.steps, "steps that are timed, after two that are not", {.least = 1});
  cli.options(compute);
  cli("dtype", o.dtype, "precision of linear layers: bf16 rounds both operands of their products");
  cli("recompute", o.recompute,
      "keep only each block's input, and run the block again in backward");
  cli("trace", o.trace, "write a trace of all steps of bench ops, for ui.perfetto.dev",
      {.value = "FILE"});
  cli.example("tapegrad bench step char-cpu --steps 100",
              "the median step, and how near it is to gemm's rate");
  cli.example("tapegrad bench ops gpt2-b4t256", "a table of the ops by time");
  for (const bench::BenchCase& c : bench::bench_cases()) {
    cli.list("Configurations", c.name, c.summary);
  }
  cli.example("tapegrad bench gemm gpt2-b4t64", "the products of a step by shape, by each library");
  cli.words(words, "step|ops|gemm CONFIG", "what to time, and the model and batch to time it with");
  if (cli.parse_or_print(call.argc, call.argv)) return 0;
  if (words.size() != 2) {
    cli::usage_error("say what to time: tapegrad bench step, ops or gemm, and a CONFIG");
  }
  const std::string& what = words[0];
  using Bench = void (*)(const bench::BenchCase&, const bench::BenchOptions&);
  const Bench time = what == "step"   ? bench::bench_step
                     : what == "ops"  ? bench::bench_ops
                     : what == "gemm" ? bench::bench_gemm
                                      : nullptr;
  if (time == nullptr) cli::usage_error("'{}' is none of step, ops and gemm", what);
  if (!o.trace.empty() && what != "ops") cli::usage_error("--trace is for bench ops");
  const bench::BenchCase& c = case_of(words[1]);
  cli::use_compute(compute);
  if (o.dtype == Precision::bf16) {
    fmt::print("{}\n", describe_precision(o.dtype, c.largest_product()));
  }
  time(c, o);
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] { return bench(call); });
}

const cli::Command kCommand("bench", cli::CommandGroup::learn, "time a training step", run);

}  // namespace
}  // namespace tapegrad
