#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tapegrad/apps/seq2seq/seq2seq_data.h"
#include "tapegrad/autograd/base/file.h"
#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::apps {
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
  CommandLine cli("translate",
                  "Translates texts, one per line, with a model that train-seq2seq has made.");
  cli.words(o.texts, "TEXT", "what to translate; lines of stdin if there are none");
  cli.group("Texts");
  cli.option("--model", o.model, "DIR", "the run folder");
  cli.option("--file", o.file, "FILE", "translate its lines");
  cli.option("--batch-size", o.batch_size, "N",
             "lines that are read and translated together; 1 on a terminal", 1);
  cli.group("Search");
  cli.option("--beam", o.beam, "N",
             "hypotheses that are kept; 1 takes the likeliest token each time", 1);
  cli.option("--length-penalty", o.length_penalty, "X",
             "0 favours short translations; for --beam above 1", 0);
  cli.option("--threads", o.threads, "N", "threads [one per processor]", 1);
  cli.example(
      "translate --model runs/dates-1 'March 5th, 2021 at half past three in the afternoon'",
      "2021-03-05T15:30");
  cli.example("translate --model runs/dates-1 --beam 4 <dates.txt >iso.txt",
              "a line for each line");
  if (!cli.parse(argc, argv)) return std::nullopt;
  if (!cli.given("--model")) usage_error("--model is needed: the run folder of a model");
  if (o.file && !o.texts.empty())
    usage_error("--file and texts on the command line exclude each other");
  as_usage([&] {
    nn::TranslateOptions{.beam = o.beam, .length_penalty = o.length_penalty}.validate();
    check_threads(o.threads);
    constexpr int64_t most = 1 << 15;
    if (!cli.given("--batch-size")) o.batch_size = std::min(o.batch_size, most / o.beam);
    check(o.batch_size <= most / o.beam,
          "--batch-size times --beam must be at most {}, not {} x {}", most, o.batch_size, o.beam);
  });
  return o;
}

// Gathers lines, and translates them together.
class Translator {
 public:
  explicit Translator(const Options& o)
      : model_(load_transformer(o.model)),
        batch_size_(static_cast<size_t>(o.batch_size)),
        place_(o.file            ? *o.file + ": line"
               : o.texts.empty() ? "stdin: line"
                                 : "text") {
    options_ = translate_options(data::SpecialTokens(model_.tokenizer.vocab_size()));
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

  // Translates what has been gathered; an empty line stays one.
  void flush() {
    std::vector<std::vector<data::Token>> filled;
    for (const auto& source : sources_) {
      if (!source.empty()) filled.push_back(source);
    }
    std::vector<std::string> found;
    if (!filled.empty()) found = translate_all(model_.model, model_.tokenizer, filled, options_);
    size_t next = 0;
    for (const auto& source : sources_) {
      if (interrupted()) break;
      fmt::print("{}\n", source.empty() ? "" : found[next++]);
    }
    // Nobody may be reading any more, while there are lines without end.
    check(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "the output could not be written");
    sources_.clear();
  }

 private:
  StoredTransformer model_;
  size_t batch_size_;
  nn::TranslateOptions options_;
  std::vector<std::vector<data::Token>> sources_;
  const std::string place_;  // what line_ counts, for messages
  int64_t line_ = 0;
};

// Adds the lines of `text` that have an end; returns what follows them.
std::string_view add_lines(Translator& translator, std::string_view text) {
  for (size_t end = 0; (end = text.find('\n')) != text.npos && !interrupted();) {
    translator.add(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return text;
}

void add_last_line(Translator& translator, std::string_view line) {
  if (!line.empty() && !interrupted()) translator.add(line);
}

void add_file(Translator& translator, const std::string& path) {
  const std::string text = read_file(path, max_file_bytes);
  add_last_line(translator, add_lines(translator, text));
}

void add_stdin(Translator& translator) {
  std::string text, piece(size_t{1} << 16, ' ');
  while (wait_for_input(STDIN_FILENO)) {
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

int run(Options o) {
  if (o.threads) set_num_threads(*o.threads);
  if (o.texts.empty() && !o.file && ::isatty(STDIN_FILENO) == 1) o.batch_size = 1;
  Translator translator(o);
  catch_interrupts();
  if (o.file) {
    add_file(translator, *o.file);
  } else if (!o.texts.empty()) {
    for (const std::string& text : o.texts) translator.add(text);
  } else {
    add_stdin(translator);
  }
  translator.flush();
  return interrupted() ? interrupted_exit_code : 0;
}

}  // namespace
}  // namespace tapegrad::apps

int main(int argc, char** argv) {
  using namespace tapegrad::apps;
  return run_main("translate", [&] {
    auto options = parse_options(argc, argv);
    return options ? run(std::move(*options)) : 0;
  });
}
