#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/run/text.h"

namespace tapegrad::run {

enum class BatchKind { random, epochs };
inline constexpr std::string_view kBatchKindNames[] = {"random", "epochs"};
inline std::span<const std::string_view> names_of(BatchKind) { return kBatchKindNames; }

// Which text is learnt, and how it becomes tokens and batches.
struct TextOptions {
  std::string preset = {};                         // what all options started from
  std::vector<std::string> corpus = {};            // empty: the text that is part of the program
  std::string field = "text", encoding = "utf-8";  // of the corpus
  std::string tokenizer = "char";
  BatchKind batches = BatchKind::random;
  std::optional<std::int64_t> stride = {};  // [block_size]

  bool in_passes() const { return batches == BatchKind::epochs; }
  CorpusSource source() const { return {corpus, field, encoding}; }
  void validate() const;  // Error for an unknown tokenizer

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("preset", o.preset, "what all options started from", {.option = false});
    t("corpus", o.corpus, "files and folders of text; - is stdin [the program's own sources]",
      {.value = "PATH…", .lasting = Lasting::run});
    t("field", o.field, "what JSON lines (.jsonl) have the text in",
      {.value = "NAME", .lasting = Lasting::run, .newer = true});
    t("encoding", o.encoding, "of the files, such as latin-1",
      {.value = "NAME", .lasting = Lasting::run, .newer = true});
    t("tokenizer", o.tokenizer,
      "char, gpt2, bpe:N with N tokens, or the path of a tokenizer.json (byte-level BPE) or of the "
      "folder that has it",
      {.value = "KIND"});
    t("batches", o.batches,
      "random windows, or shuffled passes over windows side by side (epochs)");
    t("stride", o.stride, "tokens from one window of a pass to the next [--block-size]",
      {.least = 1});
  }
};
// Error unless `tokenizer` is char, gpt2, bpe:N or a path.
void check_tokenizer(const std::string& tokenizer);

// The first 90 % of a text (of its characters) for training, and the rest for validation, as
// tokens.
struct TextData {
  data::Tokenizer tokenizer;
  std::vector<data::Token> train, val;
};

// The tokenizer that the options ask for. Calls `text` only if the tokenizer depends on the text:
// GPT-2's and a file's do not. A bpe tokenizer learns from the training part alone.
data::Tokenizer make_tokenizer(const TextOptions& options, const std::function<Text()>& text);

// Error if either part is shorter than one sequence of block_size tokens and its targets.
TextData tokenize(const Text& text, const data::Tokenizer& tokenizer, std::int64_t block_size);

}  // namespace tapegrad::run
