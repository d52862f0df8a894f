#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/threads.h"
#include "tapegrad/autograd/base/file.h"
#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/run/interrupt.h"
#include "tapegrad/run/model.h"

namespace tapegrad {
namespace {

constexpr int64_t max_file_bytes = int64_t{1} << 30;
constexpr size_t max_line_bytes = size_t{1} << 20;

struct Options {
  std::string model;
  std::vector<std::string> texts;
  std::optional<std::string> file;
  int beam = 1;
  double length_penalty = nn::TranslateOptions{}.length_penalty;
  int64_t batch_size = 64;
  std::optional<int> threads;
};

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options o;
  cli::CommandLine cli("translate",
                       "Translates texts, one per line, with a model that train-seq2seq has made.");
  cli.words(o.texts, "TEXT", "what to translate; lines of stdin if there are none");
  cli.group("Texts");
  cli("model", o.model, "the run folder", {.value = "DIR"});
  cli("file", o.file, "translate its lines", {.value = "FILE"});
  cli("batch_size", o.batch_size, "lines that are read and translated together; 1 on a terminal",
      {.least = 1});
  cli.group("Search");
  cli("beam", o.beam, "hypotheses that are kept; 1 takes the likeliest token each time",
      {.least = 1});
  cli("length_penalty", o.length_penalty, "0 favours short translations; for --beam above 1",
      {.least = 0});
  cli("threads", o.threads, "threads [one per processor]", {.least = 1});
  cli.example(
      "translate --model runs/dates-1 'March 5th, 2021 at half past three in the afternoon'",
      "2021-03-05T15:30");
  cli.example("translate --model runs/dates-1 --beam 4 <dates.txt >iso.txt",
              "writes a line for each line that it reads");
  if (cli.parse_or_print(argc, argv)) return std::nullopt;
  if (!cli.given("--model")) cli::usage_error("--model is needed: the run folder of a model");
  if (o.file && !o.texts.empty()) {
    cli::usage_error("--file and texts on the command line exclude each other");
  }
  cli::use_threads(o.threads);
  cli::as_usage([&] {
    nn::TranslateOptions{.beam = o.beam, .length_penalty = o.length_penalty}.validate();
    constexpr std::int64_t most = 1 << 15;
    if (!cli.given("--batch-size")) o.batch_size = std::min(o.batch_size, most / o.beam);
    check(o.batch_size <= most / o.beam,
          "--batch-size times --beam must be at most {}, not {} x {}", most, o.batch_size, o.beam);
  });
  return o;
}

// Gathers lines, and translates them together.
class LineTranslator {
 public:
  explicit LineTranslator(const Options& o)
      : model_(run::load_translator(o.model)),
        batch_size_(static_cast<size_t>(o.batch_size)),
        place_(o.file            ? *o.file + ": line"
               : o.texts.empty() ? "stdin: line"
                                 : "text") {
    options_ = model_.options();
    options_.interrupted = run::interrupted;
    options_.beam = o.beam;
    options_.length_penalty = o.length_penalty;
  }

  void add(std::string_view line) {
    ++line_;
    if (line_ == 1) line = data::without_byte_order_mark(line);
    if (line.ends_with('\r')) line.remove_suffix(1);
    try {
      sources_.push_back(model_.tokenizer.encode(line));
    } catch (const Error& error) {
      flush();
      fail("{} {}: {}", place_, line_, error.what());
    }
    const auto length = static_cast<int64_t>(sources_.back().size());
    if (const int64_t most = model_.model.config.block_size; length > most) {
      sources_.pop_back();
      flush();
      fail("{} {} has {} tokens, and the model's longest source has {}", place_, line_, length,
           most);
    }
    if (sources_.size() >= batch_size_) flush();
  }

  // Translates the gathered lines and prints the translations. An empty line stays empty.
  void flush() {
    std::vector<std::vector<data::Token>> filled;
    for (const auto& source : sources_) {
      if (!source.empty()) filled.push_back(source);
    }
    std::vector<std::string> found;
    if (!filled.empty()) found = model_.translate(filled, options_);
    size_t next = 0;
    for (const auto& source : sources_) {
      if (run::interrupted()) break;
      fmt::print("{}\n", source.empty() ? "" : found[next++]);
    }
    // The reader of the output may be gone, while the input never ends.
    check(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "the output could not be written");
    sources_.clear();
  }

 private:
  run::Translator model_;
  size_t batch_size_;
  nn::TranslateOptions options_;
  std::vector<std::vector<data::Token>> sources_;
  const std::string place_;  // what line_ counts, for messages
  int64_t line_ = 0;
};

// Adds the lines of `text` that have an end; returns what follows them.
std::string_view add_lines(LineTranslator& translator, std::string_view text) {
  for (size_t end = 0; (end = text.find('\n')) != text.npos && !run::interrupted();) {
    translator.add(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return text;
}

void add_last_line(LineTranslator& translator, std::string_view line) {
  if (!line.empty() && !run::interrupted()) translator.add(line);
}

void add_file(LineTranslator& translator, const std::string& path) {
  const std::string text = read_file(path, max_file_bytes);
  add_last_line(translator, add_lines(translator, text));
}

void add_stdin(LineTranslator& translator) {
  std::string text, piece(size_t{1} << 16, ' ');
  while (run::wait_for_input(STDIN_FILENO)) {
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, "stdin cannot be read: {}", std::generic_category().message(errno));
    if (count == 0) break;
    text.append(piece, 0, static_cast<size_t>(count));
    text.erase(0, text.size() - add_lines(translator, text).size());
    check(text.size() <= max_line_bytes, "a line of stdin has more than {} bytes", max_line_bytes);
  }
  add_last_line(translator, text);
}

int translate(Options o) {
  if (o.texts.empty() && !o.file && ::isatty(STDIN_FILENO) == 1) o.batch_size = 1;
  LineTranslator translator(o);
  run::catch_interrupts();
  if (o.file) {
    add_file(translator, *o.file);
  } else if (!o.texts.empty()) {
    for (const std::string& text : o.texts) translator.add(text);
  } else {
    add_stdin(translator);
  }
  translator.flush();
  return run::interrupted() ? run::kInterruptedExitCode : 0;
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("translate", [&] {
    auto options = tapegrad::parse_options(argc, argv);
    return options ? tapegrad::translate(std::move(*options)) : 0;
  });
}
