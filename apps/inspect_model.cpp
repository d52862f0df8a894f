#include <charconv>
#include <cstdio>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/inspect/views.h"
#include "tapegrad/autograd/base/file.h"
#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/run/model.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast}, text, html;
  bool json = false;
  cli::ComputeOptions compute;
};

std::optional<Options> parse(int argc, const char* const* argv) {
  Options o;
  cli::CommandLine cli("inspect",
                       "Shows what a GPT does with a text: each token's probability and what was\n"
                       "likelier, where its heads look, what it would say after each block, and\n"
                       "which tokens the loss depends on.");
  cli("model", o.model, "a run folder, or a model of another program", {.value = "PATH"});
  cli("checkpoint", o.checkpoint, "whose weights: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("text", o.text, "what the model reads; - is stdin", {.value = "TEXT|-"});
  cli.group("Output");
  cli("json", o.json, "print one JSON object in place of a table");
  cli("html", o.html, "write a page to look at: one file, without network", {.value = "FILE"});
  cli.options(o.compute);
  cli.example("inspect --model runs/notes-1 --text 'To be, or not to be'",
              "each token with its probability");
  cli.example("inspect --model runs/notes-1 --text 'To be, or not to be' --html inside.html",
              "the same with attention, logit lens and gradients, for a browser");
  cli.example("inspect --model SmolLM2-135M.gguf --text - --json < note.txt", "for other programs");
  if (cli.parse_or_print(argc, argv)) return std::nullopt;
  if (!cli.given("--model"))
    cli::usage_error("--model is needed: a run folder, or a model of another program");
  if (!cli.given("--text")) cli::usage_error("--text is needed: what the model reads");
  if (o.text.empty()) cli::usage_error("--text: there is nothing to look at");
  if (cli.given("--html") && o.html.empty()) cli::usage_error("--html needs the name of a file");
  cli::use_compute(o.compute);
  return o;
}

constexpr std::size_t kMostText = 1 << 20;  // bytes; at most 256 tokens of them are shown

std::string read_stdin() {
  std::string text;
  char piece[1 << 14];
  while (const std::size_t count = std::fread(piece, 1, sizeof piece, stdin)) {
    text.append(piece, count);
    check(text.size() <= kMostText, "stdin has more than {} bytes", kMostText);
  }
  text = data::without_byte_order_mark(text);
  check(!text.empty(), "stdin: there is nothing to look at");
  return text;
}

// The optimiser step of weights that a run has saved.
std::optional<std::int64_t> step_of(const TensorSource& weights) {
  const auto found = weights.metadata().find("iteration");
  if (found == weights.metadata().end()) return std::nullopt;
  std::int64_t step = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [stop, error] = std::from_chars(found->second.data(), end, step);
  return error == std::errc() && stop == end ? std::optional(step) : std::nullopt;
}

inspect::Look look_at(const Options& o, const std::string& text) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  const auto most = static_cast<std::size_t>(inspect::most_tokens(opened.config));
  const auto step = step_of(*opened.weights);
  const run::TextModel model = run::load(std::move(opened));
  const std::vector<data::Token> tokens = model.tokens_of(text);
  const auto last = std::span(tokens).last(std::min(most, tokens.size()));
  return {o.model, step, model.tokenizer, std::ssize(tokens),
          inspect::look_inside(model.gpt, last)};
}

int show(const Options& o) {
  const inspect::Look look = look_at(o, o.text == "-" ? read_stdin() : o.text);
  if (!o.html.empty()) {
    write_file_atomically(o.html, inspect::html_of(look));
    if (!o.json) fmt::print("{} shows {} tokens\n", o.html, look.inside.tokens.size());
  }
  if (o.json) {
    fmt::print("{}\n", inspect::json_text(look));
  } else if (o.html.empty()) {
    fmt::print("{}", inspect::text_of(look));
  }
  return 0;
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("inspect", [&] {
    const auto options = tapegrad::parse(argc, argv);
    return options ? tapegrad::show(*options) : 0;
  });
}
