#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/apps/sample/sampler.h"
#include "tapegrad/apps/sample/sampling_options.h"
#include "tapegrad/apps/sample/speculation.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/models/json_mask.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast}, weights{run::kStored};
  std::vector<std::string> words;  // the model, and prompts
  std::vector<std::string> prompts;
  std::optional<std::string> adapter, prompt_file, prompts_file;
  sampling::SampleOptions sample;
  sampling::SpeculationOptions speculation;
  bool interactive = false;
  std::uint64_t seed = 1337;
  cli::ComputeOptions compute;
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(call.name, "Continues a text with a GPT.");
  cli.words(o.words, "MODEL PROMPT", "the same as --model MODEL --prompt PROMPT");
  cli.group("Text");
  cli("model", o.model, "a run folder, or a model of another program", {.value = "PATH"});
  cli.alias("-m", "--model");
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("adapter", o.adapter,
      "LoRA adapters beside the model's weights: a folder of PEFT's, a GGUF, or a run with "
      "--lora-rank",
      {.value = "PATH"});
  cli.choice("weights", o.weights, run::quantized_weights(),
             "how weights lie in memory: as the files have them, or converted to a type");
  cli("prompt", o.prompts,
      "text to continue; may be repeated [<|endoftext|> or, for a tokenizer without it, a line "
      "break]",
      {.value = "TEXT"});
  cli.alias("-p", "--prompt");
  cli.one_value_each("--prompt");
  cli("prompt_file", o.prompt_file, "read the prompt from a file; - is stdin", {.value = "FILE|-"});
  cli("prompts", o.prompts_file,
      "continue many prompts, each on a line: a text, or a JSON object with \"prompt\" and "
      "optionally \"id\", \"seed\" [--seed + the number of texts before] and \"max_new_tokens\"; - "
      "is stdin",
      {.value = "FILE|-"});
  cli("batch", o.sample.batch, "how many texts run side by side; each stays the same",
      {.least = 1, .most = 4096});
  cli("num_samples", o.sample.num_samples, "number of texts", {.least = 1, .most = 1e6});
  cli("max_new_tokens", o.sample.generate.max_new_tokens, "length of each text, in tokens",
      {.least = 0, .most = static_cast<double>(sampling::kMostNewTokens)});
  cli.alias("-n", "--max-new-tokens");
  cli("stop", o.sample.stops, "end a text before one of these strings; \\n is a line break",
      {.value = "TEXT…"});
  cli("ignore_eos", o.sample.ignore_eos,
      "write on after <|endoftext|>, and show it, in place of ending the text there");
  cli("interactive", o.interactive, "read prompts line by line, and continue each");
  cli("logprobs", o.sample.logprobs, "also show each token's log probability under the model");
  cli("json", o.sample.json,
      "print each text as a JSON object on a line, with the reason why it ended: length, stop or "
      "eos");
  cli("json_object", o.sample.json_object, "make each text a JSON object");
  cli("json_schema", o.sample.json_schema,
      "make each text JSON that fits the JSON Schema in a file; - is stdin", {.value = "FILE|-"});
  cli.group("Choice of tokens");
  sampling::SamplingOptions sampling{o.sample.generate};
  cli.options(sampling);
  cli.alias("--temp", "--temperature");
  cli("greedy", o.sample.generate.greedy, "always choose the likeliest token");
  cli("seed", o.seed, "seed of the first text; the next ones have the next numbers");
  cli("kv_cache", o.sample.generate.kv_cache,
      "keep keys and values of earlier tokens; without it, the text of --cache f32, more slowly");
  cli("cache", o.sample.cache,
      "how keys and values are stored: f32, as the model computes them; or f16 or q8_0, in 0.5 or "
      "0.27 of the memory, which changes texts a little [f16 where weights are stored in less than "
      "f32, else f32]");
  cli.options(o.speculation);
  cli("context", o.sample.generate.context,
      "of a text longer than the model's block_size, exact: the model reads all of its last part "
      "again for each token; shift: it keeps the first 4 tokens and drops the older half of the "
      "others when it is full, for texts without end");
  cli.options(o.compute);
  cli.example("tapegrad sample runs/quickstart-1 --num-samples 3", "three texts");
  cli.example("tapegrad sample runs/notes-1 --interactive --max-new-tokens 100",
              "continues one line after the other");
  cli.example("tapegrad sample runs/tales-1 --ignore-eos",
              "one document after the other; without --ignore-eos, one");
  cli.example("echo 'Dear' | tapegrad sample runs/notes-1 --prompt-file - --stop . --json",
              "for other programs");
  cli.example("tapegrad sample runs/tales-1 --prompts questions.jsonl --json > answers.jsonl",
              "many prompts at once, each with its id");
  cli.example("tapegrad sample SmolLM2-135M.gguf 'A cat as JSON:' --json-schema cat.json",
              "a text that fits a JSON Schema");
  cli.example("tapegrad sample runs/quickstart-1 'ROMEO:' --temp 0.5",
              "continues this text, with likelier tokens");
  cli.example("tapegrad sample SmolLM2-135M.gguf 'Once upon'",
              "a model of another program: GGUF, or a folder of Hugging Face's");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  cli::take_model(o.model, o.words);
  if (o.words == std::vector<std::string>{"-"} && !o.prompt_file) {
    o.prompt_file = "-";
  } else {
    o.prompts.insert(o.prompts.end(), o.words.begin(), o.words.end());
  }
  if (!o.prompts.empty() && o.prompt_file) {
    cli::usage_error("--prompt and --prompt-file exclude each other");
  }
  if (o.prompts_file && (!o.prompts.empty() || o.prompt_file || o.interactive)) {
    cli::usage_error("--prompts excludes --prompt, --prompt-file and --interactive");
  }
  const bool has_prompt = !o.prompts.empty() || o.prompt_file;
  if (o.interactive && has_prompt) {
    cli::usage_error("--interactive reads its prompts from stdin, so that --prompt has no meaning");
  }
  if (o.sample.json_object && o.sample.json_schema) {
    cli::usage_error("--json-object and --json-schema exclude each other");
  }
  for (std::string& stop : o.sample.stops) {
    stop = run::unescaped(stop);
    if (stop.empty()) cli::usage_error("--stop: an empty text would end everything");
  }
  for (const std::string& prompt : o.prompts) {
    if (prompt.empty()) cli::usage_error("--prompt: there is nothing to continue");
  }
  sampling::settle_zeros(o.sample.generate);
  cli::as_usage([&] {
    sampling.read_lists();
    o.speculation.validate(o.sample.generate.kv_cache);
    o.speculation.apply(o.sample.generate);
    o.sample.generate.validate();
  });
  cli::use_compute(o.compute);
  return o;
}

constexpr std::int64_t kMostPromptBytes = std::int64_t{16} << 20;

std::vector<std::string> prompts_of(const Options& o) {
  if (!o.prompts.empty()) return o.prompts;
  if (!o.prompt_file) return {""};
  const bool from_stdin = *o.prompt_file == "-";
  std::string text =
      from_stdin ? read_stdin(kMostPromptBytes) : read_file(*o.prompt_file, kMostPromptBytes);
  text = without_byte_order_mark(text);
  check(!text.empty(), "{}: there is nothing to continue",
        from_stdin ? "stdin" : *o.prompt_file + ": the file is empty");
  return {text};
}

std::unique_ptr<sampling::PromptLines> prompt_lines(const Options& o) {
  if (o.prompts_file) return std::make_unique<sampling::PromptReader>(*o.prompts_file);
  return std::make_unique<sampling::PromptList>(o.prompts);
}

// Error, with the file, for a schema that is broken or not supported.
std::shared_ptr<const nn::TokenMask> mask_of(const Options& o, const data::Tokenizer& tokenizer) {
  if (!o.sample.json_schema) {
    return o.sample.json_object ? run::JsonMasks(tokenizer).of_object() : nullptr;
  }
  const std::string& file = *o.sample.json_schema;
  const std::string schema =
      file == "-" ? read_stdin(kMostPromptBytes) : read_file(file, kMostPromptBytes);
  try {
    return run::JsonMasks(tokenizer).of_schema(schema);
  } catch (const Error& error) {
    fail("{}: {}", file == "-" ? "stdin" : file, error.what());
  }
}

int sample(Options o) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  if (!o.prompts_file && !o.interactive) o.prompts = prompts_of(o);
  if (o.prompts_file != "-") {  // errors come before the weights are read
    sampling::check_prompts(*prompt_lines(o), opened.tokenizer);
  }
  sampling::DraftModel draft;
  draft.open(o.speculation, opened, o.model);
  const TensorSource& stored = opened.base ? *opened.base : *opened.weights;
  const std::string file = stored.name(), held = sampling::held_types(stored);
  if (o.adapter) opened = run::with_adapter(std::move(opened), *o.adapter);
  o.sample.generate.mask = mask_of(o, opened.tokenizer);
  const run::TextModel model = run::load_quantized(std::move(opened), o.weights);
  draft.load();
  o.speculation.apply(o.sample.generate, draft.gpt());
  // Behind the errors of reading the weights, which stand alone.
  if (!held.empty()) print_error(fmt::format("{} holds {}\n", cli::printable(file), held));
  sampling::note_other_types(run::quantized_type(o.weights), model.params);
  sampling::Sampler sampler(model, o.sample, o.seed);
  return nn::naming_model(o.model, [&] {
    if (o.interactive) {
      sampler.converse();
      return 0;
    }
    sampler.print_texts(*prompt_lines(o));
    return interrupted() ? kInterruptedExitCode : 0;
  });
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? sample(*options) : 0;
  });
}

const cli::Command kCommand("sample", cli::CommandGroup::use, "continue a text with a GPT", run,
                            "sample-text");

}  // namespace
}  // namespace tapegrad
