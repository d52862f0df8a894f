#include "tapegrad/apps/bench/step_bench.h"

#include <sys/resource.h>

#include <algorithm>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/options/options.h"
#include "tapegrad/run/record/chrome_trace.h"

namespace tapegrad::bench {
namespace {

nn::DecoderConfig gpt2() { return {}; }
nn::DecoderConfig characters(int n_layer, std::int64_t n_embd, std::int64_t block_size,
                             double dropout) {
  return {.vocab_size = 65,
          .block_size = block_size,
          .n_layer = n_layer,
          .n_head = n_layer,
          .n_embd = n_embd,
          .dropout = dropout,
          .bias = false,
          .qkv_bias = false};
}

nn::DecoderConfig smollm2() {
  nn::DecoderConfig c{.arch = nn::Architecture::llama, .vocab_size = 49152, .block_size = 8192};
  c.n_layer = 30, c.n_head = 9, c.n_kv_head = 3, c.n_embd = 576, c.n_inner = 1536;
  c.rope_base = 100000;
  return c;
}

std::int64_t peak_megabytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

Trial trial_of(const BenchCase& c, const BenchOptions& o) {
  return {c.model,
          c.B,
          c.T,
          {.recompute = o.recompute, .precision = o.dtype, .optimizer = {.optimizer = o.optimizer}},
          o.documents};
}

void print_row(const std::string& name, std::int64_t calls, double seconds, double flops,
               double bytes, double total) {
  const double rate = (flops > 0 ? flops : bytes) / seconds / 1e9;
  fmt::print("  {:<32} {:>6} {:>10.2f} {:>9.1f} {:<7} {:>5.1f} %\n", name, calls, seconds * 1e3,
             rate, flops > 0 ? "GFLOP/s" : "GB/s", 100 * seconds / total);
}

}  // namespace

const std::vector<BenchCase>& bench_cases() {
  static const std::vector<BenchCase> list = {
      {"gpt2-b4t64", "GPT-2 124M, 4 sequences of 64 tokens", gpt2(), 4, 64},
      {"gpt2-b4t256", "GPT-2 124M, 4 sequences of 256 tokens", gpt2(), 4, 256},
      {"gpt2-b1t1024", "GPT-2 124M, one sequence of 1,024 tokens", gpt2(), 1, 1024},
      {"smollm2-b1t1024", "SmolLM2-135M, one sequence of 1,024 tokens", smollm2(), 1, 1024},
      {"smollm2-b4t256", "SmolLM2-135M, 4 sequences of 256 tokens", smollm2(), 4, 256},
      {"char", "nanoGPT's shakespeare_char without dropout", characters(6, 384, 256, 0), 64, 256},
      {"char-dropout", "the same with dropout 0.2", characters(6, 384, 256, 0.2), 64, 256},
      {"char-cpu", "nanoGPT's recipe for a laptop", characters(4, 128, 64, 0), 12, 64},
  };
  return list;
}

Product BenchCase::largest_product() const {
  return {B * T, std::max(model.vocab_size, model.inner()), model.n_embd};
}

DocumentLengths document_lengths(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto least = number_of<std::int64_t>(text.substr(0, dots));
  const auto most =
      dots == text.npos ? std::nullopt : number_of<std::int64_t>(text.substr(dots + 2));
  check(least && most && *least >= 1 && *least <= *most && *most <= 1 << 30,
        "--documents: '{}' is not the least and the most tokens of a document, such as 30..200",
        text);
  return {*least, *most};
}

void bench_step(const BenchCase& c, const BenchOptions& o) {
  Trial trial = trial_of(c, o);
  std::vector<double> seconds;
  for (int i = -2; i < o.steps; ++i) {
    const double taken = trial.step().parts();
    if (i >= 0) seconds.push_back(taken);
  }
  const double step = median(seconds), tokens = static_cast<double>(c.B * c.T);
  fmt::print("tapegrad {} {}: {:.1f} ms/step {:.0f} tok/s peak {} MB\n", c.name,
             name_of_enum(o.dtype), step * 1e3, tokens / step, peak_megabytes());
  nn::DecoderConfig model = c.model;
  model.block_size = c.T;
  const double rate = 3 * nn::summary(model).flops() * tokens / step;
  const Product p = c.largest_product();
  const double limit = product_rate(p, o.dtype);
  fmt::print("{:.1f} GFLOP/s of the model, {:.0f} % of the {:.1f} that gemm reaches at {}×{}×{}\n",
             rate / 1e9, 100 * rate / limit, limit / 1e9, p.rows, p.columns, p.depth);
}

void bench_ops(const BenchCase& c, const BenchOptions& o) {
  Trial trial = trial_of(c, o);
  trial.step();
  trial.step();
  const NamedTensors names = trial.parameters();
  const Profile profile({.timeline = !o.trace.empty(), .names = names});
  Trial::Phases sum;
  for (int i = 0; i < o.steps; ++i) {
    const ProfiledPart part("step");
    const Trial::Phases phases = trial.step();
    sum.forward += phases.forward;
    sum.backward += phases.backward;
    sum.norm += phases.norm;
    sum.update += phases.update;
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
  rest("(update)", sum.update / n);
  rest("(tape, between the ops)", (sum.forward + sum.backward) / n - in_ops);
  if (o.trace.empty()) return;
  run::write_chrome_trace(o.trace, profile);
  fmt::print("\ntrace of {}: {} (ui.perfetto.dev and chrome://tracing open it)\n",
             counted(o.steps, "step"), o.trace);
}

}  // namespace tapegrad::bench
