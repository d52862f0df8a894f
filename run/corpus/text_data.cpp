#include "tapegrad/run/corpus/text_data.h"

#include <algorithm>
#include <new>

#include "tapegrad/base/seconds_of.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/text_file.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/bpe/bpe_train.h"
#include "tapegrad/run/corpus/token_folder.h"

namespace tapegrad::run {
namespace {

// Error, which ends with what helps: `way_out` or a smaller --block-size.
void check_length(const data::Tokens& tokens, std::string_view split, std::int64_t block_size,
                  std::string_view way_out) {
  check(tokens.size() > block_size,
        "the corpus is too short: its {} part has {} tokens, and --block-size {} needs at least "
        "{}. Use {} or a smaller --block-size",
        split, tokens.size(), block_size, block_size + 1, way_out);
}

std::vector<std::string_view> documents_of(const Text& text, const std::string& separator,
                                           const std::string& end_of_text) {
  if (text.documents.empty()) return {text.contents};
  return data::cut_documents(text.contents, text.documents, {separator, end_of_text});
}

std::string end_of_text(const data::Tokenizer& tokenizer) {
  const auto token = tokenizer.end_of_text();
  return token ? tokenizer.token_bytes(*token) : "";
}

data::DocumentSplit divide(const Text& text, const Division& d, const std::string& end_of_text) {
  std::vector<std::string_view> documents = documents_of(text, d.separator, end_of_text);
  if (text.val) return {std::move(documents), documents_of(*text.val, d.separator, end_of_text)};
  Rng rng(d.seed + 2, Rng::Kind::philox);  // a stream of its own; that of evaluations has seed + 1
  return data::split_documents(text.contents, documents, d.val_fraction.value_or(kValFraction),
                               rng);
}

// What ends a text for a tokenizer that is trained here.
std::string end_of_bpe() { return std::string(data::Bpe::kEndOfTextBytes); }

data::Tokenizer train_bpe(const Text& text, const data::DocumentSplit& parts,
                          std::int64_t vocab_size) {
  data::PieceCounts counts;
  for (const std::string_view document : parts.train) {
    text.documents.empty() ? counts.add(document) : data::add_words(document, counts);
  }
  return data::Tokenizer::train_bpe(counts, vocab_size);
}

TextData encode(const Text& text, const data::Tokenizer& tokenizer, data::DocumentSplit split,
                std::int64_t block_size) {
  const Text& val = text.val ? *text.val : text;
  const bool several = split.whole && split.train.size() + split.val.size() > 2;
  const auto train_documents = std::ssize(split.train), val_documents = std::ssize(split.val);
  if (split.whole && !text.val && tokenizer.end_of_text()) {
    // An empty document behind the part that does not have the last one of the corpus.
    const bool val_is_last = split.val.back().data() > split.train.back().data();
    (val_is_last ? split.train : split.val).emplace_back();
  }
  TextData data{tokenizer, tokenizer.encode_documents(split.train, !text.documents.empty()),
                tokenizer.encode_documents(split.val, !val.documents.empty()),
                several ? train_documents : 0, several ? val_documents : 0};
  check_length(data.train, "training", block_size, "more text");
  check_length(data.val, "validation", block_size,
               text.val ? "more text" : "more text, a larger --val-fraction");
  return data;
}

void check_undivided(const TokenText& tokens, const std::string& separator) {
  check(separator.empty(), "--separator: {} is tokens already", tokens.folder);
}

}  // namespace

std::string tokenizer_spec(const data::Tokenizer& tokenizer, const std::filesystem::path& folder) {
  const std::string kind(tokenizer.kind());
  if (kind == "hf") return std::filesystem::absolute(folder).lexically_normal().string();
  return kind == "bpe" ? fmt::format("bpe:{}", tokenizer.vocab_size()) : kind;
}

std::string unescaped(const std::string& text) {
  constexpr std::string_view names = "nrt\\", values = "\n\r\t\\";
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t which =
        text[i] == '\\' && i + 1 < text.size() ? names.find(text[i + 1]) : names.npos;
    result += which == names.npos ? text[i] : values[which];
    if (which != names.npos) ++i;
  }
  return result;
}

void check_tokenizer(const std::string& spec) {
  if (spec == "char" || spec == "gpt2" || data::is_path_of_tokenizer(spec)) return;
  const std::optional<std::int64_t> size = data::bpe_size(spec);
  check(size && *size >= 257 && *size <= data::Bpe::kMaxSize,
        "--tokenizer: '{}' is not char, gpt2, the path of a tokenizer.json, or bpe:N with N tokens "
        "from 257 to {}, such as bpe:1024",
        spec, +data::Bpe::kMaxSize);
}

void TextOptions::validate() const {
  if (data.empty() || !tokenizer.empty()) check_tokenizer(tokenizer);
  CorpusSource{corpus, field, encoding, val}.validate();
  check(val.empty() || !corpus.empty() || !data.empty(),
        "--val needs --corpus (and takes all files up to the next option)");
  check(val.empty() || !val_fraction, "--val and --val-fraction exclude each other");
  check(data.empty() || corpus.empty(), "--data and --corpus exclude each other");
  const auto only_text = [&](bool usual, std::string_view option) {
    check(data.empty() || usual, "{} is for text, and --data {} is tokens already", option, data);
  };
  only_text(val.empty(), "--val");
  only_text(!val_fraction, "--val-fraction");
  only_text(separator.empty(), "--separator");
  only_text(field == TextOptions().field, "--field");
  only_text(encoding == TextOptions().encoding, "--encoding");
  check(in_passes() || !stride, "--stride needs --batches epochs");
}

CorpusSource TextOptions::source() const {
  if (!data.empty()) return {.paths = {data}, .is_data = true};
  return {corpus, field, encoding, val};
}

Division TextOptions::division(std::uint64_t seed) const {
  return {unescaped(separator), val_fraction, seed};
}

data::Tokenizer make_tokenizer(const TextOptions& o, std::uint64_t seed,
                               const std::function<const Text&()>& read) {
  if (o.tokenizer == "gpt2") return data::Tokenizer::gpt2();
  if (data::is_path_of_tokenizer(o.tokenizer)) return data::Tokenizer::from_hf(o.tokenizer);
  const Text& text = read();
  if (text.tokens) {
    check(text.tokens->tokenizer.has_value(),
          "{}: it does not say which tokenizer made its ids of 32 bits: give it by --tokenizer "
          "PATH, or put its tokenizer.json into the folder",
          text.tokens->folder);
    const data::Tokenizer& own = *text.tokens->tokenizer;
    const std::string spec = tokenizer_spec(own, text.tokens->folder);
    check(o.tokenizer.empty() || o.tokenizer == spec,
          "--tokenizer {}: {} has tokens of the tokenizer {}", o.tokenizer, text.tokens->folder,
          spec);
    return own;
  }
  if (const auto vocab_size = data::bpe_size(o.tokenizer)) {
    return train_bpe(text, divide(text, o.division(seed), end_of_bpe()), *vocab_size);
  }
  // A character that only the validation part has must be in the vocabulary, too.
  const std::string separator = unescaped(o.separator);
  std::vector<std::string_view> all = documents_of(text, separator, "");
  bool several = all.size() > 1;
  if (text.val) {
    const std::vector<std::string_view> val = documents_of(*text.val, separator, "");
    several = several || val.size() > 1;
    all.insert(all.end(), val.begin(), val.end());
  }
  return data::Tokenizer::of_characters(all, several);
}

data::Tokens tokens_of(const Text& text, const data::Tokenizer& tokenizer,
                       const std::string& separator) {
  if (text.tokens) {
    check_undivided(*text.tokens, separator);
    const TokenPart& val = tokens_for(text, tokenizer).val;
    check_part(val, tokenizer.vocab_size());
    return val.tokens;
  }
  return tokenizer.encode_documents(
      documents_of(text, unescaped(separator), end_of_text(tokenizer)), !text.documents.empty());
}

TextData tokenize(const Text& text, const data::Tokenizer& tokenizer, const Division& division,
                  std::int64_t block_size) {
  if (text.tokens) {
    check_undivided(*text.tokens, division.separator);
    check(!division.val_fraction, "--val-fraction: {} has a part to validate with of its own",
          text.tokens->folder);
    const TokenText& ids = tokens_for(text, tokenizer);
    const std::string way_out = fmt::format("tokens of more text than {} has,", ids.folder);
    check_length(ids.train.tokens, "training", block_size, way_out);
    check_length(ids.val.tokens, "validation", block_size, way_out);
    return {tokenizer, ids.train.tokens, ids.val.tokens, ids.train.documents, ids.val.documents};
  }
  return encode(text, tokenizer, divide(text, division, end_of_text(tokenizer)), block_size);
}

namespace {

TextData data_of(const Text& text, const TextOptions& o, const TextOfRun& run) {
  const Division division = o.division(run.seed);
  if (run.tokenizer) {
    try {
      return tokenize(text, *run.tokenizer, division, o.block_size);
    } catch (const Error& error) {
      fail("{}: {} (the tokenizer is that of {})", text.identity.name, error.what(),
           run.tokenizer_of);
    }
  }
  const auto vocab_size = data::bpe_size(o.tokenizer);
  if (!vocab_size || text.tokens) {
    const auto tokenizer = make_tokenizer(o, run.seed, [&]() -> const Text& { return text; });
    return tokenize(text, tokenizer, division, o.block_size);
  }
  // What ends a text is known before the tokenizer: one division serves both.
  data::DocumentSplit parts = divide(text, division, end_of_bpe());
  const data::Tokenizer tokenizer = train_bpe(text, parts, *vocab_size);
  return encode(text, tokenizer, std::move(parts), o.block_size);
}

}  // namespace

LearntText text_data_of(const TextOptions& options, const TextOfRun& run) {
  Text text = run.folder.resumes() ? text_of_run(run.folder.path(), run.format, options.source())
                                   : text_of_new_run(options.source(), run.own_text);
  std::optional<TextData> data;
  const double seconds = seconds_of([&] {
    try {
      data.emplace(data_of(text, options, run));
    } catch (const std::bad_alloc&) {
      fail("{}: there is no memory to make tokens of its {} bytes: {}", text.identity.name,
           grouped(text.identity.bytes), data::kWithoutLimit);
    }
  });
  check_tokens(text, data->tokenizer.vocab_size());
  return {std::move(text), std::move(*data), seconds};
}

}  // namespace tapegrad::run
