#include "tapegrad/run/corpus/text_data.h"

#include <algorithm>
#include <new>

#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/internal/text_file.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/bpe/bpe_train.h"
#include "tapegrad/run/corpus/chat/chat_tokenizer.h"
#include "tapegrad/run/corpus/chat/internal/chat_folder.h"
#include "tapegrad/run/corpus/internal/token_folder.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/folder/config.h"

namespace tapegrad::run {
namespace {

// A text that conversations are divided as.
TextData chat_as_data(const Text& text, const data::Tokenizer& tokenizer,
                      const data::ChatTemplate& chat_template, const TextOptions& o,
                      const Division& division) {
  return {.tokenizer = tokenizer,
          .train = {},
          .val = {},
          .chat = std::make_shared<const ChatData>(chat_data_of(
              text, tokenizer,
              {chat_template.with_special_in_messages(o.special_in_messages), o.loss, o.block_size},
              division.val_fraction.value_or(kValFraction), division.seed))};
}

// The tokenizer that made a folder's tokens, if `spec` does not name another one.
data::Tokenizer tokenizer_of(const data::Tokenizer& own, const std::string& folder,
                             const std::string& spec) {
  const std::string made = tokenizer_spec(own, folder);
  check(spec.empty() || spec == made, "--tokenizer {}: {} has tokens of the tokenizer {}", spec,
        folder, made);
  return own;
}

// Error, which ends with what helps: `way_out` or a smaller --block-size.
void check_length(const data::TokenSource& tokens, std::string_view split, std::int64_t block_size,
                  std::string_view way_out) {
  check(tokens.size() > block_size,
        "the corpus is too short: its {} part has {} tokens, and --block-size {} needs at least "
        "{}. Use {} or a smaller --block-size",
        split, tokens.size(), block_size, block_size + 1, way_out);
}

std::vector<std::string_view> documents_of(std::string_view contents,
                                           std::span<const data::TextRange> ranges,
                                           const std::string& separator,
                                           const std::string& end_of_text) {
  if (ranges.empty()) return {contents};
  return data::cut_documents(contents, ranges, {separator, end_of_text});
}

std::vector<std::string_view> documents_of(const Text& text, const std::string& separator,
                                           const std::string& end_of_text) {
  return documents_of(text.contents, text.documents, separator, end_of_text);
}

std::string end_of_text(const data::Tokenizer& tokenizer) {
  const auto token = tokenizer.end_of_text();
  return token ? tokenizer.token_bytes(*token) : "";
}

// One split for each path of a mixture; of one text, one.
using Divided = std::vector<data::DocumentSplit>;

Divided divide(const Text& text, const Division& d, const std::string& end_of_text) {
  Divided parts;
  Rng rng(d.seed + 2, Rng::Kind::philox);  // a stream of its own; that of evaluations has seed + 1
  std::vector<std::string_view> val;
  if (text.val) val = documents_of(*text.val, d.separator, end_of_text);
  for (const std::span<const data::TextRange> ranges : ranges_of(text)) {
    std::vector<std::string_view> documents =
        documents_of(text.contents, ranges, d.separator, end_of_text);
    if (text.val) {
      parts.push_back({std::move(documents), val});
      continue;
    }
    const auto begin = text.mixture.empty() ? 0 : ranges.front().begin;
    const auto end = text.mixture.empty() ? text.contents.size() : ranges.back().end;
    parts.push_back(data::split_documents(text.contents.substr(begin, end - begin), documents,
                                          d.val_fraction.value_or(kValFraction), rng));
  }
  return parts;
}

// The end of a text for a tokenizer that is trained here.
std::string end_of_bpe() { return std::string(data::Bpe::kEndOfTextBytes); }

data::Tokenizer train_bpe(const Text& text, const Divided& parts, std::int64_t vocab_size) {
  data::PieceCounts counts;
  for (const data::DocumentSplit& split : parts) {
    for (const std::string_view document : split.train) {
      text.documents.empty() ? counts.add(document) : data::add_words(document, counts);
    }
  }
  return data::Tokenizer::train_bpe(counts, vocab_size);
}

void check_lengths(const Text& text, const TextData& data, std::int64_t block_size) {
  check_length(data.train, "training", block_size, "more text");
  check_mixture(data.train, text.mixture, block_size);
  check_length(data.val, "validation", block_size,
               text.val ? "more text" : "more text, a larger --val-fraction");
}

TextData encode_mixed(const Text& text, const data::Tokenizer& tokenizer, Divided parts,
                      std::int64_t block_size) {
  std::int64_t train_documents = 0, val_documents = 0;
  for (const data::DocumentSplit& split : parts) {
    train_documents += std::ssize(split.train);
    val_documents += std::ssize(split.val);
  }
  std::vector<std::string_view> others;
  if (text.val) {
    others = parts.front().val;
    val_documents = std::ssize(others);
  }
  auto [train, val] = encode_mixture(text.mixture, tokenizer, std::move(parts), !text.val);
  if (text.val) val = tokenizer.encode_documents(others, !text.val->documents.empty());
  TextData data{tokenizer, std::move(train), std::move(val), train_documents, val_documents};
  check_lengths(text, data, block_size);
  return data;
}

TextData encode(const Text& text, const data::Tokenizer& tokenizer, Divided parts,
                std::int64_t block_size) {
  if (!text.mixture.empty()) return encode_mixed(text, tokenizer, std::move(parts), block_size);
  data::DocumentSplit& split = parts.front();
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
  check_lengths(text, data, block_size);
  return data;
}

void check_undivided(const TokenText& tokens, const std::string& separator) {
  check(separator.empty(), "--separator: {} is tokens already", tokens.folder);
}

}  // namespace

data::Tokenizer make_tokenizer(const TextOptions& o, std::uint64_t seed,
                               const std::function<const Text&()>& read) {
  if (o.tokenizer == "gpt2") return data::Tokenizer::gpt2();
  if (data::is_path_of_tokenizer(o.tokenizer)) return data::Tokenizer::from_hf(o.tokenizer);
  const Text& text = read();
  if (text.chat && text.chat->folder) {
    return tokenizer_of(text.chat->folder->data.tokenizer, text.chat->folder->path, o.tokenizer);
  }
  if (text.tokens) {
    check(text.tokens->tokenizer.has_value(),
          "{}: it does not say which tokenizer made its ids of 32 bits: give it by --tokenizer "
          "PATH, or put its tokenizer.json into the folder",
          text.tokens->folder);
    return tokenizer_of(*text.tokens->tokenizer, text.tokens->folder, o.tokenizer);
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

data::TokenSource isolated(const data::TokenSource& tokens, const data::Tokenizer& tokenizer) {
  const std::optional<data::Token> end = tokenizer.end_of_text();
  check(end.has_value(),
        "--isolate-documents: the tokenizer has no token that ends documents (kind {}): use bpe:N, "
        "gpt2 or a tokenizer.json that has one",
        tokenizer.kind());
  // A text begins with begin(), or else with the token that ends the one before it.
  const std::span<const data::Token> begin = tokenizer.begin();
  return tokens.isolated({*end, begin.empty() || begin.back() == *end});
}

data::TokenSource tokens_of(const Text& text, const data::Tokenizer& tokenizer,
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
    check_mixture(ids.train.tokens, text.mixture, block_size);
    check_length(ids.val.tokens, "validation", block_size, way_out);
    return {tokenizer, ids.train.tokens, ids.val.tokens, ids.train.documents, ids.val.documents};
  }
  return encode(text, tokenizer, divide(text, division, end_of_text(tokenizer)), block_size);
}

namespace {

TextData data_of(const Text& text, const TextOptions& o, const TextOfRun& run) {
  const Division division = o.division(run.seed);
  if (text.chat) {
    const auto make = [&] {
      return make_chat_tokenizer(o.tokenizer, text, division.val_fraction.value_or(kValFraction),
                                 run.seed);
    };
    const ChatFolder* folder = text.chat->folder.get();
    const data::Tokenizer tokenizer =
        run.tokenizer ? *run.tokenizer
        : folder      ? tokenizer_of(folder->data.tokenizer, folder->path, o.tokenizer)
                      : make();
    const data::ChatTemplate usual = folder ? folder->chat_template : data::ChatTemplate::chatml();
    return chat_as_data(text, tokenizer, run.chat_template.value_or(usual), o, division);
  }
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
  // The end of a text is known before the tokenizer: one division serves both.
  Divided parts = divide(text, division, end_of_bpe());
  const data::Tokenizer tokenizer = train_bpe(text, parts, *vocab_size);
  return encode(text, tokenizer, std::move(parts), o.block_size);
}

// The run's own options ask for it, which a resumed run has in a file.
void isolate(TextData& data, const TextOfRun& run) {
  try {
    data.train = isolated(data.train, data.tokenizer);
    data.val = isolated(data.val, data.tokenizer);
  } catch (const Error& error) {
    if (!run.folder.resumes()) throw;
    fail("{}: {}", (run.folder.path() / kConfigFile).string(), error.what());
  }
}

}  // namespace

LearntText text_data_of(const TextOptions& options, const TextOfRun& run) {
  Text text = run.folder.resumes() ? text_of_run(run.folder.path(), run.format, options.source())
                                   : text_of_new_run(options.source(), run.own_text);
  std::optional<TextData> data;
  const double seconds = seconds_of([&] {
    try {
      data.emplace(data_of(text, options, run));
      if (options.isolate_documents) isolate(*data, run);
    } catch (const std::bad_alloc&) {
      fail("{}: there is no memory to make tokens of its {} bytes: {}", text.identity.name,
           grouped(text.identity.bytes), data::kWithoutLimit);
    }
  });
  check_tokens(text, data->tokenizer.vocab_size());
  return {std::move(text), std::move(*data), seconds};
}

}  // namespace tapegrad::run
