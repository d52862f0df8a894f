#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/documents.h"
#include "tapegrad/data/data_folder.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::run {

struct ChatText;

// The text that a run learns, as config.json keeps it.
struct TextIdentity {
  std::string name;  // for people: "corpus.txt", "3 files"
  std::int64_t bytes = 0;
  std::string fingerprint;     // equal texts have equal ones: FNV-1a, 64 bits, in hexadecimal
  std::int64_t documents = 0;  // files, and lines of JSON lines; 0: as in Text

  template <class Self, class Table>
  static void describe(Self& t, Table& table) {
    table("name", t.name, "the name of the text, for people");
    table("bytes", t.bytes, "its length");
    table("fingerprint", t.fingerprint, "a hash of its bytes");
    table("documents", t.documents, "files, and lines of JSON lines", {.least = 0, .newer = true});
  }
};

// A part of a text that is tokens already.
struct TokenPart {
  std::vector<data::TokenFile> files;
  data::TokenSource tokens;  // of these files
  std::int64_t documents = 0;
  // The files by data.json; of files that it does not list, without a name.
  std::optional<std::vector<data::ShardInfo>> expected;
};

// A text that is tokens already: see token_folder.h.
struct TokenText {
  std::string folder, val_name;              // for people: "data/tales", "tales_val.bin"
  std::optional<data::Tokenizer> tokenizer;  // none: unknown
  TokenPart train, val;
};

// One of the paths of a text that is mixed by weights.
struct MixedText {
  std::string name;  // for people
  double weight = 1;
  std::int64_t size = 0;  // of Text::documents; of folders of tokens: tokens to train
};

// A text to learn.
struct Text {
  TextIdentity identity;
  std::string_view contents;                        // UTF-8
  std::shared_ptr<const std::string> storage = {};  // of the contents, unless part of the program
  // Files, and lines of JSON lines, of which each may be several documents. None: nothing in the
  // contents separates documents, as in pairs, and in the text of a run that is older than
  // documents.
  std::vector<data::TextRange> documents = {};
  // In the order of the documents, or of the tokens. Empty: all have the same weight.
  std::vector<MixedText> mixture = {};
  std::shared_ptr<const Text> val = {};  // the text for validation, if it is another one
  // In place of contents, documents and val. `identity` has no fingerprint before check_tokens() if
  // there is no data.json to tell it.
  std::shared_ptr<const TokenText> tokens = {};
  bool tokens_checked = false;
  // In place of contents and documents: conversations; see chat_data.h.
  std::shared_ptr<const ChatText> chat = {};
};

// The texts that --corpus and --val name, and how they are read, see data::read_corpus; or the
// folder of --data.
struct CorpusSource {
  std::vector<std::string> paths = {};  // empty: the text that is part of the program
  std::string field = "text", encoding = "utf-8";
  std::vector<std::string> val = {};  // empty: a part of the text is for validation
  bool is_data = false;               // the paths must be folders of tokens
  bool is_chat = false;               // the paths are files of conversations, with their weights
  bool weighted = false;              // the paths may have weights: weighted_file()
  bool strict = false;                // of which the first bad line is an Error
  bool is_pairs = false;              // of files that is_chat: a line is a pair
  bool notes = true;                  // says on stderr what is left out
  bool reads_stdin() const { return std::count(paths.begin(), paths.end(), "-") > 0; }
  void validate() const;  // Error, naming the option
};

// How its files are read: how large they may be, and their encoding.
data::CorpusOptions corpus_options(const CorpusSource& source);
// The texts of the source's paths, which must name some, or folders of tokens alone, for which
// `field` and `encoding` must have their defaults. Files that are left out, though
// they may be meant, are named on stderr.
Text read_text(const CorpusSource& source);
// Names files that are left out, though they may be meant, on stderr.
void note_left_out(const std::vector<data::Corpus::Skipped>& faulty);
Text make_text(std::string name, std::string contents);
// One document, as a file of these contents. `contents` must live as long as the program.
Text text_of_program(std::string name, std::string_view contents);

// The text of a new run: that of the source or, if that has no paths, what `own_text` makes.
Text text_of_new_run(const CorpusSource& source, const std::function<Text()>& own_text);
// The text of the run in a folder: that of the source or, if that has no paths, the one that the
// folder keeps. Error if the run was made of another text. Tokens without data.json are all read
// for that.
Text text_of_run(const std::filesystem::path& folder, std::string_view format,
                 const CorpusSource& source);
// Adds what the text is to the config that a run keeps.
void keep_identity(Config& config, const Text& text);
// Writes tokenizer.json, and the text if the program made it (the source has no paths): from these
// a resumed run reads both again.
void keep_text(const std::filesystem::path& folder, const data::Tokenizer& tokenizer,
               const CorpusSource& source, const Text& text);

}  // namespace tapegrad::run
