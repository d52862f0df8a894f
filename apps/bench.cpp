// How fast a training step is, and where its time goes.

#include <sys/resource.h>

#include <algorithm>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/threads.h"
#include "tapegrad/apps/gpt/trial.h"
#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/median.h"
#include "tapegrad/run/options.h"
#include "tapegrad/run/product_rate.h"

namespace tapegrad {
namespace {

struct Configuration {
  std::string name, summary;
  nn::GPTConfig model;
  int64_t B, T;
};

nn::GPTConfig gpt2() { return {}; }
nn::GPTConfig characters(int n_layer, int64_t n_embd, int64_t block_size, double dropout) {
  return {.vocab_size = 65,
          .block_size = block_size,
          .n_layer = n_layer,
          .n_head = n_layer,
          .n_embd = n_embd,
          .dropout = dropout,
          .bias = false,
          .qkv_bias = false};
}

const std::vector<Configuration>& configurations() {
  static const std::vector<Configuration> list = {
      {"gpt2-b4t64", "GPT-2 124M, 4 sequences of 64 tokens", gpt2(), 4, 64},
      {"gpt2-b4t256", "GPT-2 124M, 4 sequences of 256 tokens", gpt2(), 4, 256},
      {"gpt2-b1t1024", "GPT-2 124M, one sequence of 1,024 tokens", gpt2(), 1, 1024},
      {"char", "nanoGPT's shakespeare_char without dropout", characters(6, 384, 256, 0), 64, 256},
      {"char-dropout", "the same with dropout 0.2", characters(6, 384, 256, 0.2), 64, 256},
      {"char-cpu", "nanoGPT's recipe for a laptop", characters(4, 128, 64, 0), 12, 64},
  };
  return list;
}

const Configuration& configuration(const std::string& name) {
  for (const Configuration& c : configurations()) {
    if (c.name == name) return c;
  }
  cli::usage_error("there is no configuration '{}'; see bench --help", name);
}

int64_t peak_megabytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

run::Product largest_product(const Configuration& c) {
  return {c.B * c.T, std::max(c.model.vocab_size, c.model.inner()), c.model.n_embd};
}

struct BenchOptions {
  int steps = 8;
  std::optional<int> threads;
  bool recompute = false;
  Precision dtype = Precision::full;

  gpt::Trial trial(const Configuration& c) const {
    return {c.model, c.B, c.T, {.recompute = recompute, .precision = dtype}};
  }
};

void bench_step(const Configuration& c, const BenchOptions& o) {
  gpt::Trial trial = o.trial(c);
  std::vector<double> seconds;
  for (int i = -2; i < o.steps; ++i) {
    const double taken = trial.step().total();
    if (i >= 0) seconds.push_back(taken);
  }
  const double step = run::median(seconds), tokens = static_cast<double>(c.B * c.T);
  fmt::print("tapegrad {} {}: {:.1f} ms/step {:.0f} tok/s peak {} MB\n", c.name,
             name_of_enum(o.dtype), step * 1e3, tokens / step, peak_megabytes());
  nn::GPTConfig model = c.model;
  model.block_size = c.T;
  const double rate = 3 * nn::summary(model).flops() * tokens / step;
  const run::Product p = largest_product(c);
  const double limit = run::product_rate(p, o.dtype);
  fmt::print("{:.1f} GFLOP/s of the model, {:.0f} % of the {:.1f} that gemm reaches at {}×{}×{}\n",
             rate / 1e9, 100 * rate / limit, limit / 1e9, p.rows, p.columns, p.depth);
}

void print_row(const std::string& name, int64_t calls, double seconds, double flops, double bytes,
               double total) {
  const double rate = (flops > 0 ? flops : bytes) / seconds / 1e9;
  fmt::print("  {:<32} {:>6} {:>10.2f} {:>9.1f} {:<7} {:>5.1f} %\n", name, calls, seconds * 1e3,
             rate, flops > 0 ? "GFLOP/s" : "GB/s", 100 * seconds / total);
}

// The ops of one step, the mean of `steps`.
void bench_ops(const Configuration& c, const BenchOptions& o) {
  gpt::Trial trial = o.trial(c);
  trial.step();
  trial.step();
  const Profile profile;
  gpt::Trial::Phases sum;
  for (int i = 0; i < o.steps; ++i) {
    const gpt::Trial::Phases phases = trial.step();
    sum.forward += phases.forward;
    sum.backward += phases.backward;
    sum.norm += phases.norm;
    sum.adamw += phases.adamw;
  }
  const double n = o.steps, total = sum.total() / n;
  double in_ops = 0;
  fmt::print("{}: {:.2f} ms per step, of {} steps\n\n  {:<32} {:>6} {:>10} {:>17} {:>7}\n", c.name,
             total * 1e3, o.steps, "op", "calls", "ms", "rate", "share");
  for (const Profile::Entry& entry : profile.entries()) {
    print_row(entry.name, entry.calls / o.steps, entry.seconds / n, entry.flops / n,
              entry.bytes / n, total);
    in_ops += entry.seconds / n;
  }
  const auto rest = [&](const char* name, double seconds) {
    fmt::print("  {:<32} {:>6} {:>10.2f} {:>17} {:>5.1f} %\n", name, "", seconds * 1e3, "",
               100 * seconds / total);
  };
  rest("(norm of the gradients)", sum.norm / n);
  rest("(AdamW)", sum.adamw / n);
  rest("(tape, between the ops)", (sum.forward + sum.backward) / n - in_ops);
}

int bench(int argc, const char* const* argv) {
  BenchOptions o;
  cli::CommandLine cli("bench", "Times a training step of a GPT on random tokens.");
  cli.group("Options");
  cli("steps", o.steps, "steps that are timed, after two that are not", {.least = 1});
  cli("threads", o.threads, "threads [one per processor]", {.least = 1});
  cli("dtype", o.dtype, "precision of linear layers: bf16 rounds both operands of their products");
  cli("recompute", o.recompute,
      "keep only each block's input, and run the block again in backward");
  cli.example("bench step char-cpu --steps 100",
              "the median step, and how near it is to gemm's rate");
  cli.example("bench ops gpt2-b4t256", "a table of the ops by time");
  for (const Configuration& c : configurations()) cli.list("Configurations", c.name, c.summary);

  std::vector<std::string> words;
  cli.words(words, "step|ops CONFIG", "what to time, and the model and batch to time it with");
  if (cli.parse_or_print(argc, argv)) return 0;
  if (words.size() != 2) {
    cli::usage_error("say what to time: bench step CONFIG or bench ops CONFIG");
  }
  const std::string& what = words[0];
  if (what != "step" && what != "ops") cli::usage_error("'{}' is neither step nor ops", what);
  const Configuration& c = configuration(words[1]);
  cli::use_threads(o.threads);
  if (o.dtype == Precision::bf16) fmt::print("{}\n", run::describe_bf16(largest_product(c)));
  what == "step" ? bench_step(c, o) : bench_ops(c, o);
  return 0;
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("bench", [&] { return tapegrad::bench(argc, argv); });
}
