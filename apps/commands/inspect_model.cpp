#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/inspect/tape_picture.h"
#include "tapegrad/apps/inspect/views.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast}, weights = "f32", text, html, tape;
  std::optional<std::string> adapter;
  bool json = false;
  cli::ComputeOptions compute;
};

bool draws_svg(const std::string& path) { return path.ends_with(".svg"); }

void check_tape(const Options& o) {
  if (o.weights != "f32")
    cli::usage_error("--tape shows a step of training, whose weights are f32");
  if (!draws_svg(o.tape) && !o.tape.ends_with(".dot")) {
    cli::usage_error("--tape {}: the name must end with .svg or .dot", o.tape);
  }
}

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(call.name,
                       "Shows what a GPT does with a text: each token's probability and what was\n"
                       "likelier, where its heads look, what it would say after each block, and\n"
                       "which tokens the loss depends on.");
  std::vector<std::string> words;
  cli.words(words, "MODEL TEXT", "the same as --model MODEL --text TEXT");
  cli("model", o.model, "a run folder, or a model of another program", {.value = "PATH"});
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("adapter", o.adapter,
      "LoRA adapters beside the model's weights: a folder of PEFT's, a GGUF, or a run with "
      "--lora-rank",
      {.value = "PATH"});
  cli.choice("weights", o.weights, run::quantized_weights(),
             "how weights lie in memory: converted to a type, or as the files have them");
  cli("text", o.text, "text that the model reads; - is stdin", {.value = "TEXT|-"});
  cli.alias("-m", "--model");
  cli.alias("-p", "--text");
  cli.group("Output");
  cli("json", o.json, "print one JSON object in place of a table");
  cli("html", o.html, "write a page to look at: one file, without network", {.value = "FILE"});
  cli("tape", o.tape,
      "draw a training step of the whole model in f32 on the text: its ops, shapes, and the bytes "
      "they keep for backward, by module; FILE ends with .svg (by Graphviz) or .dot",
      {.value = "FILE"});
  cli.options(o.compute);
  cli.example("tapegrad inspect runs/notes-1 --text 'To be, or not to be'",
              "each token with its probability");
  cli.example("tapegrad inspect runs/notes-1 --text 'To be, or not to be' --html inside.html",
              "the same with attention, logit lens and gradients, for a browser");
  cli.example("tapegrad inspect runs/notes-1 --text 'To be' --tape tape.svg",
              "the ops of a training step, as a picture");
  cli.example("tapegrad inspect SmolLM2-135M.gguf --text - --json < note.txt",
              "for other programs");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  cli::take_model(o.model, words);
  if (!cli.given("--text")) {
    if (words.empty()) cli::usage_error("--text is needed: what the model reads");
    o.text = words.front();
    words.erase(words.begin());
  }
  cli::refuse_words(words);
  if (without_byte_order_mark(o.text).empty()) {
    cli::usage_error("--text: there is nothing to look at");
  }
  if (cli.given("--tape")) check_tape(o);
  cli::use_compute(o.compute);
  return o;
}

constexpr std::int64_t kMostText = 1 << 20;  // bytes; at most 256 tokens of them are shown

std::string input_text(const Options& o) {
  std::string text = o.text == "-" ? read_stdin(kMostText) : o.text;
  text = without_byte_order_mark(text);
  check(!text.empty(), "stdin: there is nothing to look at");
  return text;
}

// The optimiser step of weights that a run has saved.
std::optional<std::int64_t> step_of(const TensorSource& weights) {
  const auto found = weights.metadata().find("iteration");
  if (found == weights.metadata().end()) return std::nullopt;
  return number_of<std::int64_t>(found->second);
}

// A model in f32, and the last tokens of a text, as many as can be shown.
struct Reading {
  run::TextModel model;
  std::optional<std::int64_t> step;
  std::int64_t text_tokens;  // of the whole text
  std::vector<data::Token> tokens;
};

Reading read(const Options& o, const std::string& text) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  if (o.adapter) opened = run::with_adapter(std::move(opened), *o.adapter);
  const std::int64_t most = inspect::most_tokens(opened.config);
  const auto step = step_of(*opened.weights);
  run::TextModel model = o.weights == "f32" ? run::load(std::move(opened))
                                            : run::load_quantized(std::move(opened), o.weights);
  sampling::note_other_types(run::quantized_type(o.weights), model.params);
  std::vector<data::Token> tokens = model.tokens_of(text);
  const std::int64_t all = std::ssize(tokens);
  tokens.erase(tokens.begin(), tokens.end() - std::min(most, all));
  return {std::move(model), step, all, std::move(tokens)};
}

inspect::Inside inside_of(const Options& o, const Reading& r) {
  try {
    return inspect::look_inside(r.model.gpt, r.tokens);
  } catch (const Error& error) {
    fail("{}: {}", o.model, error.what());
  }
}

inspect::Look look_at(const Options& o, const Reading& r) {
  return {.model = o.model,
          .step = r.step,
          .bytes_of = [&r](data::Token t) { return r.model.tokenizer.token_bytes(t); },
          .text_tokens = r.text_tokens,
          .inside = inside_of(o, r)};
}

// A step of the whole model in f32, with its dropout: what training may do beside that, such as
// adapters, recomputation and bf16, is not in it.
void draw_tape(const Options& o, const Reading& r) {
  check(r.tokens.size() > 1, "--text has one token: a loss needs two at least");
  const std::int64_t count = std::ssize(r.tokens) - 1;
  const auto slice = [&](std::int64_t begin) {
    const auto first = r.tokens.begin() + begin;
    return Tensor::from(std::vector<std::int32_t>(first, first + count), {1, count});
  };
  const NamedTensors parameters = r.model.params.parameters();
  Rng dropout(0);
  Tape tape;
  const Tensor loss = r.model.gpt.loss(slice(0), slice(1), &dropout);
  const TapeGraph graph = graph_of(tape, parameters);
  const std::string cut = std::ssize(r.tokens) < r.text_tokens
                              ? fmt::format(", the last of {}", grouped(r.text_tokens))
                              : "";
  const std::string dot = inspect::dot_of(
      graph, fmt::format("a step of {} in f32 on {} tokens{}: {} ops, which keep {:.2f} MB\nloss "
                         "{}; backward goes the same ways, upwards",
                         o.model, count, cut, graph.ops.size(),
                         static_cast<double>(graph.kept_bytes()) / 1e6, loss_text(loss.item())));
  write_file_atomically(o.tape, draws_svg(o.tape) ? inspect::svg_of(dot) : dot);
  if (!o.json) fmt::print("{} shows {}\n", o.tape, counted(std::ssize(graph.ops), "op"));
}

int show(const Options& o) {
  const Reading reading = read(o, input_text(o));
  if (!o.tape.empty()) draw_tape(o, reading);
  if (!o.tape.empty() && !o.json && o.html.empty()) return 0;
  const inspect::Look look = look_at(o, reading);
  if (!o.html.empty()) {
    write_file_atomically(o.html, inspect::html_of(look));
    if (!o.json)
      fmt::print("{} shows {}\n", o.html, counted(std::ssize(look.inside.tokens), "token"));
  }
  if (o.json) {
    fmt::print("{}\n", inspect::json_text(look));
  } else if (o.html.empty()) {
    fmt::print("{}", inspect::text_of(look));
  }
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? show(*options) : 0;
  });
}

const cli::Command kCommand("inspect", cli::CommandGroup::look, "show what a GPT does with a text",
                            run);

}  // namespace
}  // namespace tapegrad
