#include "tapegrad/run/text.h"

#include <algorithm>

#include "tapegrad/autograd/base/file.h"
#include "tapegrad/data/corpus.h"
#include "tapegrad/run/fingerprint.h"
#include "tapegrad/run/terminal.h"

namespace tapegrad::run {
namespace {

constexpr std::int64_t kMostTextBytes = std::int64_t{4} << 30;

std::string describe(const data::Corpus& corpus) {
  if (corpus.files.size() == 1) {
    const std::string name = corpus.files.front().filename().string();
    return name == "-" ? "stdin" : name;
  }
  std::string text = fmt::format("{} files", corpus.files.size());
  if (corpus.skipped_files > 0) text += fmt::format(" ({} skipped)", corpus.skipped_files);
  return text;
}

TextIdentity identity_of(std::string name, std::string_view contents) {
  return {std::move(name), static_cast<std::int64_t>(contents.size()), fingerprint(contents)};
}

}  // namespace

Text read_text(const CorpusSource& source) {
  data::Corpus corpus = data::read_corpus(
      std::vector<std::filesystem::path>(source.paths.begin(), source.paths.end()),
      {.max_bytes = kMostTextBytes, .field = source.field, .encoding = source.encoding});
  constexpr std::size_t most = 5;
  for (std::size_t i = 0; i < std::min(most, corpus.faulty.size()); ++i) {
    print_error(fmt::format("note: {} is left out: it {}\n", corpus.faulty[i].file.string(),
                            corpus.faulty[i].reason));
  }
  if (corpus.faulty.size() > most) {
    print_error(fmt::format("note: {} more files are left out\n", corpus.faulty.size() - most));
  }
  return text_of(describe(corpus), std::move(corpus.text));
}

Text text_of(std::string name, std::string contents) {
  Text text{{}, {}, std::make_shared<const std::string>(std::move(contents))};
  text.contents = *text.storage;
  text.identity = identity_of(std::move(name), text.contents);
  return text;
}

Text text_of_program(std::string name, std::string_view contents) {
  return {identity_of(std::move(name), contents), contents, {}};
}

Text text_of_new_run(const CorpusSource& source, const std::function<Text()>& own_text) {
  return source.paths.empty() ? own_text() : read_text(source);
}

Text text_of_run(const std::filesystem::path& folder, std::string_view format,
                 const CorpusSource& source) {
  TextIdentity stored;
  read_section(folder / kConfigFile, read_config(folder / kConfigFile, format), "text", stored);
  Text text =
      source.paths.empty()
          ? text_of(stored.name, read_file(folder / kTextFile, kMostTextBytes, Links::refused))
          : read_text(source);
  check(text.identity.fingerprint == stored.fingerprint,
        "the run in {} was made of another text: of {} with fingerprint {}, while {} has {}. "
        "Resume it with the same --corpus, or start a new run",
        folder.string(), stored.name, stored.fingerprint, text.identity.name,
        text.identity.fingerprint);
  return text;
}

void keep_text(const std::filesystem::path& folder, const data::Tokenizer& tokenizer,
               const std::vector<std::string>& corpus, const Text& text) {
  tokenizer.save(folder / kTokenizerFile);
  if (corpus.empty()) write_file_atomically(folder / kTextFile, text.contents);
}

}  // namespace tapegrad::run
