#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/run/corpus/chat/chat_data.h"
#include "tapegrad/run/corpus/text.h"

namespace tapegrad::run {

enum class BatchKind { random, epochs, packed };
inline constexpr std::string_view kBatchKindNames[] = {"random", "epochs", "packed"};
inline std::span<const std::string_view> names_of(BatchKind) { return kBatchKindNames; }

inline constexpr double kValFraction = 0.1;

// How a text becomes documents, and these become parts to train on and to validate with.
struct Division {
  std::string separator = {};               // beside <|endoftext|>; see data::Separators
  std::optional<double> val_fraction = {};  // [kValFraction]
  std::uint64_t seed = 1337;                // of the documents that are drawn
};

// Which text is learnt, and how it becomes tokens and batches.
struct TextOptions {
  std::string preset = {};                        // the start of all options
  std::vector<std::string> corpus = {};           // empty: the text that is part of the program
  std::vector<std::string> data = {};             // in place of a corpus: folders of tokens
  std::vector<std::string> chat = {};             // in place of a corpus: weighted_file() each
  std::vector<std::string> preferences = {};      // in place of a corpus: pairs, as chat
  data::ChatLoss loss = data::ChatLoss::answers;  // of conversations
  bool strict_data = false;
  bool special_in_messages = false;  // see data::ChatTemplate::with_special_in_messages
  std::string field = "text", encoding = "utf-8";  // of the corpus
  std::string separator = {};                      // with \n for a line break
  std::vector<std::string> val = {};               // empty: a part of the corpus
  std::optional<double> val_fraction = {};         // [0.1]
  std::string tokenizer = "char";                  // beside data, empty: that of the folder
  bool isolate_documents = false;
  BatchKind batches = BatchKind::random;
  std::int64_t block_size = 1024;           // tokens of a sequence, of which the model may see more
  std::optional<std::int64_t> stride = {};  // [block_size]

  bool in_epochs() const { return batches != BatchKind::random; }
  // Conversations: --chat, or a folder that was prepared of them; or pairs of them.
  bool learns_chat() const;
  CorpusSource source() const;
  Division division(std::uint64_t seed) const;
  void validate() const;  // Error for options that exclude each other, or an unknown tokenizer

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("preset", o.preset, "what all options started from", {.option = false});
    t("corpus", o.corpus,
      "files and folders of text, or folders of --data; a pass has what is in PATH:2 twice; - is "
      "stdin [tiny shakespeare]",
      {.value = "PATH[:WEIGHT]…", .lasting = Lasting::run});
    t("data", o.data,
      "folders of tokens, in place of --corpus: made by tapegrad prepare, nanoGPT or llm.c "
      "(train.bin, val.bin); a pass has what is in DIR:2 twice",
      {.value = "DIR[:WEIGHT]…", .lasting = Lasting::run, .newer = true});
    t("chat", o.chat,
      "files of conversations (JSON lines), in place of --corpus; a pass has those of FILE:2 twice",
      {.value = "FILE[:WEIGHT]…", .lasting = Lasting::run, .newer = true});
    t("preferences", o.preferences,
      "files of pairs of answers (JSON lines: prompt, chosen, rejected), in place of --corpus: "
      "learn to prefer the chosen ones",
      {.value = "FILE[:WEIGHT]…", .lasting = Lasting::run, .newer = true});
    t("loss", o.loss,
      "tokens of --chat that count in the loss: those of the answers, of the last answer, or all",
      {.lasting = Lasting::model, .newer = true});
    t("strict_data", o.strict_data,
      "stop at the first line of --chat or --preferences that is bad, in place of leaving it out",
      {.lasting = Lasting::call});
    t("special_in_messages", o.special_in_messages,
      "let messages of --chat or --preferences spell special tokens such as <|im_end|>, which are "
      "text otherwise",
      {.newer = true});
    t("field", o.field, "field that has the text in JSON lines (.jsonl)",
      {.value = "NAME", .lasting = Lasting::run, .newer = true});
    t("encoding", o.encoding, "encoding of the files, such as latin-1",
      {.value = "NAME", .lasting = Lasting::run, .newer = true});
    t("separator", o.separator,
      "text between two documents of a file, beside <|endoftext|>; \\n is a line break",
      {.value = "TEXT", .newer = true});
    t("val", o.val,
      "files and folders of text, or of what --chat or --preferences has, to validate with [a part "
      "of the corpus]",
      {.value = "PATH…", .lasting = Lasting::run, .newer = true});
    t("val_fraction", o.val_fraction,
      "share held out for validation: random documents or conversations, or the end of a single "
      "document [0.1]",
      {.least = 0.001, .most = 0.9, .newer = true});
    t("tokenizer", o.tokenizer,
      "char, gpt2, bpe:N with N tokens, or the path of a tokenizer.json (byte-level BPE) or of the "
      "folder that has it",
      {.value = "KIND"});
    t("isolate_documents", o.isolate_documents,
      "keep documents apart in a window: none sees another, and positions begin anew at each",
      {.newer = true});
    t("batches", o.batches,
      "random: windows drawn at random; epochs: windows side by side, shuffled in each epoch; "
      "packed: "
      "whole conversations, shuffled in each epoch (--chat, --preferences)");
    t("block_size", o.block_size,
      "tokens of a training sequence, and all that a new model sees at once (after --init-from, at "
      "most 1024 if not given)",
      {.least = 1, .most = 1 << 24});
    t("stride", o.stride, "tokens from one window of a pass to the next [--block-size]",
      {.least = 1});
  }
};
// The value of --tokenizer that stands for the tokenizer of `folder`.
std::string tokenizer_spec(const data::Tokenizer& tokenizer, const std::filesystem::path& folder);
// "\n", "\r", "\t" and "\\" as a shell passes them on, as what they stand for.
std::string unescaped(const std::string& text);

// Error unless `tokenizer` is char, gpt2, bpe:N or a path.
void check_tokenizer(const std::string& tokenizer);

// A text, or two, as tokens for training and for validation. If the corpus has several documents
// and the tokenizer <|endoftext|>, each document ends with it, but for the last one of the corpus:
// the tokens of the parts are those of all documents with <|endoftext|> between them.
struct TextData {
  data::Tokenizer tokenizer;
  data::TokenSource train, val;
  // How many there are in each part; 0 if a text has but one, or if one had to be cut.
  std::int64_t train_documents = 0, val_documents = 0;
  // Of conversations, in place of the tokens above, which are empty.
  std::shared_ptr<const ChatData> chat = {};
};

// The tokenizer that the options ask for. Calls `text` only if the tokenizer depends on the text:
// GPT-2's and a file's do not. A bpe tokenizer learns from the training part alone, a character
// tokenizer the characters of both parts.
data::Tokenizer make_tokenizer(const TextOptions& options, std::uint64_t seed,
                               const std::function<const Text&()>& text);

// The same tokens, whose documents do not see each other in a window (--isolate-documents). Error
// if the tokenizer has no token that ends documents.
data::TokenSource isolated(const data::TokenSource& tokens, const data::Tokenizer& tokenizer);

// The documents of a text, one after the other; of a folder of tokens, its part for validation, of
// which all is read and checked as by check_tokens(), and an Error if there is a separator.
data::TokenSource tokens_of(const Text& text, const data::Tokenizer& tokenizer,
                            const std::string& separator);

// Errors: either part is shorter than one sequence of block_size tokens and its targets; a text
// that is tokens already is to be divided. Such tokens are not looked at: see check_tokens().
TextData tokenize(const Text& text, const data::Tokenizer& tokenizer, const Division& division,
                  std::int64_t block_size);

// The run whose text is read.
struct TextOfRun {
  const RunFolder& folder;
  std::string_view format;         // of its config.json
  std::function<Text()> own_text;  // made if the options name none
  std::optional<data::Tokenizer> tokenizer =
      {};                         // of the model that it goes on with, if there is one
  std::string tokenizer_of = {};  // where that model is, for errors
  // Of conversations: the template of that model. None: ChatML, for a new tokenizer.
  std::optional<data::ChatTemplate> chat_template = {};
  std::uint64_t seed;  // of the documents that are drawn
};

// A run's text, its tokens, and how long making them took.
struct LearntText {
  Text text;
  TextData data;
  double seconds;
};

// From paths to tokens: reads the text of a new run, or that of a run that is resumed, divides it,
// makes the tokenizer that the options ask for unless the run has one, and encodes both parts,
// isolated() if the options ask for it. Errors of text_of_new_run(), text_of_run(),
// make_tokenizer(), tokenize(), isolated() and check_tokens().
LearntText text_data_of(const TextOptions& options, const TextOfRun& run);

}  // namespace tapegrad::run
