#include <cstdio>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/autograd/base/file.h"
#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/run/interrupt.h"
#include "tapegrad/run/model.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast};
  std::optional<std::string> prompt, prompt_file;
  std::int64_t num_samples = 1;
  nn::GenerateOptions generate{.max_new_tokens = 500, .temperature = 0.8, .top_k = 200};
  std::uint64_t seed = 1337;
  cli::ComputeOptions compute;
};

std::optional<Options> parse(int argc, const char* const* argv) {
  Options o;
  cli::CommandLine cli("sample-text", "Continues a text with a GPT that train-gpt has made.");
  cli.group("Text");
  cli("model", o.model, "the run folder", {.value = "DIR"});
  cli("checkpoint", o.checkpoint, "whose weights: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("prompt", o.prompt, "what to continue [a line break]");
  cli("prompt_file", o.prompt_file, "the same, from a file", {.value = "FILE"});
  cli("num_samples", o.num_samples, "how many texts", {.least = 1});
  cli("max_new_tokens", o.generate.max_new_tokens, "the length of each, in tokens", {.least = 0});
  cli.group("Choice of tokens");
  cli("temperature", o.generate.temperature, "above 1: more surprising; below 1: more predictable");
  cli("top_k", o.generate.top_k, "choose among the K likeliest tokens only",
      {.least = 1, .value = "K"});
  cli("greedy", o.generate.greedy, "always choose the likeliest token");
  cli("seed", o.seed, "equal seeds give equal texts");
  cli("kv_cache", o.generate.kv_cache,
      "keep keys and values of earlier tokens; without it, the same text, more slowly");
  cli.options(o.compute);
  cli.example("sample-text --model runs/quickstart-1 --num-samples 3", "three texts");
  cli.example("sample-text --model runs/quickstart-1 --prompt 'namespace ' --temperature 0.5",
              "continues this text, with likelier tokens");
  if (cli.parse_or_print(argc, argv)) return std::nullopt;
  if (!cli.given("--model")) cli::usage_error("--model is needed: the run folder of a model");
  if (o.prompt && o.prompt_file) {
    cli::usage_error("--prompt and --prompt-file exclude each other");
  }
  if (o.prompt && o.prompt->empty()) cli::usage_error("--prompt: there is nothing to continue");
  cli::as_usage([&] { o.generate.validate(); });
  cli::use_compute(o.compute);
  return o;
}

std::string prompt_of(const Options& o) {
  constexpr std::int64_t most_bytes = std::int64_t{16} << 20;
  if (!o.prompt_file) return o.prompt.value_or("");
  std::string text(data::without_byte_order_mark(read_file(*o.prompt_file, most_bytes)));
  check(!text.empty(), "{}: the file is empty: there is nothing to continue", *o.prompt_file);
  return text;
}

int sample(const Options& o) {
  const run::TextModel model = run::load(o.model, DType::f32, o.checkpoint);
  const std::string prompt = prompt_of(o);
  const std::vector<data::Token> tokens = model.tokens_of(prompt);
  run::catch_interrupts();
  const auto print = [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    return std::fflush(stdout) == 0 && !run::interrupted();
  };
  Rng rng(o.seed);  // the samples draw from it one after the other
  for (std::int64_t i = 0; i < o.num_samples && !run::interrupted(); ++i) {
    if (o.num_samples > 1) fmt::print("{}--- sample {} ---\n", i > 0 ? "\n" : "", i + 1);
    std::fwrite(prompt.data(), 1, prompt.size(), stdout);
    run::stream_text(model.gpt, model.tokenizer, tokens, o.generate, rng, print);
    std::fputc('\n', stdout);
  }
  return run::interrupted() ? run::kInterruptedExitCode : 0;
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("sample-text", [&] {
    const auto options = tapegrad::parse(argc, argv);
    return options ? tapegrad::sample(*options) : 0;
  });
}
