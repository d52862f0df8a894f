#include "tapegrad/apps/evaluate/evaluate_options.h"

#include <algorithm>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/run/train/evaluation/evaluate.h"

namespace tapegrad::evaluation {
namespace {

void check_chat(const EvaluateOptions& o, const cli::CommandLine& cli) {
  if (o.chat.empty() && !data::is_chat_folder(o.data)) {
    for (const char* option : {"--loss", "--strict-data"}) {
      if (cli.given(option)) cli::usage_error("{} needs --chat", option);
    }
    if (cli.given("--special-in-messages")) {
      cli::usage_error("--special-in-messages needs --chat or --apply-chat-template");
    }
    return;
  }
  if (!o.chat.empty() && (!o.paths.empty() || !o.data.empty())) {
    cli::usage_error("give --chat or texts, not both; repeat -m for more models");
  }
  for (const char* option : {"--stride", "--field", "--separator", "--isolate-documents"}) {
    if (cli.given(option)) cli::usage_error("{} is for text, and --chat has none", option);
  }
}

// Words that are models are taken, in any order with texts. If no model is given, the first word
// should be one: opening it says why it is not.
void take_models(EvaluateOptions& o) {
  const auto is_model = [](const std::string& path) { return path != "-" && run::is_model(path); };
  const auto texts = std::stable_partition(o.paths.begin(), o.paths.end(), is_model);
  o.models.insert(o.models.end(), o.paths.begin(), texts);
  o.paths.erase(o.paths.begin(), texts);
  if (o.models.empty()) cli::take_model(o.models.emplace_back(), o.paths);
}

void check_models(const EvaluateOptions& o, const cli::CommandLine& cli) {
  if (o.models.size() == 1) return;
  for (const char* option : {"--adapter", "--against", "--beside-f32", "--per-item"}) {
    if (cli.given(option)) cli::usage_error("{} is for one --model", option);
  }
}

}  // namespace

std::optional<EvaluateOptions> parse_options(const cli::Call& call) {
  EvaluateOptions o;
  cli::CommandLine cli(
      call.name,
      "Tells how well a GPT predicts a text: its mean loss in nats per token,\n"
      "perplexity, and bits per byte. With --task: how often it finds the right choice, "
      "word or answer.");
  cli.words(o.paths, "MODEL… PATH", "models to compare, and files and folders of text; - is stdin");
  cli.group("Model");
  cli("model", o.models,
      "a run folder, or a model of another program; repeat -m to compare several models",
      {.value = "PATH"});
  cli.one_value_each("--model");
  cli.alias("-m", "--model");
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("adapter", o.adapter,
      "LoRA adapters beside the model's weights: a folder of PEFT's, a GGUF, or a run with "
      "--lora-rank",
      {.value = "PATH"});
  cli.choice("weights", o.weights, run::quantized_weights(),
             "how weights lie in memory: as the files have them, or converted to a type");
  cli("beside_f32", o.beside_f32,
      "also say what computing with quantised weights costs: how far the predictions are from "
      "those of "
      "the file's weights in f32. Where the file's weights are rounded, this is not what rounding "
      "them has cost: see --against");
  cli("against", o.against,
      "also say how far the predictions are from those of another model with the same tokens. If "
      "this model was rounded from it, that is what rounding has cost. With --task: how many more "
      "items are right than with another model, or in its file of --per-item (.jsonl)",
      {.value = "MODEL"});
  cli("cache", o.cache,
      "how keys and values are stored: f32; or f16 or q8_0, as tapegrad sample stores them, and of "
      "texts, also say what that costs");
  cli.group("Text");
  cli("data", o.data, "folder of tokens, in place of PATH; its validation part is evaluated",
      {.value = "DIR"});
  cli("chat", o.chat,
      "files of conversations (JSON lines), in place of PATH; the answers are evaluated",
      {.value = "FILE…"});
  cli("loss", o.loss,
      "tokens of --chat that count: those of the answers, of the last answer, or all");
  cli("strict_data", o.strict_data,
      "stop at the first line of --chat that is no conversation, in place of leaving it out");
  cli("field", o.field, "field that has the text in JSON lines (.jsonl)", {.value = "NAME"});
  cli("encoding", o.encoding, "encoding of the files, such as latin-1", {.value = "NAME"});
  cli("separator", o.separator,
      "text between two documents of a file, beside <|endoftext|>; \\n is a line break");
  cli.group("Windows");
  cli("block_size", o.block_size,
      "tokens that the model sees at once [those of the run's training, or of the model]",
      {.least = 2});
  cli("stride", o.stride,
      "tokens from one window to the next; each token is predicted once, from at least block-size "
      "- N tokens before it [windows side by side]",
      {.least = 1});
  cli("isolate_documents", o.isolate_documents,
      "keep documents apart in a window: none sees another, and positions begin anew at each [as "
      "in "
      "the run's training]");
  cli("batch_size", o.batch_size, "windows per forward pass", {.least = 1, .most = 1 << 16});
  cli("limit", o.limit,
      "batches to evaluate, spread over the text, or the first items of --task: all or N",
      {.value = "all|N"});
  o.tasks.add_to(cli);
  cli.group("Output");
  cli("json", o.json, "print one JSON object");
  cli("report", o.report, "also write a page with the numbers of all models, and charts of them",
      {.value = "FILE.html"});
  cli.options(o.compute);
  cli.example("tapegrad evaluate runs/notes-1 new-notes/", "all text files below a folder");
  cli.example("tapegrad evaluate runs/notes-1 runs/notes-2 new-notes/", "two models, side by side");
  cli.example("tapegrad evaluate runs/notes-1 --stride 32 book.txt --json",
              "a sliding window, for other programs");
  cli.example("tapegrad evaluate notes-q4_k.gguf book.txt --against runs/notes-1",
              "what is lost by rounding weights");
  cli.example("tapegrad evaluate runs/notes-1 book.txt --cache q8_0",
              "what is lost by short keys and values");
  cli.example("tapegrad evaluate runs/chats --chat chats.jsonl",
              "how well a model predicts the answers of conversations");
  cli.example("tapegrad evaluate SmolLM2-135M.gguf --task hellaswag --items hellaswag_val.jsonl",
              "how often a model finds the right ending");
  cli.example("tapegrad evaluate SmolLM2-135M.gguf book.txt",
              "a model of another program: GGUF, or a folder of Hugging Face's");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  take_models(o);
  check_models(o, cli);
  o.tasks.check_options(cli, o.paths);
  if (o.paths.empty() && o.data.empty() && o.chat.empty() && o.tasks.names.empty()) {
    cli::usage_error("a PATH is needed: the text to evaluate");
  }
  check_chat(o, cli);
  if (!o.data.empty()) {
    if (!o.paths.empty()) cli::usage_error("--data and PATH exclude each other");
    o.paths = {o.data};
  }
  if (!data::is_encoding(o.encoding)) {
    cli::usage_error("--encoding: there is no encoding '{}'; `iconv --list` has all", o.encoding);
  }
  const bool named = o.limit == "auto" || o.limit == "none";
  cli::as_usage([&] {
    check(!named, "--limit: '{}' is not all or a number of batches", o.limit);
    run::evaluation_limit(o.limit, 1);
  });
  cli::use_compute(o.compute);
  return o;
}

}  // namespace tapegrad::evaluation
