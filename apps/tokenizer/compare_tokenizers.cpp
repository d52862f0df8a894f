#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/tokenizer/input_text.h"
#include "tapegrad/apps/tokenizer/open_tokenizer.h"
#include "tapegrad/apps/tokenizer/tokenized_text.h"
#include "tapegrad/apps/tokenizer/tokenizer_programs.h"
#include "tapegrad/base/text/internal/page_path.h"

namespace tapegrad::tokenizers {
namespace {

struct CompareOptions {
  std::vector<std::string> tokenizers;
  std::string file, text, report;
  bool special = false;
  std::string bytes;  // of the text
};

std::optional<CompareOptions> parse_compare(const cli::Call& call) {
  CompareOptions o;
  cli::CommandLine cli(
      call.name,
      "Makes tokens of a text by several tokenizers, side by side: how many bytes a\n"
      "token has, how fast they are made, and whether the text comes back.");
  cli.words(o.tokenizers, "TOKENIZER",
            "gpt2, a tokenizer.json, a folder that has one, or a model; one at least");
  cli("file", o.file, "file that has the text; - is stdin", {.value = "FILE|-"});
  cli("text", o.text, "the text itself", {.value = "TEXT"});
  cli("special", o.special, "read special tokens in the text as such");
  cli.group("Output");
  cli("report", o.report,
      "write a page with the tokens in colours: one file, without network or script",
      {.value = "FILE"});
  cli.example("tapegrad tokenizer compare gpt2 SmolLM2-135M/ tokens/own --file books.txt",
              "a table");
  cli.example("tapegrad tokenizer compare gpt2 runs/notes-1 --file note.txt --report tokens.html",
              "the same, and a page with the tokens in colours");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (o.tokenizers.empty()) {
    cli::usage_error("which tokenizers? Give gpt2, tokenizer.json files, folders or models");
  }
  if (cli.given("--file") == cli.given("--text")) {
    cli::usage_error("give --file or --text: what the tokenizers are to be compared on");
  }
  if (cli.given("--file") && o.file.empty()) cli::usage_error("--file: the path is empty");
  if (cli.given("--report") && o.report.empty()) cli::usage_error("--report: the path is empty");
  if (!o.report.empty()) check_page_path("--report", o.report);
  o.bytes = cli.given("--file") ? input_text(o.file) : o.text;
  check(!o.bytes.empty(), "there is no text to compare on{}",
        o.file.empty() ? "" : ": " + o.file + " is empty");
  return o;
}

int compare(const CompareOptions& o) {
  std::vector<data::Tokenizer> tokenizers;
  for (const std::string& name : o.tokenizers) tokenizers.push_back(open_tokenizer(name));
  std::vector<TokenizedText> texts;
  for (std::size_t i = 0; i < tokenizers.size(); ++i) {
    texts.push_back(tokenize(o.tokenizers[i], tokenizers[i], o.bytes, o.special));
  }
  fmt::print("{}", comparison_table(texts));
  if (o.report.empty()) return 0;
  const std::string name = o.file.empty() ? "--text" : o.file == "-" ? "stdin" : o.file;
  write_file_atomically(o.report, comparison_page({name, o.bytes, texts, tokenizers}));
  fmt::print("{} shows the tokens\n", cli::printable(o.report));
  return 0;
}

}  // namespace

int compare_tokenizers(const cli::Call& call) {
  const auto options = parse_compare(call);
  return options ? compare(*options) : 0;
}

}  // namespace tapegrad::tokenizers
