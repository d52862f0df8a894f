// Texts to learn, and to continue: as a file, packed or not, or of JSON lines if the input has an
// even size; split, and encoded by each kind of tokenizer.

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/document_stream.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

// A tokenizer that knows all bytes, and learnt some merges.
const data::Tokenizer& learnt() {
  static const auto tokenizer = data::Tokenizer::train_bpe(
      "the cat sat on the mat, the cat sat, the mat, the cat and the other cat sat on the mat",
      261);
  return tokenizer;
}

void check_same(std::string_view text, const data::Tokenizer& tokenizer) {
  const std::vector<data::Token> tokens = tokenizer.encode(text);
  if (tokenizer.decode(tokens) != text) fuzz::finding("the text has changed");
  Utf8Stream stream;
  std::string streamed;
  for (const data::Token token : tokens) streamed += stream.push(tokenizer.token_bytes(token));
  streamed += stream.flush();
  if (!find_invalid_utf8(text) && streamed != text) fuzz::finding("the stream has changed");
  if (find_invalid_utf8(streamed)) fuzz::finding("the stream is not UTF-8");
}

// Documents lose nothing, have the ids of their text, and each part gets some.
void check_documents(const data::Corpus& corpus, double val_fraction) {
  const std::vector<std::string_view> documents =
      data::cut_documents(corpus.text, corpus.documents, {.end_of_text = "<|endoftext|>"});
  if (corpus.documents.size() == 1) {
    std::string joined;
    for (const std::string_view document : documents) joined += document;
    if (joined != corpus.text) fuzz::finding("documents lose text");
    if (learnt().encode_documents(documents, true) != learnt().encode(corpus.text, true)) {
      fuzz::finding("documents have other tokens than their text");
    }
  }
  Rng rng(1);
  const data::DocumentSplit split =
      data::split_documents(corpus.text, documents, val_fraction, rng);
  if (split.whole && (split.train.empty() || split.val.empty() ||
                      split.train.size() + split.val.size() != documents.size())) {
    fuzz::finding("the split by document loses documents");
  }
  try {
    static_cast<void>(data::cut_documents(corpus.text, corpus.documents, {"a", "<|endoftext|>"}));
  } catch (const Error&) {  // nothing but separators
  }
}

// A stream that is cut into small pieces has the same documents, and its cuts change no token.
void check_stream(const std::filesystem::path& path, const data::Corpus& corpus) {
  const data::Separators separators{"a", "<|endoftext|>"};
  data::PieceCut cut{[](std::string_view text) { return learnt().last_cut(text); }};
  cut.usual = 20;
  data::DocumentStream stream({&path, 1}, {.max_bytes = 1 << 20}, separators, cut);
  std::vector<std::string> documents;
  std::vector<std::vector<data::Token>> tokens;
  for (data::DocumentPiece piece; stream.next(piece);) {
    if (piece.first) documents.emplace_back(), tokens.emplace_back();
    documents.back() += piece.text;
    const auto more = learnt().encode(piece.text, true);
    tokens.back().insert(tokens.back().end(), more.begin(), more.end());
  }
  if (documents.empty()) return;  // nothing but white space and separators
  const auto whole = data::cut_documents(corpus.text, corpus.documents, separators);
  if (!std::equal(documents.begin(), documents.end(), whole.begin(), whole.end())) {
    fuzz::finding("a stream has other documents");
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (tokens[i] != learnt().encode(whole[i], true)) fuzz::finding("a cut has changed tokens");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  check_same(bytes, learnt());
  static_cast<void>(learnt().encode(bytes, true));
  const std::string name = size % 2 == 0 ? "corpus.jsonl" : "corpus.txt";
  const std::filesystem::path path = fuzz::put(name, bytes);
  fuzz::accepts(name, [&] {
    const data::Corpus corpus = data::read_corpus({&path, 1}, {.max_bytes = 1 << 20});
    // Any fraction, and distant ones for texts of almost equal sizes.
    check_stream(path, corpus);
    check_documents(corpus, static_cast<double>(1 + size * 331 % 999) / 1000);
    const data::TextSplit split = data::split_text(corpus.text, 0.9);
    if (std::string(split.train) + std::string(split.val) != corpus.text) {
      fuzz::finding("the split loses text");
    }
    check_same(corpus.text, data::Tokenizer::of_characters(corpus.text));
    try {
      check_same(corpus.text, data::Tokenizer::train_bpe(corpus.text, 260));
    } catch (const Error&) {  // too short a text to learn three merges
    }
  });
  return 0;
}
