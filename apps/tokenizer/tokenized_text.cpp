#include "tapegrad/apps/tokenizer/tokenized_text.h"

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/events/tables.h"
#include "tapegrad/apps/tokenizer/tokenizer_words.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/tokenize/decode_text.h"

namespace tapegrad::tokenizers {
namespace {

constexpr double kLeastSeconds = 0.1;

void time_encoding(TokenizedText& result, const data::Tokenizer& tokenizer, std::string_view text,
                   bool special) {
  const Stopwatch watch;
  double rounds = 0, seconds = 0;
  do {
    result.tokens.clear();
    data::Encoder(tokenizer, text.size()).encode(text, special, result.tokens);
    ++rounds, seconds = watch.seconds();
  } while (seconds < kLeastSeconds);
  result.bytes_per_second = static_cast<double>(text.size()) * rounds / seconds;
}

}  // namespace

TokenizedText tokenize(const std::string& name, const data::Tokenizer& tokenizer,
                       std::string_view text, bool special) {
  TokenizedText result{
      .name = name, .method = method_of(tokenizer), .vocab_size = tokenizer.vocab_size()};
  try {
    time_encoding(result, tokenizer, text, special);
  } catch (const Error& error) {
    result.tokens.clear();
    result.error = error.what();
    return result;
  }
  result.comes_back = data::decode_text(tokenizer, result.tokens) == text;
  if (!result.tokens.empty()) {
    result.bytes_per_token =
        static_cast<double>(text.size()) / static_cast<double>(result.tokens.size());
  }
  return result;
}

std::string hex_bytes(std::string_view bytes, std::size_t most) {
  std::string text;
  for (const char byte : bytes.substr(0, most)) {
    text += fmt::format("{}{:02X}", text.empty() ? "" : " ", static_cast<unsigned char>(byte));
  }
  return text + (bytes.size() > most ? " …" : "");
}

std::string comparison_table(const std::vector<TokenizedText>& texts) {
  std::vector<events::TableRow> rows;
  std::string errors;
  for (const TokenizedText& t : texts) {
    events::TableRow row = {cli::printable(t.name), cli::printable(t.method),
                            grouped(t.vocab_size)};
    if (t.error) {
      row.insert(row.end(), {"–", "–", "–", "–", "–"});
      errors += fmt::format("{}: {}\n", cli::printable(t.name), cli::printable(*t.error));
    } else {
      row.insert(row.end(),
                 {grouped(std::ssize(t.tokens)), fmt::format("{:.3f}", t.bytes_per_token),
                  fmt::format("{:.4f}", t.tokens_per_byte()),
                  fmt::format("{:.1f}", t.bytes_per_second / 1e6), t.comes_back ? "yes" : "no"});
    }
    rows.push_back(std::move(row));
  }
  return events::text_table({"tokenizer", "method", "vocabulary", "tokens", "bytes/token",
                             "tokens/byte", "MB/s", "comes back"},
                            rows) +
         errors;
}

}  // namespace tapegrad::tokenizers
