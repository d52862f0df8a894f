#include "tapegrad/run/corpus/prepare/prepare.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/bpe/bpe_train.h"
#include "tapegrad/data/tokenize/char_vocab.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"
#include "tapegrad/run/corpus/prepare/internal/prepare_encode.h"
#include "tapegrad/run/corpus/prepare/internal/prepare_progress.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/folder/internal/folder_calls.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// The distinct characters of pieces.
class CharacterSet {
 public:
  void add(std::string_view text) {
    pending_ += text;
    constexpr std::size_t enough = std::size_t{1} << 20;
    if (pending_.size() > enough) fold();
  }
  data::Tokenizer tokenizer(bool separated) {
    fold();
    const std::string_view all = known_;
    return data::Tokenizer::of_characters({&all, 1}, separated);
  }

 private:
  void fold() {
    const std::string_view parts[] = {known_, pending_};
    known_ = data::CharVocabulary::of_corpus(parts, false).characters();
    pending_.clear();
  }
  std::string known_, pending_;
};

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options)
      : options_(options), path_(options.out_dir), folder_(path_, options.overwrite) {}

  void run() {
    open_state();
    // It was killed when all was written. Without a shard, the state is of one that is to replace
    // it.
    if (data::is_data_folder(path_) && complete_shards() > 0) {
      terminal_.line(fmt::format("{} is complete", path_.string()));
      return remove_state();
    }
    keep_stdin();
    survey();
    const data::Tokenizer tokenizer = settle_tokenizer();
    encode(tokenizer);
  }
  std::int64_t complete_shards() const {
    return std::ssize(state_.parts[0].shards) + std::ssize(state_.parts[1].shards);
  }

 private:
  void open_state();
  void begin_anew() { state_ = {options_text(options_), survey_.fingerprint, {}, {}}; }
  void remove_state() const;
  void keep_stdin() const;
  void survey();
  data::Tokenizer settle_tokenizer();
  data::Tokenizer make_tokenizer();
  data::Tokenizer learn(std::int64_t vocab_size);
  void encode(const data::Tokenizer& tokenizer);
  void finish(const data::Tokenizer& tokenizer, const PieceEncoding& encoding, double seconds);

  bool learns() const { return data::bpe_size(options_.tokenizer).has_value(); }
  std::string end_of_text() const;
  // At most; normalizing may make a character longer, and some tokens stand between documents.
  std::int64_t most_tokens(std::size_t part) const {
    return 3 * survey_.parts[part].bytes + 4 * survey_.parts[part].documents;
  }

  const PrepareOptions options_;
  const fs::path path_;
  const PrepareFolder folder_;
  Terminal terminal_;
  PrepareState state_;
  Survey survey_;
  CharacterSet characters_;
  std::optional<data::Tokenizer> known_;  // a tokenizer that does not depend on the corpus
};

// A state that --overwrite will replace is not used, and nothing on disk is changed yet.
void Preparation::open_state() {
  if (options_.tokenizer == "gpt2") known_ = data::Tokenizer::gpt2();
  if (data::is_path_of_tokenizer(options_.tokenizer)) {
    known_ = data::Tokenizer::from_hf(options_.tokenizer);
  }
  const std::string options = options_text(options_);
  const bool is_begun = path_exists(path_ / kPrepareFile), is_whole = data::is_data_folder(path_);
  if (is_begun) {
    try {
      state_ = read_state(path_);
      // Before the tokenizer is known, nothing is made of the options.
      check(state_.options == options || (state_.tokenizer.empty() && !is_whole),
            "--out-dir {} was begun with other options: {}. Give the same, or --overwrite to begin "
            "anew",
            path_.string(), state_.options);
    } catch (const Error&) {
      if (!options_.overwrite) throw;
      state_ = {};
    }
  }
  if (const auto shards = complete_shards(); shards > 0) {
    terminal_.line(fmt::format("goes on: {} complete files are in {}", shards, path_.string()));
  }
  state_.options = options;
  if (!is_begun && !is_whole) write_state(path_, state_);
}

void Preparation::remove_state() const {
  for (const char* name : {kStdinFile, kPrepareFile}) remove_or_fail(path_ / name);
}

// The text is read several times.
void Preparation::keep_stdin() const {
  if (std::count(options_.corpus.begin(), options_.corpus.end(), "-") == 0) return;
  write_file_atomically(path_ / kStdinFile, [](FileWriter& file) {
    std::vector<char> chunk(std::size_t{1} << 20);
    while (const std::size_t size = std::fread(chunk.data(), 1, chunk.size(), stdin)) {
      stop_if_interrupted();
      file.write({chunk.data(), size});
    }
    check(!std::ferror(stdin), "--corpus -: stdin cannot be read: {}", system_error());
  });
}

// The special token that separates documents; a tokenizer that is learnt here has GPT-2's.
std::string Preparation::end_of_text() const {
  if (learns()) return std::string(data::Bpe::kEndOfTextBytes);
  const auto token = known_ ? known_->end_of_text() : std::nullopt;
  return token ? known_->token_bytes(*token) : "";
}

// Finds a document that the tokenizer cannot cut before any is encoded, if it is known.
void Preparation::survey() {
  PreparedPieces pieces(options_, end_of_text(), known_ ? cut_for(*known_) : data::cut_anywhere());
  ProgressLine progress(terminal_, "reading", 0);
  for (PartPiece piece; pieces.next(piece);) {
    if (options_.tokenizer == "char") characters_.add(piece.text);
    progress.at(pieces.survey().bytes);
    stop_if_interrupted();
  }
  survey_ = pieces.survey();
  note_left_out(survey_.faulty);
  check(survey_.documents > 0, "--corpus: there is nothing but white space in {}",
        fmt::join(options_.corpus, " "));
  if (state_.tokenizer.empty() || state_.corpus != survey_.fingerprint) {
    check(state_.tokenizer.empty() || options_.overwrite,
          "--corpus: the text has changed since --out-dir {} was begun: --overwrite begins anew",
          path_.string());
    begin_anew();
  }
  if (options_.val.empty()) {
    survey_.divide(options_.val_fraction.value_or(kValFraction), options_.seed);
  }
  check(options_.format == data::TokenFormat::nanogpt || options_.shard_tokens > 0 ||
            std::max(most_tokens(0), most_tokens(1)) <= data::kMostLlmcTokens,
        "--shard-tokens 0: a file of llm.c's has at most {0} tokens, and {1} might have more: give "
        "--shard-tokens {0}, or less",
        data::kMostLlmcTokens, size_text(survey_.bytes));
  terminal_.line(fmt::format("corpus: {} of {}, {}", counted(survey_.documents, "document"),
                             counted(survey_.files, "file"), size_text(survey_.bytes)));
}

// The tokenizer of the state, if there is one; else a new one, which the state keeps: then all that
// an earlier tapegrad prepare made is removed.
data::Tokenizer Preparation::settle_tokenizer() {
  const fs::path file = path_ / data::kDataTokenizerFile;
  const auto fingerprint_of = [&] {
    return fingerprint(read_file(file, data::HfTokenizer::kMaxFileBytes, Links::refused));
  };
  if (!state_.tokenizer.empty()) {
    if (path_exists(file) && fingerprint_of() == state_.tokenizer) {
      data::Tokenizer tokenizer = data::Tokenizer::load(file);
      if (!known_ || known_->hf_json() == tokenizer.hf_json()) return tokenizer;
    }
    check(options_.overwrite,
          "--tokenizer: it has changed since --out-dir {} was begun: --overwrite begins anew",
          path_.string());
    begin_anew();
  }
  data::Tokenizer tokenizer = make_tokenizer();
  write_state(path_, state_);
  folder_.clear();
  tokenizer.save(file);
  state_.tokenizer = fingerprint_of();
  write_state(path_, state_);
  return tokenizer;
}

data::Tokenizer Preparation::make_tokenizer() {
  if (known_) return *known_;
  if (const auto size = data::bpe_size(options_.tokenizer)) return learn(*size);
  const bool several = options_.val.empty()
                           ? survey_.documents > 1
                           : survey_.parts[0].documents > 1 || survey_.parts[1].documents > 1;
  return characters_.tokenizer(several);
}

// Learns from the documents for training, as train-gpt does.
data::Tokenizer Preparation::learn(std::int64_t vocab_size) {
  const data::Tokenizer gpt2 = data::Tokenizer::gpt2();  // whose pieces are the same
  const data::PieceCut cut{[&](std::string_view text) { return gpt2.last_cut(text); }};
  PreparedPieces pieces(options_, end_of_text(), cut, survey_.division);
  data::PieceCounts counts;
  ProgressLine progress(terminal_, "counting words", survey_.bytes);
  for (PartPiece piece; pieces.next(piece);) {
    if (piece.part == DataPartName::train) data::add_words(piece.text, counts);
    progress.at(pieces.survey().bytes);
    stop_if_interrupted();
  }
  return data::Tokenizer::train_bpe(counts, vocab_size, [&](std::int64_t tokens) {
    stop_if_interrupted();
    if (!terminal_.wants_progress()) return;
    terminal_.progress(fmt::format("learning tokens: {} of {}", tokens, vocab_size));
  });
}

void Preparation::encode(const data::Tokenizer& tokenizer) {
  PreparedPieces pieces(options_, end_of_text(), cut_for(tokenizer), survey_.division);
  PieceEncoding::Files files;
  const auto on_shard = [&](const data::ShardInfo& shard) {
    write_state(path_, state_);
    terminal_.line(fmt::format("{}: {}", shard.name, counted(shard.tokens, "token")));
  };
  for (std::size_t i = 0; i < kDataParts; ++i) {
    const bool alone = options_.shard_tokens == 0 || most_tokens(i) <= options_.shard_tokens;
    files[i] = std::make_unique<PartFiles>(
        path_, static_cast<DataPartName>(i), options_, data::bits_for(tokenizer.vocab_size()),
        alone ? 0 : options_.shard_tokens, state_.parts[i], on_shard);
  }
  PieceEncoding encoding(pieces, tokenizer, files, survey_.division.cut || !options_.val.empty());
  ProgressLine progress(terminal_, "encoding", survey_.bytes);
  while (encoding.step()) {
    progress.at(encoding.bytes());
    stop_if_interrupted();
  }
  check(pieces.survey().fingerprint == survey_.fingerprint,
        "--corpus: the text has changed while it was read: --overwrite begins anew");
  for (auto& part : files) part->finish();
  finish(tokenizer, encoding, progress.seconds());
}

void Preparation::finish(const data::Tokenizer& tokenizer, const PieceEncoding& encoding,
                         double seconds) {
  data::DataInfo info;
  info.format = options_.format;
  data::DataPart* const parts[] = {&info.train, &info.val};
  std::int64_t tokens = 0, shards = 0;
  for (std::size_t i = 0; i < kDataParts; ++i) {
    *parts[i] = {state_.parts[i].shards, encoding.documents()[i]};
    tokens += parts[i]->tokens();
    shards += std::ssize(parts[i]->shards);
    check(parts[i]->tokens() > 0, "the part of the corpus for {} has no token: {}",
          i == 0 ? "training" : "validation",
          options_.val.empty() ? "give more text, or another --val-fraction" : "give more text");
  }
  info.source = {counted(survey_.files, "file"), survey_.bytes, survey_.fingerprint};
  data::write_data_json(path_, info, tokenizer);
  remove_state();
  for (std::size_t i = 0; i < kDataParts; ++i) {
    terminal_.line(fmt::format("{}: {}, {}", kDataPartNames[i],
                               counted(parts[i]->tokens(), "token"),
                               counted(parts[i]->documents, "document")));
  }
  terminal_.line(fmt::format(
      "{} bytes per token; {:.1f} MB/s; {} in {}",
      fmt::format("{:.2f}", static_cast<double>(survey_.bytes) / static_cast<double>(tokens)),
      static_cast<double>(encoding.encoded()) / 1e6 / seconds, counted(shards, "file"),
      path_.string()));
}

}  // namespace

int prepare(const PrepareOptions& options) {
  options.validate();
  check_outside(options);
  catch_interrupts();
  Preparation preparation(options);
  try {
    preparation.run();
    return 0;
  } catch (const Interrupted&) {
    print_error(fmt::format("stopped: {} complete files are in {}; the same command goes on\n",
                            preparation.complete_shards(), options.out_dir));
    return kInterruptedExitCode;
  }
}

}  // namespace tapegrad::run
