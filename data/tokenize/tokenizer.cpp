#include "tapegrad/data/tokenize/tokenizer.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/data/tokenize/bpe/bpe_train.h"
#include "tapegrad/data/tokenize/bpe/piece_encoder.h"
#include "tapegrad/data/tokenize/document_ends.h"
#include "tapegrad/data/tokenize/internal/vocabulary.h"
#include "tapegrad/data/tokenize/read_special.h"

namespace tapegrad::data {

Tokenizer Tokenizer::of_characters(std::span<const std::string_view> documents, bool separated) {
  return {"char",
          std::make_shared<const CharVocabulary>(CharVocabulary::of_corpus(documents, separated))};
}

Tokenizer Tokenizer::gpt2() { return {"gpt2", Bpe::gpt2()}; }

Tokenizer Tokenizer::train_bpe(std::span<const std::string_view> documents,
                               std::int64_t vocab_size) {
  return {"bpe", std::make_shared<const Bpe>(train_merges(documents, vocab_size))};
}

Tokenizer Tokenizer::train_bpe(const PieceCounts& pieces, std::int64_t vocab_size,
                               const std::function<void(std::int64_t)>& on_token) {
  return {"bpe", std::make_shared<const Bpe>(train_merges(pieces, vocab_size, on_token))};
}

Encoder::Encoder(Tokenizer tokenizer, std::size_t text_bytes)
    : tokenizer_(std::move(tokenizer)), cache_(std::make_unique<PieceCache>(text_bytes)) {}

Encoder::~Encoder() = default;

void Encoder::encode(std::string_view text, bool allow_special, std::vector<Token>& tokens) {
  encode(text, ReadSpecial(allow_special), tokens);
}

void Encoder::encode_with_letters(std::string_view text, std::span<const std::size_t> letters,
                                  std::vector<Token>& tokens) {
  encode(text, ReadSpecial(text, letters), tokens);
}

void Encoder::encode(std::string_view text, const ReadSpecial& read, std::vector<Token>& tokens) {
  const auto& vocabulary = *tokenizer_.vocabulary_;
  if (const auto* bpe = vocabulary.get<Bpe>()) {
    bpe->encode(text, read, *cache_, tokens);
  } else if (const auto* hf = vocabulary.get<HfTokenizer>()) {
    hf->encode(text, read, *cache_, tokens);
  } else {
    vocabulary.get<CharVocabulary>()->encode(text, tokens);
  }
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool allow_special) const {
  std::vector<Token> tokens;
  Encoder(*this, text.size()).encode(text, allow_special, tokens);
  return tokens;
}

std::vector<Token> Tokenizer::encode_with_letters(std::string_view text,
                                                  std::span<const std::size_t> letters) const {
  std::vector<Token> tokens;
  Encoder(*this, text.size()).encode_with_letters(text, letters, tokens);
  return tokens;
}

std::vector<std::size_t> Tokenizer::special_places(std::string_view text) const {
  std::vector<std::size_t> places;
  if (const auto* hf = vocabulary_->get<HfTokenizer>()) {
    places = hf->special_places(text);
    check(!hf->finds_special_in_normalized() ||
              encode_with_letters(text, places) == encode(text, false),
          "[tokenizer] a text spells a special token, and where is not known, since the tokenizer "
          "finds such tokens in normalized texts");
  } else if (vocabulary_->get<Bpe>() != nullptr) {
    constexpr std::string_view mark = Bpe::kEndOfTextBytes;
    for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + 1)) {
      places.push_back(at);
    }
  }
  return places;
}

std::vector<Token> Tokenizer::encode_documents(std::span<const std::string_view> documents,
                                               bool allow_special) const {
  std::size_t bytes = 0;
  for (const std::string_view document : documents) bytes += document.size() + 2;
  std::vector<Token> tokens;
  if (kind_ == "char") tokens.reserve(bytes);
  Encoder encoder(*this, bytes);
  DocumentEnds ends(*this, allow_special);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (i > 0) {
      const std::vector<Token> between = ends.separator();
      tokens.insert(tokens.end(), between.begin(), between.end());
    }
    ends.see(documents[i], true);
    if (documents[i].empty()) continue;  // it only stands for the end of the one before it
    const std::size_t place = tokens.size();
    encoder.encode(documents[i], allow_special, tokens);
    if (lacks_begin(std::span(tokens).subspan(place))) {
      tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(place), begin().begin(),
                    begin().end());
    }
  }
  return tokens;
}

bool Tokenizer::lacks_begin(std::span<const Token> document) const {
  const std::span<const Token> own = begin();
  return document.size() < own.size() || !std::equal(own.begin(), own.end(), document.begin());
}

DocumentEnds::DocumentEnds(const Tokenizer& tokenizer, bool allow_special)
    : tokenizer_(tokenizer),
      mark_(allow_special && tokenizer.end_of_text()
                ? tokenizer.token_bytes(*tokenizer.end_of_text())
                : "") {}

void DocumentEnds::see(std::string_view piece, bool first) {
  if (first) last_ = {};
  if (first) has_mark_ = false;
  if (piece.empty()) return;
  last_ = piece.back();
  if (!is_blank(piece)) has_mark_ = !mark_.empty() && ends_with_mark(piece, mark_);
}

std::vector<Token> DocumentEnds::separator() const {
  if (has_mark_) return {};
  if (const auto end = tokenizer_.end_of_text()) return {*end};
  return tokenizer_.encode(empty_line_after({&last_, 1}));
}

std::size_t Tokenizer::last_cut(std::string_view text) const {
  if (const auto* bpe = vocabulary_->get<Bpe>()) {
    return bpe->last_cut(text);
  }
  if (kind_ != "char") return 0;
  std::size_t place = text.size();
  const auto is_inside = [&] { return (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80; };
  do {
    place -= std::min<std::size_t>(place, 1);
  } while (place > 0 && is_inside());
  return place;
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    check(tokens[i] >= 0 && tokens[i] < vocab_size(),
          "[tokenizer] token {} at position {} is outside the vocabulary of {} tokens", tokens[i],
          i, vocab_size());
    text += bytes_of(tokens[i]);
  }
  return text;
}

std::string Tokenizer::token_bytes(Token token) const { return decode({&token, 1}); }

std::string_view Tokenizer::bytes_of(Token token) const {
  const auto bytes = [&](const auto& vocabulary) {
    return token < vocabulary->size() ? vocabulary->bytes(token) : std::string_view();
  };
  return std::visit(bytes, vocabulary_->kind);
}

std::int64_t Tokenizer::vocab_size() const { return std::max(padded_size_, vocabulary_->size()); }

bool Tokenizer::is_added(Token token) const {
  if (const auto* hf = vocabulary_->get<HfTokenizer>()) return hf->is_added(token);
  return end_of_text() == token;
}

std::optional<Token> Tokenizer::end_of_text() const {
  if (const auto* hf = vocabulary_->get<HfTokenizer>()) {
    const std::optional<Token> named = hf->named_end();
    const bool ends = named && std::count(ends_.begin(), ends_.end(), *named) > 0;
    return ends_.empty() || ends ? named : ends_.front();
  }
  const auto* bpe = vocabulary_->get<Bpe>();
  return bpe ? std::optional(bpe->end_of_text()) : std::nullopt;
}

std::vector<Token> Tokenizer::ends() const {
  const std::optional<Token> end = end_of_text();
  return ends_.empty() && end ? std::vector{*end} : ends_;
}

Tokenizer Tokenizer::ending_at(std::span<const std::int64_t> ends) const {
  Tokenizer ending = *this;
  ending.ends_.clear();
  for (const std::int64_t id : ends) {
    const bool is_text = id >= 0 && id < vocab_size() && !bytes_of(static_cast<Token>(id)).empty();
    check(is_text, "eos_token_id {} is no token of the tokenizer, which has {}", id, vocab_size());
    ending.ends_.push_back(static_cast<Token>(id));
  }
  return ending;
}

std::span<const Token> Tokenizer::begin() const {
  const auto* hf = vocabulary_->get<HfTokenizer>();
  return hf ? std::span(hf->begin()) : std::span<const Token>();
}

std::optional<std::int64_t> bpe_size(std::string_view spec) {
  constexpr std::string_view kPrefix = "bpe:";
  if (!spec.starts_with(kPrefix)) return std::nullopt;
  return number_of<std::int64_t>(spec.substr(kPrefix.size()));
}

bool is_path_of_tokenizer(std::string_view spec) {
  if (spec.find_first_of("/.") != std::string_view::npos) return true;
  const bool is_name = spec.empty() || spec == "char" || spec == "gpt2" || bpe_size(spec);
  return !is_name && path_exists(spec);
}

Tokenizer make_tokenizer(std::string_view spec, std::span<const std::string_view> documents) {
  if (spec == "char") {
    return Tokenizer::of_characters(documents);
  }
  if (spec == "gpt2") {
    return Tokenizer::gpt2();
  }
  if (const auto vocab_size = bpe_size(spec)) {
    return Tokenizer::train_bpe(documents, *vocab_size);
  }
  if (is_path_of_tokenizer(spec)) return Tokenizer::from_hf(spec);
  fail(
      "[tokenizer] '{}' is not a tokenizer: choose char (the characters of the corpus), gpt2, "
      "bpe:N (N tokens learned from the corpus, such as bpe:1024), or the path of a tokenizer.json",
      spec);
}

}  // namespace tapegrad::data
