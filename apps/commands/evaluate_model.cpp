#include <cmath>
#include <exception>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/evaluate/references.h"
#include "tapegrad/apps/evaluate/task_program.h"
#include "tapegrad/apps/sample/evaluate_text.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad {
namespace {

struct Options {
  std::vector<std::string> models;
  std::string model;  // the one of these that is evaluated
  std::string checkpoint{run::kLast}, weights{run::kStored}, limit = "all";
  std::vector<std::string> paths;
  std::string data, field = "text", encoding = "utf-8", separator;
  std::vector<std::string> chat;
  data::ChatLoss loss = data::ChatLoss::answers;
  bool strict_data = false;
  evaluation::TaskOptions tasks;
  std::optional<std::string> adapter, against, report;
  std::optional<std::int64_t> block_size, stride;
  std::optional<bool> isolate_documents;
  std::int64_t batch_size = 8;
  bool json = false, beside_f32 = false;
  CacheType cache = CacheType::f32;
  cli::ComputeOptions compute;

  evaluation::ReferenceOptions references() const {
    return {model, weights, cache, beside_f32, against};
  }
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

void check_models(const Options& o, const cli::CommandLine& cli) {
  if (o.models.size() == 1) return;
  for (const char* option : {"--adapter", "--against", "--beside-f32", "--per-item"}) {
    if (cli.given(option)) cli::usage_error("{} is for one --model", option);
  }
}

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(
      call.name,
      "Tells how well a GPT predicts a text: its mean loss in nats per token,\n"
      "perplexity, and bits per byte. With --task: how often it finds the right choice, "
      "word or answer.");
  cli.words(o.paths, "MODEL PATH", "files and folders of text; - is stdin");
  cli.group("Model");
  cli("model", o.models,
      "a run folder, or a model of another program; several ones are evaluated one after the "
      "other, "
      "and shown side by side",
      {.value = "PATH"});
  cli.one_value_each("--model");
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
  if (o.models.empty()) cli::take_model(o.models.emplace_back(), o.paths);
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
    run::evaluation_limit(o.limit, 0);
  });
  cli::use_compute(o.compute);
  return o;
}

Json json_of(const Options& o, const run::WindowOptions& windows, const std::string& text,
             const sampling::Evaluated& e, bool isolates, std::uint64_t weight_bytes,
             const evaluation::References& references) {
  Json json = {{"model", o.model},
               {"checkpoint", o.checkpoint},
               {"weights", o.weights},
               {"cache", name_of_enum(o.cache)},
               {"weight_bytes", weight_bytes},
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
  evaluation::add_comparisons(json, o.references(), references, e.loss);
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

// Of the tensors in the files, as they are stored.
std::uint64_t bytes_of(const TensorSource& weights) {
  std::uint64_t bytes = 0;
  for (const auto& [name, entry] : weights.entries()) {
    if (entry.type != nullptr) bytes += stored_bytes(*entry.type, entry.shape).value_or(0);
  }
  return bytes;
}

// Nothing if a signal comes before there is a result.
std::optional<evaluation::Evaluation> evaluate(const Options& o) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  if (o.adapter) opened = run::with_adapter(std::move(opened), *o.adapter);
  const std::uint64_t weight_bytes = bytes_of(opened.parts ? *opened.parts : *opened.weights);
  if (!o.tasks.names.empty()) {
    const evaluation::TaskCall call{.model = o.model,
                                    .checkpoint = o.checkpoint,
                                    .weights = o.weights,
                                    .cache = o.cache,
                                    .limit = run::evaluation_limit(o.limit, 0)->batches,
                                    .weight_bytes = weight_bytes,
                                    .against = o.against};
    return evaluation::run_tasks(o.tasks, call, std::move(opened));
  }
  const bool isolates = o.isolate_documents.value_or(opened.isolates_documents);
  run::WindowOptions windows = windows_of(o, opened);
  const evaluation::References references =
      evaluation::references_of(o.references(), opened, windows.block_size);
  const run::TextModel model = run::load_packed(std::move(opened), o.weights);
  for (const evaluation::Reference& other : references) {
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
  if (!result) return std::nullopt;
  check(!std::isnan(result->loss.loss), "{}: the loss is NaN: {}", o.model,
        "the model's weights are broken, or so large that they overflow");
  const std::string& name = text.tokens ? text.tokens->val_name : text.identity.name;
  return evaluation::Evaluation{
      json_of(o, windows, name, *result, isolates, weight_bytes, references),
      fmt::format("{}: {}\n{}", name, result->line(),
                  evaluation::comparison_lines(references, result->loss))};
}

int evaluate_all(Options o) {
  std::vector<Json> models;
  std::string shown;
  std::exception_ptr failure;  // of a later model: what there is before it is printed
  if (o.report) evaluation::check_folder_of("--report", *o.report);
  if (o.models.size() > 1) {
    for (const std::string& model : o.models) run::open_model(model, o.checkpoint);
  }
  for (const std::string& model : o.models) {
    if (interrupted()) break;
    o.model = model;
    try {
      auto evaluation = evaluate(o);
      if (!evaluation) break;
      models.push_back(std::move(evaluation->json));
      shown = evaluation->shown;
    } catch (const Error&) {
      if (models.empty()) throw;
      failure = std::current_exception();
      break;
    }
  }
  if (models.empty()) return kInterruptedExitCode;
  const bool alone = o.models.size() == 1;
  if (o.json) {
    fmt::print("{}\n", json_text(alone ? models.front() : Json{{"models", models}}, 2));
  } else {
    fmt::print("{}", alone ? shown : evaluation::models_table(models));
  }
  if (o.report) write_file_atomically(*o.report, evaluation::models_page(models));
  if (failure) std::rethrow_exception(failure);
  return interrupted() ? kInterruptedExitCode : 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? evaluate_all(*options) : 0;
  });
}

const cli::Command kCommand("evaluate", cli::CommandGroup::use,
                            "measure how well a GPT predicts a text", run);

}  // namespace
}  // namespace tapegrad
