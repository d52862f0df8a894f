// Corpora that are read piece by piece: what comes out is what comes out of the whole.

#include <fmt/format.h>

#include <random>

#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/document_stream.h"
#include "tapegrad/data/corpus/documents.h"
#include "tapegrad/data/tokenize/bpe/gpt2_pieces.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

const std::string kMark = "<|endoftext|>";

// Texts of what is hard to cut: contractions, runs of spaces, marks and parts of them, separators.
std::string random_text(std::mt19937& random, std::size_t parts) {
  static const std::vector<std::string> kParts = {
      "a",  "word", "'s",     "'",      "'l",        "l",        " ",  "  ",
      "\n", "\n\n", "\t",     "1",      "23",        ".",        "!?", "é",
      "中", "、",   "\u3000", "\u00A0", "<|end",     "oftext|>", "--", "<|endoftext|>",
      "|>", "<",    "\r\n",   "½",      "\U0001F600"};
  std::string text;
  for (std::size_t i = 0; i < parts; ++i) text += kParts[random() % kParts.size()];
  return text;
}

std::vector<std::string> streamed(const std::vector<std::filesystem::path>& paths,
                                  const Separators& separators, const PieceCut& cut) {
  DocumentStream stream(paths, {}, separators, cut);
  std::vector<std::string> documents;
  bool open = false;
  for (DocumentPiece piece; stream.next(piece); open = !piece.last) {
    REQUIRE(piece.first == !open);
    REQUIRE(!piece.text.empty());
    if (piece.first) documents.emplace_back();
    documents.back() += piece.text;
  }
  REQUIRE(!open);
  return documents;
}

}  // namespace

TEST_CASE("a text that arrives in parts has the documents of the whole", "[document_stream]") {
  std::mt19937 random(1);
  const std::vector<Separators> all{
      {}, {"--", ""}, {"", kMark}, {"\n\n", kMark}, {kMark, kMark}, {"|>", kMark}};
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random, random() % 40);
    const Separators& separators = all[random() % all.size()];
    std::vector<DocumentEdge> whole, parts;
    DocumentCutter(separators).scan(text, 0, true, whole);
    DocumentCutter cutter(separators);
    std::size_t begin = 0, end = 0;
    do {
      end = std::min(text.size(), end + random() % 20);
      // Not all that is not needed must be left out.
      begin += random() % 2 == 0 ? 0 : cutter.needed_from() - begin;
      cutter.scan(std::string_view(text).substr(begin, end - begin), begin, end == text.size(),
                  parts);
    } while (end < text.size());
    INFO(text << "\nseparator " << separators.text << " mark " << separators.end_of_text);
    REQUIRE(parts == whole);
  }
}

TEST_CASE("the documents of a stream are those of the corpus", "[document_stream]") {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    const TempFolder folder;
    for (const char* name : {"in/1.txt", "in/2.txt", "in/3.txt"}) {
      folder.put(name, "x" + random_text(random, 300'000));  // of several chunks
    }
    folder.put("in/4.jsonl", "{\"text\": \"one\"}\n{\"text\": \" \"}\n{\"text\": \"two--three\"}");
    const Separators separators{round % 2 == 0 ? "--" : "", round % 3 == 0 ? kMark : ""};
    const Corpus corpus = read_corpus(std::vector{folder / "in"});
    const auto whole = cut_documents(corpus.text, corpus.documents, separators);
    PieceCut cut = cut_anywhere();
    cut.usual = 1000;
    const auto documents = streamed({folder / "in"}, separators, cut);
    REQUIRE(std::equal(documents.begin(), documents.end(), whole.begin(), whole.end()));
  }
}

TEST_CASE("a text that is cut where it may be has the tokens of the whole", "[document_stream]") {
  std::mt19937 random(3);
  const Tokenizer gpt2 = Tokenizer::gpt2();
  std::size_t cuts = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string text = random_text(random, 2 + random() % 20);
    const Tokenizer tokenizer = round % 2 == 0 ? gpt2 : Tokenizer::of_characters(text);
    // What stands behind must not matter.
    const std::size_t seen = random() % (text.size() + 1);
    std::size_t end = seen;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const std::size_t place = tokenizer.last_cut(std::string_view(text).substr(0, end));
    if (place == 0) continue;
    ++cuts;
    REQUIRE(place < end);
    auto tokens = tokenizer.encode(text.substr(0, place), true);
    const auto rest = tokenizer.encode(text.substr(place), true);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    INFO(text << "\ncut at " << place);
    REQUIRE(tokens == tokenizer.encode(text, true));
  }
  CHECK(cuts > 2000);
}

TEST_CASE("a word that cannot be cut is refused when it is too long", "[document_stream]") {
  const TempFolder folder;
  const auto file = folder.put("long", std::string(5000, 'a') + " end");
  const Tokenizer gpt2 = Tokenizer::gpt2();
  PieceCut cut{[&](std::string_view text) { return gpt2.last_cut(text); }, 100, 4000};
  CHECK_THROWS_WITH(streamed({file}, {}, cut),
                    ContainsSubstring("long' has a document with more than 4000") &&
                        ContainsSubstring("--separator"));
  cut.most = 6000;
  CHECK(streamed({file}, {}, cut).size() == 1);
  // Of a tokenizer that knows no cut, a whole document.
  const PieceCut none{[](std::string_view) { return std::size_t{0}; }, 4000, 4000};
  CHECK_THROWS_WITH(streamed({file}, {}, none), ContainsSubstring("a document with"));
}

TEST_CASE("characters and faults at the border of two chunks are found", "[document_stream]") {
  const TempFolder folder;
  for (std::size_t shift = 0; shift < 4; ++shift) {
    const std::string start(std::size_t{(1 << 18) - 4} + shift, '\n');
    const auto good = folder.put("good", start + "\U0001F600\U0001F600");
    CHECK(read_corpus(std::vector{good}).text == TempFolder::get(good));
    const auto latin1 = folder.put("latin1", start + "caf\xE9s");
    CHECK_THROWS_WITH(read_corpus(std::vector{latin1}),
                      ContainsSubstring(fmt::format("not UTF-8 text: byte {} is 0xe9, in line {}",
                                                    start.size() + 3, start.size() + 1)));
    const auto cut = folder.put("cut", start + "\xF0\x9F\x98");
    CHECK_THROWS_WITH(read_corpus(std::vector{cut}),
                      ContainsSubstring(fmt::format("byte {} is 0xf0", start.size())));
    const auto binary = folder.put("nul", start + std::string("ab\0", 3));
    CHECK_THROWS_WITH(read_corpus(std::vector{binary}),
                      ContainsSubstring(fmt::format("byte {} is NUL", start.size() + 2)));
    const auto wide = folder.put("wide", start + "caf\xE9");
    CHECK(read_corpus(std::vector{wide}, {.encoding = "latin-1"}).text == start + "café");
  }
}

TEST_CASE("a large file of a folder is left out for what comes late", "[document_stream]") {
  const TempFolder folder;
  const std::string large(std::size_t{5} << 20, 'a');
  folder.put("in/1", large + "\xE9");
  folder.put("in/2", large);
  const Corpus corpus = read_corpus(std::vector{folder / "in"});
  CHECK(corpus.text == large);
  REQUIRE(corpus.faulty.size() == 1);
  CHECK(corpus.faulty[0].reason.find("byte 5242880 is 0xe9") != std::string::npos);
}

TEST_CASE("a line of JSON has a limit", "[document_stream]") {
  const TempFolder folder;
  const auto file = folder.put(
      "a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + std::string(1 << 20, 'b') + "\"}\n");
  CHECK(read_corpus(std::vector{file}).documents.size() == 2);
  CHECK_THROWS_WITH(read_corpus(std::vector{file}, {.max_line_bytes = 1 << 19}),
                    ContainsSubstring("a.jsonl', line 2 has more than 524288 bytes"));
}
