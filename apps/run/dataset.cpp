#include "tapegrad/run/dataset.h"

#include <filesystem>

#include "tapegrad/data/corpus.h"
#include "tapegrad/run/model_folder.h"

namespace tapegrad::embedded {
std::string_view default_corpus();
}

namespace tapegrad::apps {
namespace {

constexpr double train_share = 0.9;

std::string describe(const data::Corpus& corpus) {
  if (corpus.files.size() == 1) return corpus.files.front().filename().string();
  std::string text = fmt::format("{} files", corpus.files.size());
  if (corpus.skipped_files > 0) text += fmt::format(" ({} skipped)", corpus.skipped_files);
  return text;
}

// FNV-1a with 64 bits, in hexadecimal.
std::string fingerprint(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

void check_length(const std::vector<data::Token>& tokens, std::string_view split,
                  const TrainOptions& o) {
  check(static_cast<int64_t>(tokens.size()) > o.block_size,
        "the corpus is too short: its {} part has {} tokens, and --block-size {} needs at least "
        "{}. Use more text or a smaller --block-size",
        split, tokens.size(), o.block_size, o.block_size + 1);
}

// Merges are learnt from the training part alone. A character that only the last part has must be
// in the vocabulary, too.
data::Tokenizer make_tokenizer(const Text& text, const TrainOptions& o) {
  return data::make_tokenizer(o.tokenizer, data::bpe_size(o.tokenizer)
                                               ? data::split_text(text.contents, train_share).train
                                               : text.contents);
}

}  // namespace

Text read_text(const std::vector<std::string>& paths) {
  data::Corpus corpus =
      data::read_corpus(std::vector<std::filesystem::path>(paths.begin(), paths.end()));
  return text_of(describe(corpus), std::move(corpus.text));
}

Text own_sources() {
  const std::string_view sources = embedded::default_corpus();
  return {"the program's own sources", sources, {}, fingerprint(sources)};
}

Text text_of(std::string name, std::string contents) {
  Text text{std::move(name), {}, std::make_shared<const std::string>(std::move(contents)), {}};
  text.contents = *text.storage;
  text.fingerprint = fingerprint(text.contents);
  return text;
}

int64_t vocab_size_of(const TrainOptions& o) {
  if (o.resumes()) {
    return data::Tokenizer::load(std::filesystem::path(o.out_dir) / tokenizer_file).vocab_size();
  }
  // GPT-2's tokens do not depend on the text, so that no file needs to be there.
  if (o.tokenizer == "gpt2") return data::Tokenizer::gpt2().vocab_size();
  return make_tokenizer(o.corpus.empty() ? own_sources() : read_text(o.corpus), o).vocab_size();
}

Dataset tokenize(const Text& text, const TrainOptions& o,
                 const std::optional<data::Tokenizer>& tokenizer) {
  const data::TextSplit split = data::split_text(text.contents, train_share);
  const data::Tokenizer t = tokenizer ? *tokenizer : make_tokenizer(text, o);
  Dataset set{t, t.encode(split.train), t.encode(split.val)};
  check_length(set.train, "training", o);
  check_length(set.val, "validation", o);
  return set;
}

}  // namespace tapegrad::apps
