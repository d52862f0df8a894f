#include "tapegrad/apps/cli/cli.h"
#include "tapegrad/autograd/base/file.h"
#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/run/interrupt.h"
#include "tapegrad/run/model_folder.h"
#include "tapegrad/run/run_options.h"
#include "tapegrad/run/sampling.h"

namespace tapegrad::apps {
namespace {

struct SampleOptions {
  std::string model;
  std::optional<std::string> prompt, prompt_file;
  int64_t num_samples = 1;
  nn::GenerateOptions generate{.max_new_tokens = 500, .temperature = 0.8, .top_k = 200};
  uint64_t seed = 1337;
  std::optional<int> threads;
};

std::optional<SampleOptions> parse_options(int argc, const char* const* argv) {
  SampleOptions o;
  CommandLine cli("sample-text", "Continues a text with a GPT that train-gpt has made.");
  cli.group("Text");
  cli.option("--model", o.model, "DIR", "the run folder");
  cli.option("--prompt", o.prompt, "TEXT", "what to continue [a line break]");
  cli.option("--prompt-file", o.prompt_file, "FILE", "the same, from a file");
  cli.option("--num-samples", o.num_samples, "N", "how many texts", 1);
  cli.option("--max-new-tokens", o.generate.max_new_tokens, "N", "the length of each, in tokens",
             0);
  cli.group("Choice of tokens");
  cli.option("--temperature", o.generate.temperature, "X",
             "above 1 is more surprising, below 1 is safer");
  cli.option("--top-k", o.generate.top_k, "K", "among the K likeliest only", 1);
  cli.flag("--greedy", o.generate.greedy, "always the likeliest");
  cli.option("--seed", o.seed, "N", "equal seeds give equal texts");
  cli.flag("--kv-cache", o.generate.kv_cache,
           "keep what was computed for earlier tokens; without it, the same but slower", true);
  cli.option("--threads", o.threads, "N", "threads [one per processor]", 1);
  cli.example("sample-text --model runs/quickstart-1 --num-samples 3", "three texts");
  cli.example("sample-text --model runs/quickstart-1 --prompt 'namespace ' --temperature 0.5",
              "goes on from there, and rather safely");
  if (!cli.parse(argc, argv)) return std::nullopt;
  if (!cli.given("--model")) usage_error("--model is needed: the run folder of a model");
  if (o.prompt && o.prompt_file) usage_error("--prompt and --prompt-file exclude each other");
  if (o.prompt && o.prompt->empty()) usage_error("--prompt: there is nothing to continue");
  as_usage([&] {
    o.generate.validate();
    check_threads(o.threads);
  });
  return o;
}

int sample(const SampleOptions& o) {
  constexpr int64_t max_prompt_bytes = int64_t{16} << 20;
  if (o.threads) set_num_threads(*o.threads);
  const StoredModel model = load_model(o.model);
  std::string text = o.prompt.value_or("");
  if (o.prompt_file) {
    text = data::without_byte_order_mark(read_file(*o.prompt_file, max_prompt_bytes));
    check(!text.empty(), "{}: the file is empty: there is nothing to continue", *o.prompt_file);
  }
  const std::vector<data::Token> prompt =
      text.empty() ? default_prompt(model.tokenizer) : model.tokenizer.encode(text, true);
  catch_interrupts();
  Rng rng(o.seed);
  for (int64_t i = 0; i < o.num_samples && !interrupted(); ++i) {
    if (o.num_samples > 1) fmt::print("{}--- sample {} ---\n", i > 0 ? "\n" : "", i + 1);
    std::fwrite(text.data(), 1, text.size(), stdout);
    stream_sample(model.gpt, model.tokenizer, prompt, o.generate, rng);
    std::fputc('\n', stdout);
  }
  return interrupted() ? interrupted_exit_code : 0;
}

}  // namespace
}  // namespace tapegrad::apps

int main(int argc, char** argv) {
  using namespace tapegrad::apps;
  return run_main("sample-text", [&] {
    const auto options = parse_options(argc, argv);
    return options ? sample(*options) : 0;
  });
}
