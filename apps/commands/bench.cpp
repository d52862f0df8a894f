// How fast a training step is, and where its time goes; how fast a model writes.

#include <filesystem>

#include "tapegrad/apps/bench/gemm_bench.h"
#include "tapegrad/apps/bench/generate_bench.h"
#include "tapegrad/apps/bench/step_bench.h"
#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/base/file.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/options/options.h"

namespace tapegrad {
namespace {

const bench::BenchCase* find_case(const std::string& name) {
  for (const bench::BenchCase& c : bench::bench_cases()) {
    if (c.name == name) return &c;
  }
  return nullptr;
}

const bench::BenchCase& case_of(const std::string& name) {
  if (const bench::BenchCase* c = find_case(name)) return *c;
  cli::usage_error("there is no configuration '{}'; see tapegrad bench --help", name);
}

struct Options {
  bench::BenchOptions step;
  bench::GenerateBenchOptions generate;
  std::string weights{run::kStored};
  cli::ComputeOptions compute;
  std::string documents, what, config;
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  std::vector<std::string> words;
  cli::CommandLine cli(call.name,
                       "Times a training step of a GPT on random tokens, or a model that writes.");
  cli.group("Options");
  cli.options(o.compute);
  cli.group("Of steps, ops and gemm");
  cli("steps", o.step.steps, "steps that are timed, after two that are not", {.least = 1});
  cli("dtype", o.step.dtype,
      "precision of linear layers: bf16 and int8 round operands of their products");
  cli("recompute", o.step.recompute,
      "keep only each block's input, and run the block again in backward");
  cli("optimizer", o.step.optimizer, "optimiser of the weights");
  cli("documents", o.documents,
      "least and most tokens of documents side by side in a sequence, which do not see each other "
      "[one document]",
      {.value = "N..M"});
  cli("trace", o.step.trace, "write a trace of all steps of bench ops, for ui.perfetto.dev",
      {.value = "FILE"});
  cli.group("Of generate");
  cli.choice("weights", o.weights, run::quantized_weights(),
             "how weights lie in memory: converted to a type, or as the files have them");
  cli("batch", o.generate.batch, "texts side by side", {.least = 1, .most = 1024});
  cli("prompt", o.generate.prompt, "tokens of each prompt", {.least = 1, .most = 1 << 30});
  cli("tokens", o.generate.tokens, "tokens of each text", {.least = 1, .most = 1 << 30});
  cli("cache", o.generate.cache,
      "how keys and values are stored [f16 where weights are stored in less than f32, else f32]");
  cli("prompt_chunk", o.generate.prompt_chunk,
      "read at most N tokens of prompts in a step [all of them]", {.least = 1, .value = "N"});
  cli("ops", o.generate.ops, "print where the time of a token goes, too");
  cli("json", o.generate.json, "print one JSON object");
  cli.example("tapegrad bench step char-cpu --steps 100",
              "the median step, and how near it is to gemm's rate");
  cli.example("tapegrad bench step gpt2-b1t1024 --documents 30..200",
              "the same where a sequence has several documents");
  cli.example("tapegrad bench ops gpt2-b4t256", "a table of the ops by time");
  cli.example("tapegrad bench gemm gpt2-b4t64", "the products of a step by shape, by each library");
  cli.example("tapegrad bench generate SmolLM2-135M.gguf --weights q8_0 --batch 8",
              "tokens per second, and how near that is to the rate of reading memory");
  for (const bench::BenchCase& c : bench::bench_cases()) {
    cli.list("Configurations", c.name, c.summary);
  }
  cli.words(words, "step|ops|gemm|generate CONFIG",
            "task to time, and the model to time it with; generate also takes the path of one");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (words.size() != 2) {
    cli::usage_error("say what to time: tapegrad bench step, ops, gemm or generate, and a CONFIG");
  }
  o.what = words[0], o.config = words[1];
  if (!o.documents.empty()) {
    cli::as_usage([&] { o.step.documents = bench::document_lengths(o.documents); });
  }
  if (o.generate.ops && o.what != "generate") cli::usage_error("--ops is for bench generate");
  if (!o.step.trace.empty() && o.what != "ops") cli::usage_error("--trace is for bench ops");
  cli::use_compute(o.compute);
  return o;
}

void time_step(const Options& o) {
  using Bench = void (*)(const bench::BenchCase&, const bench::BenchOptions&);
  const Bench time = o.what == "step"   ? bench::bench_step
                     : o.what == "ops"  ? bench::bench_ops
                     : o.what == "gemm" ? bench::bench_gemm
                                        : nullptr;
  if (time == nullptr) cli::usage_error("'{}' is none of step, ops, gemm and generate", o.what);
  const bench::BenchCase& c = case_of(o.config);
  if (o.step.dtype != Precision::full) {
    fmt::print("{}\n", describe_precision(o.step.dtype, c.largest_product()));
  }
  time(c, o.step);
}

void time_generation(const Options& o) {
  const bench::BenchCase* const c = find_case(o.config);
  if (c == nullptr) {
    check(path_exists(o.config),
          "'{}' is no configuration, and there is no such model; see tapegrad bench --help",
          o.config);
    const run::TextModel model = run::load_quantized(run::open_model(o.config), o.weights);
    sampling::note_other_types(run::quantized_type(o.weights), model.params);
    return nn::naming_model(
        o.config, [&] { bench::bench_generate(model.gpt, model.params, o.config, o.generate); });
  }
  Rng rng(1337);
  const nn::Params params(rng);
  run::quantize(params, o.weights);
  const nn::Decoder model(params, c->model);
  sampling::note_other_types(run::quantized_type(o.weights), params);
  bench::bench_generate(model, params, o.config, o.generate);
}

int bench(const cli::Call& call) {
  const auto options = parse(call);
  if (!options) return 0;
  options->what == "generate" ? time_generation(*options) : time_step(*options);
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] { return bench(call); });
}

const cli::Command kCommand("bench", cli::CommandGroup::learn,
                            "time a training step, or a model that writes", run);

}  // namespace
}  // namespace tapegrad
