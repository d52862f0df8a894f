#include <fmt/ranges.h>

#include <cmath>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/evaluate/evaluate_tasks.h"
#include "tapegrad/apps/sample/evaluate_text.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/models/chat_template_of.h"
#include "tapegrad/run/models/same_tokens.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast}, weights{run::kStored}, limit = "all";
  std::vector<std::string> paths;
  std::string data, field = "text", encoding = "utf-8", separator;
  std::vector<std::string> chat;
  data::ChatLoss loss = data::ChatLoss::answers;
  bool strict_data = false;
  std::vector<std::string> tasks, items, fewshot_items;
  std::optional<std::string> adapter, against, per_item;
  std::optional<std::int64_t> num_fewshot;
  std::optional<std::int64_t> block_size, stride;
  std::optional<bool> isolate_documents;
  std::int64_t batch_size = 8;
  bool json = false, beside_f32 = false;
  CacheType cache = CacheType::f32;
  cli::ComputeOptions compute;
};

void check_chat(const Options& o, const cli::CommandLine& cli) {
  if (o.chat.empty() && !data::is_chat_folder(o.data)) {
    for (const char* option : {"--loss", "--strict-data"}) {
      if (cli.given(option)) cli::usage_error("{} needs --chat", option);
    }
    return;
  }
  if (!o.chat.empty() && (!o.paths.empty() || !o.data.empty())) {
    cli::usage_error("--chat excludes PATH and --data: one of them is evaluated");
  }
  for (const char* option : {"--stride", "--field", "--separator", "--isolate-documents"}) {
    if (cli.given(option)) cli::usage_error("{} is for text, and --chat has none", option);
  }
}

void check_tasks(const Options& o, const cli::CommandLine& cli) {
  if (o.tasks.empty()) {
    for (const char* option : {"--items", "--fewshot-items", "--num-fewshot", "--per-item"}) {
      if (cli.given(option)) cli::usage_error("{} needs --task", option);
    }
    return;
  }
  if (!o.paths.empty()) cli::usage_error("--task excludes PATH: its items are evaluated");
  for (const char* option : {"--data", "--chat", "--loss", "--strict-data", "--field", "--encoding",
                             "--separator", "--block-size", "--stride", "--isolate-documents",
                             "--batch-size", "--beside-f32", "--against"}) {
    if (cli.given(option)) cli::usage_error("{} is for text, and --task has none", option);
  }
  for (const auto& [name, files] :
       {std::pair("--items", &o.items), std::pair("--fewshot-items", &o.fewshot_items)}) {
    if (!files->empty() && files->size() != o.tasks.size()) {
      cli::usage_error("{} is given {} times, and --task {}: each task needs its own", name,
                       files->size(), o.tasks.size());
    }
  }
}

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(
      call.name,
      "Tells how well a GPT predicts a text: its mean loss in nats per token,\n"
      "perplexity, and bits per byte. With --task: how often it finds the right one "
      "of several\nchoices.");
  cli.words(o.paths, "MODEL PATH", "files and folders of text; - is stdin");
  cli.group("Model");
  cli("model", o.model, "a run folder, or a model of another program", {.value = "PATH"});
  cli.alias("-m", "--model");
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("adapter", o.adapter,
      "LoRA adapters beside the model's weights: a folder of PEFT's, a GGUF, or a run with "
      "--lora-rank",
      {.value = "PATH"});
  cli.choice("weights", o.weights, run::packed_weights(),
             "how weights lie in memory: as the files have them, or converted to a type");
  cli("beside_f32", o.beside_f32,
      "also say what computing with short weights costs: how far the predictions are from those of "
      "the file's weights in f32. Where the file's weights are rounded, this is not what rounding "
      "them has cost: see --against");
  cli("against", o.against,
      "also say how far the predictions are from those of another model with the same tokens. If "
      "this model was rounded from it, that is what rounding has cost",
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
  cli.group("Tasks");
  cli("task", o.tasks,
      fmt::format("questions of several choices, in place of PATH: a file that says what an item's "
                  "prompt and choices are, or {}",
                  fmt::join(evaluation::task_names(), ", ")),
      {.value = "FILE|NAME"});
  cli.one_value_each("--task");
  cli("items", o.items, "items of the task: JSON lines; one file for each --task [the task's own]",
      {.value = "FILE"});
  cli.one_value_each("--items");
  cli("num_fewshot", o.num_fewshot, "examples before each question [as the task says]",
      {.least = 0, .most = 64});
  cli("fewshot_items", o.fewshot_items,
      "items whose first ones are the examples; one file for each --task [the task's own, or "
      "--items]",
      {.value = "FILE"});
  cli.one_value_each("--fewshot-items");
  cli("per_item", o.per_item, "write a JSON line for each item: log-likelihoods, chosen, right",
      {.value = "FILE"});
  cli.group("Output");
  cli("json", o.json, "print one JSON object");
  cli.options(o.compute);
  cli.example("tapegrad evaluate runs/notes-1 new-notes/", "all text files below a folder");
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
  cli::take_model(o.model, o.paths);
  check_tasks(o, cli);
  if (o.paths.empty() && o.data.empty() && o.chat.empty() && o.tasks.empty()) {
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
    run::evaluation_limit(o.limit, 0);
  });
  cli::use_compute(o.compute);
  return o;
}

// A model that the predictions are compared with.
struct Reference {
  std::string key;                      // in JSON
  std::string title;                    // with what the comparison says
  std::optional<run::TextModel> model;  // none: the same one, with keys and values in f32
};
using References = std::vector<Reference>;

constexpr const char* kAgainst = "against";

// Error, naming both, unless the other model has the same tokens and sees as many of them at once.
run::OpenedModel open_against(const Options& o, const run::OpenedModel& model,
                              std::int64_t block_size) {
  run::OpenedModel other = run::open_model(*o.against);
  const std::string difference =
      run::token_difference({other.tokenizer, other.config.vocab_size},
                            {model.tokenizer, model.config.vocab_size}, o.model);
  check(difference.empty(), "--against {}: {}: both must have the same tokens", *o.against,
        difference);
  check(block_size <= other.config.block_size,
        "--against {}: it sees {} tokens at once, fewer than the {} that {} is evaluated with: "
        "--block-size {} suits both",
        *o.against, grouped(other.config.block_size), grouped(block_size), o.model,
        other.config.block_size);
  return other;
}

References references_of(const Options& o, const run::OpenedModel& model, std::int64_t block_size) {
  References all;
  std::optional<run::OpenedModel> against;  // errors come before weights are read
  if (o.against) against = open_against(o, model, block_size);
  std::string and_cache;
  if (o.cache != CacheType::f32) {
    const std::string_view cache = name_of_enum(o.cache);
    all.push_back({"f32_cache",
                   fmt::format("beside keys and values in f32 (the cost of --cache {})", cache),
                   std::nullopt});
    and_cache = fmt::format(" and --cache {}", cache);
  }
  if (o.beside_f32) {
    const std::string cost = o.weights == run::kStored
                                 ? "computing with the weights as stored"
                                 : fmt::format("--weights {}, rounding included", o.weights);
    all.push_back({"f32", fmt::format("beside f32 (the cost of {}{})", cost, and_cache),
                   run::load_packed(model, "f32")});
  }
  if (against) {
    all.push_back(
        {kAgainst,
         fmt::format("against {} (the cost of rounding{}, if this model was made from it)",
                     cli::printable(*o.against), and_cache),
         run::load_packed(std::move(*against))});
  }
  return all;
}

std::string comparison_lines(const References& references, const run::TextLoss& here) {
  std::string lines;
  for (std::size_t i = 0; i < references.size(); ++i) {
    const run::Comparison& other = here.beside[i];
    lines += fmt::format(
        "{}: perplexity {:.4f} there, {:.4f} here ({:+.3f} %); mean KL divergence {:.3g} nats; the "
        "same likeliest token for {:.2f} %\n",
        references[i].title, other.perplexity, here.perplexity,
        100 * (here.perplexity / other.perplexity - 1), other.divergence, 100 * other.same_choice);
  }
  return lines;
}

Json json_of(const Options& o, const run::WindowOptions& windows, const std::string& text,
             const sampling::Evaluated& e, bool isolates, const References& references) {
  Json json = {{"model", o.model},
               {"checkpoint", o.checkpoint},
               {"weights", o.weights},
               {"cache", name_of_enum(o.cache)},
               {"text", text},
               {"block_size", windows.block_size},
               {"stride", tapegrad::json_of(windows.stride)},
               {"isolate_documents", isolates},
               {"tokens", e.loss.tokens},
               {"share", e.loss.share},
               {"loss", e.loss.loss},
               {"perplexity", e.loss.perplexity},
               {"bits_per_byte", e.loss.bits_per_byte},
               {"seconds", e.seconds}};
  for (std::size_t i = 0; i < references.size(); ++i) {
    const run::Comparison& other = e.loss.beside[i];
    Json& compared = json[references[i].key] = {{"loss", other.loss},
                                                {"perplexity", other.perplexity},
                                                {"divergence", other.divergence},
                                                {"same_choice", other.same_choice}};
    if (references[i].key == kAgainst) compared["model"] = *o.against;
  }
  return json;
}

std::optional<sampling::Evaluated> evaluate_answers(const Options& o, const run::TextModel& model,
                                                    const run::Text& text,
                                                    const run::WindowOptions& windows) {
  const auto chat_template = run::chat_template_or_chatml(model.settings, model.tokenizer);
  check(chat_template.has_value(),
        "{}: it has no chat template, and its tokenizer no <|im_start|> and <|im_end|>, so that "
        "nothing says how it writes a conversation",
        o.model);
  const run::ChatData chat =
      run::chat_data_of(text, model.tokenizer, {*chat_template, o.loss, windows.block_size});
  return sampling::evaluate_chat(model, chat, windows);
}

run::WindowOptions windows_of(const Options& o, const run::OpenedModel& model) {
  const std::int64_t longest = model.config.block_size;
  run::WindowOptions windows{
      .batch_size = o.batch_size,
      .block_size = o.block_size.value_or(model.training_length.value_or(longest)),
      .stride = o.stride,
      .limit = *run::evaluation_limit(o.limit, 0),
      .cache = o.cache};
  check(windows.block_size <= longest,
        "--block-size {} is more than the {} tokens that the model can see", windows.block_size,
        longest);
  check(!o.stride || *o.stride <= windows.block_size,
        "--stride {} is above the block size of {}, so that tokens would be left out", *o.stride,
        windows.block_size);
  return windows;
}

void print_results(const Options& o, const std::vector<evaluation::TaskResult>& results) {
  if (!o.json) return fmt::print("{}", evaluation::table_of(results));
  const Json json = {{"model", o.model},
                     {"checkpoint", o.checkpoint},
                     {"weights", o.weights},
                     {"cache", name_of_enum(o.cache)},
                     {"tasks", evaluation::json_of(results)}};
  fmt::print("{}\n", json_text(json, 2));
}

int evaluate_tasks(const Options& o, run::OpenedModel opened) {
  if (o.per_item) {
    const std::filesystem::path folder = std::filesystem::path(*o.per_item).parent_path();
    check(folder.empty() || path_exists(folder), "--per-item {}: there is no folder {}",
          *o.per_item, folder.string());
  }
  std::vector<evaluation::ChoiceTask> tasks;
  std::vector<std::vector<evaluation::ChoiceItem>> items;
  const std::int64_t limit = run::evaluation_limit(o.limit, 0)->batches.value_or(INT64_MAX);
  for (std::size_t i = 0; i < o.tasks.size(); ++i) {
    evaluation::ChoiceTask& task = tasks.emplace_back(evaluation::open_task(o.tasks[i]));
    if (!o.items.empty()) task.items = o.items[i];
    if (!o.fewshot_items.empty()) task.fewshot_items = o.fewshot_items[i];
    task.num_fewshot = o.num_fewshot.value_or(task.num_fewshot);
    items.push_back(evaluation::read_items(task, limit));
  }
  const run::TextModel model = run::load_packed(std::move(opened), o.weights);
  sampling::note_other_types(run::packed_type(o.weights), model.params);
  std::string lines;
  const auto write_lines = [&] {
    if (o.per_item) write_file_atomically(*o.per_item, lines);
  };
  std::vector<evaluation::TaskResult> results;
  try {
    results = evaluation::evaluate_tasks(model, o.cache, tasks, items, lines);
  } catch (const Error&) {  // of an item: what was scored before it stays
    write_lines();
    throw;
  }
  if (!results.empty()) print_results(o, results);
  write_lines();
  if (results.empty()) return kInterruptedExitCode;
  return interrupted() ? kInterruptedExitCode : 0;
}

int evaluate(const Options& o) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  if (o.adapter) opened = run::with_adapter(std::move(opened), *o.adapter);
  if (!o.tasks.empty()) return evaluate_tasks(o, std::move(opened));
  const bool isolates = o.isolate_documents.value_or(opened.isolates_documents);
  run::WindowOptions windows = windows_of(o, opened);
  const References references = references_of(o, opened, windows.block_size);
  const run::TextModel model = run::load_packed(std::move(opened), o.weights);
  for (const Reference& other : references) {
    windows.beside.push_back(other.model ? &other.model->gpt : &model.gpt);
  }
  sampling::note_other_types(run::packed_type(o.weights), model.params);
  const bool is_chat = !o.chat.empty();
  const run::Text text = run::read_text({.paths = is_chat ? o.chat : o.paths,
                                         .field = o.field,
                                         .encoding = o.encoding,
                                         .is_data = !o.data.empty(),
                                         .is_chat = is_chat,
                                         .strict = o.strict_data});
  check(o.cache == CacheType::f32 || (!isolates && !text.chat),
        "--cache {}: a window is read as one text, and {}", name_of_enum(o.cache),
        text.chat ? "conversations are kept apart in it"
                  : "documents are kept apart in it without --no-isolate-documents");
  const auto evaluated_text = [&] {
    data::Tokens tokens = run::tokens_of(text, model.tokenizer, o.separator);
    if (isolates) tokens = run::isolated(tokens, model.tokenizer);
    return sampling::evaluate_text(model, tokens, windows);
  };
  const auto result = text.chat ? evaluate_answers(o, model, text, windows) : evaluated_text();
  if (!result) return kInterruptedExitCode;
  check(!std::isnan(result->loss.loss), "{}: the loss is NaN: {}", o.model,
        "the model's weights are broken, or so large that they overflow");
  const std::string& name = text.tokens ? text.tokens->val_name : text.identity.name;
  if (o.json) {
    fmt::print("{}\n", json_text(json_of(o, windows, name, *result, isolates, references), 2));
  } else {
    fmt::print("{}: {}\n{}", name, result->line(), comparison_lines(references, result->loss));
  }
  return interrupted() ? kInterruptedExitCode : 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? evaluate(*options) : 0;
  });
}

const cli::Command kCommand("evaluate", cli::CommandGroup::use,
                            "measure how well a GPT predicts a text", run);

}  // namespace
}  // namespace tapegrad
