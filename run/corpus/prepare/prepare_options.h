#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/data/shards.h"
#include "tapegrad/run/corpus/text.h"

namespace tapegrad::run {

// Which corpus becomes which files of tokens.
struct PrepareOptions {
  std::vector<std::string> corpus = {};
  std::vector<std::string> chat = {};  // in place of a corpus: weighted_file() each
  std::string model = {};              // of conversations: whose tokenizer and template are taken
  bool strict_data = false, special_in_messages = false;
  std::string field = "text", encoding = "utf-8", separator = {};
  std::vector<std::string> val = {};
  std::optional<double> val_fraction = {};  // [0.1]
  std::uint64_t seed = 1337;
  std::string tokenizer = "gpt2", out_dir = {};
  data::TokenFormat format = data::TokenFormat::nanogpt;
  std::int64_t shard_tokens = 100'000'000;  // 0: one file for each part
  bool overwrite = false;

  void validate() const;  // Error, naming the option

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("corpus", o.corpus, "files and folders of text, packed or not, JSON lines; - is stdin",
      {.value = "PATH…"});
    t("chat", o.chat,
      "files of conversations (JSON lines), in place of --corpus; a pass has those of FILE:2 twice",
      {.value = "FILE[:WEIGHT]…"});
    t("model", o.model,
      "model that will learn from --chat: its tokenizer and chat template make the tokens [those "
      "of a new model: --tokenizer and ChatML]",
      {.value = "PATH"});
    t("strict_data", o.strict_data,
      "stop at the first line of --chat that is no conversation, in place of leaving it out");
    t("special_in_messages", o.special_in_messages,
      "let messages of --chat spell special tokens such as <|im_end|>, which are text otherwise");
    t("field", o.field, "field that has the text in JSON lines (.jsonl)", {.value = "NAME"});
    t("encoding", o.encoding, "encoding of the files, such as latin-1", {.value = "NAME"});
    t("separator", o.separator,
      "text between two documents of a file, beside <|endoftext|>; \\n is a line break",
      {.value = "TEXT"});
    t("val", o.val,
      "files and folders of text, or with --chat of conversations, to validate with [a part of the "
      "corpus]",
      {.value = "PATH…"});
    t("val_fraction", o.val_fraction,
      "share held out: random documents or conversations, or the end of a single document [0.1]",
      {.least = 0.000001, .most = 0.9});
    t("seed", o.seed, "seed for these draws");
    t("tokenizer", o.tokenizer,
      "char, gpt2, bpe:N with N tokens, or the path of a tokenizer.json (byte-level BPE) or of the "
      "folder that has it",
      {.value = "KIND"});
    t("out_dir", o.out_dir, "the folder of the tokens", {.value = "DIR"});
    t("format", o.format, "format of the files: ids alone, or after llm.c's header");
    t("shard_tokens", o.shard_tokens, "most tokens of a file; 0: one file for each part",
      {.least = 0});
    t("overwrite", o.overwrite,
      "replace the files of an earlier tapegrad prepare in --out-dir; goes on if that was stopped");
  }
};

// Error if the folder of the tokens would be a part of the corpus, or the corpus is tokens already.
void check_outside(const PrepareOptions& options);
// All options that the files depend on, as text for people.
std::string options_text(const PrepareOptions& options);

}  // namespace tapegrad::run
