#include <cstdio>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/tokenizer/tokenizer_programs.h"
#include "tapegrad/apps/tokenizer/tokenizer_words.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/corpus/document_stream.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/internal/end_tokens_file.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/data/tokenize/train/train_tokenizer.h"
#include "tapegrad/run/corpus/text.h"
#include "tapegrad/run/folder/internal/folder_calls.h"

namespace tapegrad::tokenizers {
namespace {

namespace fs = std::filesystem;

constexpr const char *kFile = "tokenizer.json", *kConfigFileOfHf = "tokenizer_config.json";

struct TrainOptions {
  std::vector<std::string> corpus;
  std::string kind = "bpe", out, field = "text", encoding = "utf-8";
  std::int64_t vocab_size = 8192;
  std::optional<int> threads;
  bool overwrite = false;

  data::TrainedKind trained() const {
    return kind == "unigram"         ? data::TrainedKind::unigram
           : kind == "byte_fallback" ? data::TrainedKind::byte_fallback
                                     : data::TrainedKind::bpe;
  }
};

std::optional<TrainOptions> parse_train(const cli::Call& call) {
  TrainOptions o;
  cli::CommandLine cli(
      call.name,
      "Learns a tokenizer from a corpus, and writes a folder with a tokenizer.json\n"
      "that transformers opens: for tapegrad prepare --tokenizer FOLDER, and train.");
  cli.group("Corpus");
  cli.words(o.corpus, "CORPUS", "files and folders of text, packed or not, JSON lines; - is stdin");
  cli("field", o.field, "field that has the text in JSON lines (.jsonl)", {.value = "NAME"});
  cli("encoding", o.encoding, "encoding of the files, such as latin-1", {.value = "NAME"});
  cli.group("Tokenizer");
  cli.choice(
      "kind", o.kind, {"bpe", "unigram", "byte_fallback"},
      "bpe: byte-level, as GPT-2's; byte_fallback: characters that merge, and bytes for rare "
      "ones, as Llama 2's; unigram: the likeliest pieces, as T5's, with such bytes");
  cli("vocab_size", o.vocab_size, "tokens of the vocabulary, all of them",
      {.least = 257, .most = 1e6});
  cli("out", o.out, "the folder of the tokenizer", {.value = "DIR"});
  cli("overwrite", o.overwrite, "replace the tokenizer in --out");
  cli.alias("-o", "--out");
  cli.alias("--out-dir", "--out");
  cli.group("Computing");
  cli("threads", o.threads, "threads [one per processor]; results do not depend on it",
      {.least = 1, .most = kMaxThreads});
  cli.example("tapegrad tokenizer train books/ --vocab-size 8000 --out tokens/books",
              "byte-level BPE");
  cli.example(
      "tapegrad tokenizer train wiki.jsonl.zst --kind unigram --vocab-size 32000 -o tokens/wiki",
      "Unigram, with bytes for rare characters");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (o.corpus.empty()) cli::usage_error("which corpus? Give files or folders of text");
  if (o.out.empty()) cli::usage_error("--out is needed: the folder of the tokenizer");
  cli::as_usage(
      [&] { check(data::is_encoding(o.encoding), "--encoding: '{}' is not known", o.encoding); });
  if (o.threads) set_num_threads(*o.threads);
  return o;
}

struct Stopped {};

void stop_if_asked() {
  if (interrupted()) throw Stopped();
}

// Before the corpus is read.
void check_folder(const TrainOptions& o) {
  const fs::path folder = o.out;
  if (!path_exists(folder)) return;
  check(is_folder(folder), "--out {} is a file: name a folder", o.out);
  for (const char* name : {kFile, kConfigFileOfHf}) {
    check(o.overwrite || !path_exists(folder / name),
          "--out {}: there is a {} already; --overwrite replaces it", o.out, name);
  }
  // Readers would take these beside the new files.
  for (const std::string_view name :
       {std::string_view("special_tokens_map.json"), std::string_view("added_tokens.json"),
        data::kGenerationFile, data::kEndTokensFile, data::kBeginTokenFile}) {
    check(!path_exists(folder / name),
          "--out {}: there is a {} of another tokenizer, which would change this one: remove it",
          o.out, name);
  }
  for (const auto& [name, what] :
       {std::pair("config.json", "a model"), {"data.json", "a corpus"}}) {
    check(!path_exists(folder / name),
          "--out {}: there is a {}: the tokenizer of {} is not replaced", o.out, name, what);
  }
}

data::PieceCounts count_corpus(const TrainOptions& o, Terminal& terminal) {
  const data::TrainedKind kind = o.trained();
  const data::PieceCut cut{[kind](std::string_view text) {
    const std::size_t place = data::last_counted_cut(kind, text);
    return place > 0 ? place : data::cut_anywhere().last_place(text);
  }};
  const std::vector<fs::path> paths(o.corpus.begin(), o.corpus.end());
  const data::CorpusOptions options{
      .max_bytes = std::int64_t{1} << 60, .field = o.field, .encoding = o.encoding};
  data::DocumentStream documents(paths, options,
                                 {.end_of_text = std::string(data::Bpe::kEndOfTextBytes)}, cut);
  data::PieceCounts counts = data::counts_for(kind);
  for (data::DocumentPiece piece; documents.next(piece);) {
    data::count_words(kind, piece.text, piece.first, counts);
    stop_if_asked();
    if (terminal.wants_progress()) {
      terminal.progress("counting words: " +
                        size_text(static_cast<double>(documents.corpus().bytes())));
    }
  }
  run::note_left_out(documents.corpus().faulty());
  check(counts.text_bytes() > 0, "the corpus has nothing but white space");
  terminal.line(fmt::format(
      "corpus: {} of {}, {} different words{}",
      size_text(static_cast<double>(documents.corpus().bytes())),
      counted(std::ssize(documents.corpus().files()), "file"), grouped(std::ssize(counts.counts())),
      counts.dropped() > 0
          ? fmt::format("; {} rare ones were dropped to save memory", grouped(counts.dropped()))
          : ""));
  return counts;
}

// The class is one that takes tokenizer.json as it is.
Json config_of(const data::Tokenizer& tokenizer) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"clean_up_tokenization_spaces", false}};
  const auto end = tokenizer.end_of_text();
  if (end) json["eos_token"] = tokenizer.token_bytes(*end);
  if (end && *end != 2) {  // GPT-2's is all of them
    json["bos_token"] = json["eos_token"];
  } else {
    json["bos_token"] = "<s>", json["unk_token"] = "<unk>";
  }
  return json;
}

void train(const TrainOptions& o) {
  Terminal terminal;
  check_folder(o);
  const data::PieceCounts counts = count_corpus(o, terminal);
  const bool shrinks = o.trained() == data::TrainedKind::unigram;
  const std::string json =
      data::train_tokenizer(o.trained(), counts, o.vocab_size, [&](std::int64_t tokens) {
        stop_if_asked();
        if (!terminal.wants_progress()) return;
        terminal.progress(shrinks ? fmt::format("leaving out pieces: {} are left, for {} tokens",
                                                tokens, o.vocab_size)
                                  : fmt::format("learning tokens: {} of {}", tokens, o.vocab_size));
      });
  const data::Tokenizer tokenizer = data::Tokenizer::of_hf(json);
  run::make_folder(o.out);
  write_file_atomically(fs::path(o.out) / kFile, json);
  write_json(fs::path(o.out) / kConfigFileOfHf, config_of(tokenizer));
  terminal.line(fmt::format("{}: {}, {}", o.out, method_of(tokenizer),
                            counted(tokenizer.vocab_size(), "token")));
  terminal.line(fmt::format("use: {} --tokenizer {}", cli::program_path("tapegrad train"),
                            cli::quoted(o.out + (data::is_path_of_tokenizer(o.out) ? "" : "/"))));
}

}  // namespace

int train_tokenizer(const cli::Call& call) {
  const auto options = parse_train(call);
  if (!options) return 0;
  catch_interrupts();
  try {
    train(*options);
    return 0;
  } catch (const Stopped&) {
    print_error("stopped: nothing was written\n");
    return kInterruptedExitCode;
  }
}

}  // namespace tapegrad::tokenizers
