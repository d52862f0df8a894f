#include "tapegrad/run/corpus/text.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/tokenize/document_ends.h"
#include "tapegrad/run/corpus/chat/chat_text.h"
#include "tapegrad/run/corpus/internal/token_folder.h"
#include "tapegrad/run/corpus/mixture.h"

namespace tapegrad::run {
namespace {

constexpr std::int64_t kMostTextBytes = std::int64_t{4} << 30;

// A character may become a token of four bytes, which stand in memory beside the text. While it is
// read it may be there twice.
constexpr double kShareOfMemory = 1.0 / 6;

std::string describe(const data::Corpus& corpus) {
  if (corpus.files.size() == 1) {
    const std::string name = corpus.files.front().filename().string();
    return name == "-" ? "stdin" : name;
  }
  std::string text = fmt::format("{} files", corpus.files.size());
  if (corpus.skipped_files > 0) text += fmt::format(" ({} skipped)", corpus.skipped_files);
  return text;
}

constexpr const char *kTextSection = "text", *kValSection = "val_text";

// One document is hashed as the text that it is, and of several ones also where they begin and end.
TextIdentity identity_of(std::string name, std::string_view contents,
                         const std::vector<data::TextRange>& documents = {}) {
  Fingerprint hash;
  hash.add(contents);
  if (documents.size() > 1) {
    for (const data::TextRange& range : documents) {
      hash.add(fmt::format("{},{};", range.begin, range.end));
    }
  }
  return {std::move(name), static_cast<std::int64_t>(contents.size()), hash.str(),
          std::ssize(documents)};
}

void set_documents(Text& text, std::vector<data::TextRange> documents) {
  text.documents = std::move(documents);
  text.identity = identity_of(text.identity.name, text.contents, text.documents);
}

void check_same(const std::filesystem::path& folder, const TextIdentity& stored,
                const TextIdentity& found, std::string_view option) {
  if (found.fingerprint == stored.fingerprint && found.documents == stored.documents) return;
  // A fingerprint does not tell a text without documents from one with a single document.
  const bool by_count = found.fingerprint == stored.fingerprint;
  const auto of = [&](const TextIdentity& text) {
    return by_count ? counted(text.documents, "document") : "fingerprint " + text.fingerprint;
  };
  fail(
      "the run in {} was made of another text: of {} with {}, while {} has {}. Resume it with the "
      "same {}, or start a new run",
      folder.string(), stored.name, of(stored), found.name, of(found), option);
}

std::shared_ptr<const Text> read_val(const CorpusSource& source) {
  if (source.val.empty()) return nullptr;
  Text val = read_text({.paths = source.val,
                        .field = source.field,
                        .encoding = source.encoding,
                        .is_chat = source.is_chat,
                        .strict = source.strict,
                        .is_pairs = source.is_pairs,
                        .notes = source.notes});
  check(!val.tokens, "--val: {} is tokens already: --data takes it, with both parts",
        source.val.front());
  return std::make_shared<const Text>(std::move(val));
}

}  // namespace

void note_left_out(const std::vector<data::Corpus::Skipped>& faulty) {
  constexpr std::size_t most = 5;
  for (std::size_t i = 0; i < std::min(most, faulty.size()); ++i) {
    print_error(
        fmt::format("note: {} is left out: it {}\n", faulty[i].file.string(), faulty[i].reason));
  }
  if (faulty.size() > most) {
    print_error(fmt::format("note: {} more files are left out\n", faulty.size() - most));
  }
}

void CorpusSource::validate() const {
  check(data::is_encoding(encoding),
        "--encoding: there is no encoding '{}'; `iconv --list` has all", encoding);
  check(!reads_stdin() || paths.size() == 1,
        "--corpus: - (stdin) cannot be read beside other texts");
  if (weighted) {
    for (const std::string& path : paths) {
      check(path == "-" || weighted_file(path).path != "-",
            "--corpus {}: - (stdin) is read alone, without a weight", path);
    }
  }
  check(std::count(val.begin(), val.end(), "-") == 0, "--val: - (stdin) is for --corpus alone");
  if (!is_chat) return;
  for (const std::string& path : paths) {
    check(weighted_file(path).path != "-", "{}: - (stdin) is for --corpus alone",
          is_pairs ? "--preferences" : "--chat");
  }
}

data::CorpusOptions corpus_options(const CorpusSource& source) {
  data::CorpusOptions options{
      .max_bytes = kMostTextBytes, .field = source.field, .encoding = source.encoding};
  const auto memory = available_memory();
  if (memory && memory->bytes * kShareOfMemory < static_cast<double>(options.max_bytes)) {
    options.max_bytes = static_cast<std::int64_t>(memory->bytes * kShareOfMemory);
    options.why_max = fmt::format("a sixth of the memory ({})", memory->text());
  }
  return options;
}

Text read_text(const CorpusSource& source) {
  if (source.is_chat) return read_chat(source);
  std::vector<WeightedFile> files;
  std::vector<std::filesystem::path> paths;
  bool all_tokens = true;
  for (const std::string& given : source.paths) {
    files.push_back(source.weighted ? weighted_file(given) : WeightedFile{given});
    paths.emplace_back(files.back().path);
    all_tokens = all_tokens && (source.is_data || is_token_folder(paths.back()));
  }
  if (all_tokens && (files.size() == 1 || source.weighted)) {
    const std::string& folder = files[0].path;
    check(source.val.empty(), "--val: {} has a part to validate with of its own", folder);
    const CorpusSource usual;
    check(source.field == usual.field, "--field {}: {} is tokens already", source.field, folder);
    check(source.encoding == usual.encoding, "--encoding {}: {} is tokens already", source.encoding,
          folder);
    return files.size() == 1 ? read_token_folder(folder) : read_token_folders(files);
  }
  for (const std::filesystem::path& path : paths) {
    check(!is_token_folder(path),
          "{}: it is tokens already, which cannot be beside other texts: give it alone",
          path.string());
  }
  Text text;
  if (is_mixture(files)) {
    text = read_mixture(files, corpus_options(source));
    set_documents(text, std::move(text.documents));
    text.identity.fingerprint = mixed_fingerprint(text.identity.fingerprint, text.mixture);
    return text;
  }
  data::Corpus corpus = data::read_corpus(paths, corpus_options(source));
  if (source.notes) note_left_out(corpus.faulty);
  check(!data::is_blank(corpus.text), "there is nothing but white space in {}",
        fmt::join(source.paths, ", "));
  text = make_text(describe(corpus), std::move(corpus.text));
  set_documents(text, std::move(corpus.documents));
  return text;
}

Text make_text(std::string name, std::string contents) {
  Text text;
  text.storage = std::make_shared<const std::string>(std::move(contents));
  text.contents = *text.storage;
  text.identity = identity_of(std::move(name), text.contents);
  return text;
}

Text text_of_program(std::string name, std::string_view contents) {
  Text text;
  text.contents = contents;
  text.identity.name = std::move(name);
  set_documents(text, {{0, contents.size()}});
  return text;
}

Text text_of_new_run(const CorpusSource& source, const std::function<Text()>& own_text) {
  Text text = source.paths.empty() ? own_text() : read_text(source);
  text.val = read_val(source);
  return text;
}

Text text_of_run(const std::filesystem::path& folder, std::string_view format,
                 const CorpusSource& source) {
  const std::filesystem::path path = folder / kConfigFile;
  const Config config = read_config(path, format);
  TextIdentity stored;
  read_section(path, config, kTextSection, stored);
  Text text =
      source.paths.empty()
          ? make_text(stored.name, read_file(folder / kTextFile, kMostTextBytes, Links::refused))
          : read_text(source);
  if (text.chat) {
    // Its conversations are its documents.
  } else if (text.tokens) {
    // Ids that are known by no tokenizer are those that were looked at when the run began.
    if (text.identity.fingerprint.empty()) {
      const auto& own = text.tokens->tokenizer;
      check_tokens(text, own ? own->vocab_size() : std::int64_t{INT32_MAX});
    }
  } else if (stored.documents == 0) {
    set_documents(text, {});
  } else if (source.paths.empty()) {  // from stdin, or of the program
    set_documents(text, {{0, text.contents.size()}});
  }
  check_same(folder, stored, text.identity,
             source.is_pairs  ? "--preferences"
             : source.is_chat ? "--chat"
             : source.is_data ? "--data"
                              : "--corpus");
  check(
      source.val.empty() || config.find(kValSection) != nullptr,
      "the run in {} was validated with a part of its corpus: leave --val out, or start a new run",
      folder.string());
  text.val = read_val(source);
  if (text.val) {
    TextIdentity stored_val;
    read_section(path, config, kValSection, stored_val);
    check_same(folder, stored_val, text.val->identity, "--val");
  }
  return text;
}

void keep_identity(Config& config, const Text& text) {
  config.set(section_of(kTextSection, text.identity));
  if (text.val) config.set(section_of(kValSection, text.val->identity));
}

void keep_text(const std::filesystem::path& folder, const data::Tokenizer& tokenizer,
               const CorpusSource& source, const Text& text) {
  tokenizer.save(folder / kTokenizerFile);
  if (source.paths.empty()) write_file_atomically(folder / kTextFile, text.contents);
}

}  // namespace tapegrad::run
