#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/events/tables.h"
#include "tapegrad/apps/inspect/token_text.h"
#include "tapegrad/apps/tokenizer/input_text.h"
#include "tapegrad/apps/tokenizer/open_tokenizer.h"
#include "tapegrad/apps/tokenizer/tokenized_text.h"
#include "tapegrad/apps/tokenizer/tokenizer_programs.h"
#include "tapegrad/apps/tokenizer/tokenizer_words.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::tokenizers {
namespace {

struct ShowOptions {
  std::string tokenizer, file;
  std::optional<std::string> text;
  std::int64_t tokens = 200;
  bool special = false;
};

std::optional<ShowOptions> parse_show(const cli::Call& call) {
  ShowOptions o;
  cli::CommandLine cli(call.name,
                       "Shows what a tokenizer is, and the tokens that it makes of a text.");
  std::vector<std::string> words;
  cli.words(words, "TOKENIZER TEXT",
            "gpt2, a tokenizer.json, a folder that has one, or a model; and a text");
  cli("file", o.file, "file that has the text; - is stdin", {.value = "FILE|-"});
  cli("tokens", o.tokens, "list at most N tokens; 0: all", {.least = 0});
  cli("special", o.special, "read special tokens in the text as such");
  cli.example("tapegrad tokenizer show gpt2 'To be, or not to be'", "id and bytes of each token");
  cli.example("tapegrad tokenizer show SmolLM2-135M.gguf", "vocabulary, special tokens, steps");
  cli.example("tapegrad tokenizer show runs/notes-1 --file note.txt --tokens 0",
              "all tokens of a file, by the tokenizer of a run");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (words.empty()) {
    cli::usage_error("which tokenizer? Give gpt2, a tokenizer.json, a folder or a model");
  }
  o.tokenizer = words.front();
  words.erase(words.begin());
  if (!words.empty()) {
    if (cli.given("--file")) cli::usage_error("TEXT and --file exclude each other");
    o.text = words.front();
    words.erase(words.begin());
  }
  cli::refuse_words(words);
  if (cli.given("--file")) {
    if (o.file.empty()) cli::usage_error("--file: the path is empty");
    o.text = input_text(o.file);
  }
  return o;
}

void print_tokens(const ShowOptions& o, const data::Tokenizer& tokenizer) {
  const TokenizedText t = tokenize(o.tokenizer, tokenizer, *o.text, o.special);
  check(!t.error, "{}: {}", o.tokenizer, t.error.value_or(""));
  fmt::print("{:<18}{}, {}, {:.3f} bytes per token, {:.4f} tokens per byte; {}\n\n", "text",
             counted(std::ssize(*o.text), "byte"), counted(std::ssize(t.tokens), "token"),
             t.bytes_per_token, t.tokens_per_byte(),
             t.comes_back ? "comes back byte for byte" : "does not come back byte for byte");
  const std::int64_t count = std::ssize(t.tokens);
  const std::int64_t listed = o.tokens == 0 ? count : std::min(count, o.tokens);
  std::vector<events::TableRow> rows;
  for (std::int64_t i = 0; i < listed; ++i) {
    const data::Token token = t.tokens[static_cast<std::size_t>(i)];
    const std::string bytes = tokenizer.token_bytes(token);
    rows.push_back({fmt::format("{}", i), fmt::format("{}", token), inspect::quoted_token(bytes),
                    hex_bytes(bytes, 16)});
  }
  fmt::print("{}", events::text_table({"place", "id", "token", "bytes"}, rows));
  if (listed < count) {
    fmt::print("… and {} more: --tokens 0 lists all\n", grouped(count - listed));
  }
}

int show(const ShowOptions& o) {
  const data::Tokenizer tokenizer = open_tokenizer(o.tokenizer);
  fmt::print("{:<18}{}\n", "tokenizer", cli::printable(o.tokenizer));
  for (const auto& [name, value] : facts_of(tokenizer)) {
    fmt::print("{:<18}{}\n", name, cli::printable(value));
  }
  if (o.text) print_tokens(o, tokenizer);
  return 0;
}

}  // namespace

int show_tokenizer(const cli::Call& call) {
  const auto options = parse_show(call);
  return options ? show(*options) : 0;
}

}  // namespace tapegrad::tokenizers
