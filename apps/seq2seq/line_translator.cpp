#include "tapegrad/apps/seq2seq/line_translator.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::seq2seq {
namespace {

constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 30;
constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;

}  // namespace

LineTranslator::LineTranslator(const LineOptions& o, std::string place)
    : model_(run::load_translator(o.model, o.checkpoint)),
      batch_size_(static_cast<std::size_t>(o.batch_size)),
      options_(model_.options()),
      place_(std::move(place)) {
  options_.interrupted = interrupted;
  options_.beam = o.beam;
  options_.length_penalty = o.length_penalty;
}

void LineTranslator::add(std::string_view line) {
  ++line_;
  if (line_ == 1) line = without_byte_order_mark(line);
  if (line.ends_with('\r')) line.remove_suffix(1);
  try {
    sources_.push_back(model_.tokenizer.encode(line));
  } catch (const Error& error) {
    flush();
    fail("{} {}: {}", place_, line_, error.what());
  }
  const auto length = static_cast<std::int64_t>(sources_.back().size());
  if (const std::int64_t most = model_.model.config.block_size; length > most) {
    sources_.pop_back();
    flush();
    fail("{} {} has {} tokens, and the model's longest source has {}", place_, line_, length, most);
  }
  if (sources_.size() >= batch_size_) flush();
}

void LineTranslator::flush() {
  std::vector<std::vector<data::Token>> filled;
  for (const auto& source : sources_) {
    if (!source.empty()) filled.push_back(source);
  }
  std::vector<std::string> found;
  if (!filled.empty()) found = model_.translate(filled, options_);
  std::size_t next = 0;
  for (const auto& source : sources_) {
    if (interrupted()) break;
    fmt::print("{}\n", source.empty() ? "" : found[next++]);
  }
  // The reader of the output may be gone, while the input never ends.
  flush_stdout();
  sources_.clear();
}

// Adds the lines of `text` that have an end; returns what follows them.
std::string_view LineTranslator::add_lines(std::string_view text) {
  for (std::size_t end = 0; (end = text.find('\n')) != text.npos && !interrupted();) {
    add(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return text;
}

void LineTranslator::add_last_line(std::string_view line) {
  if (!line.empty() && !interrupted()) add(line);
}

void LineTranslator::add_file(const std::string& path) {
  const std::string text = read_file(path, kMostFileBytes);
  add_last_line(add_lines(text));
}

void LineTranslator::add_stdin() {
  std::string text, piece(std::size_t{1} << 16, ' ');
  while (wait_for_input(STDIN_FILENO)) {
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, "stdin cannot be read: {}", std::generic_category().message(errno));
    if (count == 0) break;
    text.append(piece, 0, static_cast<std::size_t>(count));
    text.erase(0, text.size() - add_lines(text).size());
    check(text.size() <= kMostLineBytes, "a line of stdin has more than {} bytes", kMostLineBytes);
  }
  add_last_line(text);
}

}  // namespace tapegrad::seq2seq
