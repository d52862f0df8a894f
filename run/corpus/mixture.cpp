#include "tapegrad/run/corpus/mixture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/tokenize/document_ends.h"
#include "tapegrad/run/corpus/internal/token_folder.h"

namespace tapegrad::run {
namespace {

constexpr double kMostWeight = 1000;

// "books", also of "books/"; "books:2" with its weight.
std::string name_of_path(const WeightedFile& file) {
  std::filesystem::path path = absolute_path(file.path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = path.filename().string();
  return file.weight == 1 ? name : fmt::format("{}:{}", name, file.weight);
}

std::string name_of_mixture(const std::vector<MixedText>& mixture) {
  constexpr std::size_t most = 4;
  std::vector<std::string> names;
  for (const MixedText& part : mixture) names.push_back(part.name);
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, " + "));
  return fmt::format("{} + {} more", names.front(), names.size() - 1);
}

void append(const std::vector<data::Token>& more, std::vector<data::Token>& tokens) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

// Appends a folder's part to `all`.
void append_part(const TokenPart& part, TokenPart& all) {
  all.files.insert(all.files.end(), part.files.begin(), part.files.end());
  all.documents += part.documents;
  const auto expected = part.expected.value_or(std::vector<data::ShardInfo>(part.files.size()));
  all.expected->insert(all.expected->end(), expected.begin(), expected.end());
}

// Ids mean the same in both folders.
void check_same_ids(const TokenText& a, const TokenText& b) {
  const auto& first = a.tokenizer;
  const auto& other = b.tokenizer;
  bool same = first.has_value() == other.has_value();
  if (first && other) {
    same = first->vocab_size() == other->vocab_size();
    for (data::Token id = 0; same && id < first->vocab_size(); ++id) {
      same = first->token_bytes(id) == other->token_bytes(id);
    }
  }
  check(same,
        "{} and {} have tokens of different tokenizers, which cannot be mixed: prepare both with "
        "the same --tokenizer",
        a.folder, b.folder);
}

}  // namespace

WeightedFile weighted_file(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return {std::string(text), 1};
  const auto weight = number_of<double>(text.substr(colon + 1));
  std::error_code ignored;
  if (!weight || std::filesystem::exists(text, ignored)) return {std::string(text), 1};
  check(*weight > 0 && *weight <= kMostWeight, "'{}': a weight is above 0, and at most {}", text,
        kMostWeight);
  return {std::string(text.substr(0, colon)), *weight};
}

bool is_mixture(std::span<const WeightedFile> files) {
  const auto weighs = [](const WeightedFile& file) { return file.weight != 1; };
  return files.size() > 1 && std::any_of(files.begin(), files.end(), weighs);
}

std::string mixed_fingerprint(std::string fingerprint, const std::vector<MixedText>& mixture) {
  if (mixture.empty()) return fingerprint;
  Fingerprint hash;
  hash.add(fingerprint);
  for (const MixedText& part : mixture) hash.add(fmt::format("{} {};", part.size, part.weight));
  return hash.str();
}

Text read_mixture(std::span<const WeightedFile> files, const data::CorpusOptions& all) {
  data::CorpusOptions options = all;
  std::string contents;
  Text text;
  for (const WeightedFile& file : files) {
    const std::filesystem::path path(file.path);
    const data::Corpus corpus = data::read_corpus({&path, 1}, options);
    note_left_out(corpus.faulty);
    check(!data::is_blank(corpus.text), "--corpus: there is nothing but white space in {}",
          path.string());
    options.max_bytes -= std::min(options.max_bytes, corpus.bytes);
    for (const data::TextRange& range : corpus.documents) {
      text.documents.push_back({contents.size() + range.begin, contents.size() + range.end});
    }
    contents += corpus.text;
    text.mixture.push_back({name_of_path(file), file.weight, std::ssize(corpus.documents)});
  }
  Text made = make_text(name_of_mixture(text.mixture), std::move(contents));
  made.documents = std::move(text.documents);
  made.mixture = std::move(text.mixture);
  return made;
}

Text read_token_folders(std::span<const WeightedFile> folders) {
  Text all;
  TokenText tokens{"", "", std::nullopt, {}, {}};
  tokens.train.expected.emplace();
  tokens.val.expected.emplace();
  std::vector<data::WeightedTokens> parts;
  std::optional<TokenText> first;
  for (const WeightedFile& folder : folders) {
    const Text text = read_token_folder(folder.path);
    check(
        text.tokens != nullptr,
        "--data: {} has conversations, whose weights tapegrad prepare --chat takes: give it alone",
        folder.path);
    if (first) check_same_ids(*first, *text.tokens);
    if (!first) first = *text.tokens;
    const std::int64_t begin = parts.empty() ? 0 : parts.back().end;
    const std::int64_t size = text.tokens->train.tokens.size();
    parts.push_back({begin, begin + size, folder.weight});
    append_part(text.tokens->train, tokens.train);
    append_part(text.tokens->val, tokens.val);
    all.identity.bytes += text.identity.bytes;
    all.mixture.push_back({name_of_path(folder), folder.weight, size});
  }
  tokens.tokenizer = first->tokenizer;
  tokens.folder = name_of_mixture(all.mixture);
  tokens.val_name = "the validation parts of " + tokens.folder;
  tokens.train.tokens = data::TokenSource(tokens.train.files).mixed(std::move(parts));
  tokens.val.tokens = data::TokenSource(tokens.val.files);
  all.identity.name = tokens.folder;
  all.tokens = std::make_shared<const TokenText>(std::move(tokens));
  return all;
}

std::vector<std::span<const data::TextRange>> ranges_of(const Text& text) {
  const std::span<const data::TextRange> all(text.documents);
  if (text.mixture.empty()) return {all};
  std::vector<std::span<const data::TextRange>> ranges;
  std::size_t begin = 0;
  for (const MixedText& part : text.mixture) {
    ranges.push_back(all.subspan(begin, static_cast<std::size_t>(part.size)));
    begin += static_cast<std::size_t>(part.size);
  }
  return ranges;
}

MixedTokens encode_mixture(const std::vector<MixedText>& mixture, const data::Tokenizer& tokenizer,
                           std::vector<data::DocumentSplit> parts, bool with_val) {
  std::vector<data::Token> train, val;
  std::vector<data::WeightedTokens> weighted;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    data::DocumentSplit& split = parts[i];
    if (i + 1 < parts.size() && tokenizer.end_of_text()) {
      // An empty document behind the last one ends that. One that goes on in the other part has
      // no end here.
      if (split.whole) split.train.emplace_back();
      split.val.emplace_back();
    }
    const std::int64_t begin = std::ssize(train);
    append(tokenizer.encode_documents(split.train, true), train);
    weighted.push_back({begin, std::ssize(train), mixture[i].weight});
    if (with_val) append(tokenizer.encode_documents(split.val, true), val);
  }
  return {data::TokenSource(std::move(train)).mixed(std::move(weighted)),
          data::TokenSource(std::move(val))};
}

void check_mixture(const data::TokenSource& train, const std::vector<MixedText>& mixture,
                   std::int64_t block_size) {
  for (std::size_t i = 0; i < mixture.size(); ++i) {
    const std::int64_t size = train.mixture()[i].size();
    check(size > block_size,
          "{}: its training part has {} tokens, and --block-size {} needs at least {}. Use more "
          "text or a smaller --block-size",
          mixture[i].name, size, block_size, block_size + 1);
  }
}

std::string shares_text(const data::TokenSource& train, const std::vector<MixedText>& mixture) {
  double sum = 0;
  for (const data::WeightedTokens& part : train.mixture()) {
    sum += part.weight * static_cast<double>(part.size());
  }
  std::vector<std::string> shares;
  for (std::size_t i = 0; i < train.mixture().size(); ++i) {
    const data::WeightedTokens& part = train.mixture()[i];
    shares.push_back(fmt::format("{:.1f} % {}",
                                 100 * part.weight * static_cast<double>(part.size()) / sum,
                                 mixture[i].name));
  }
  return fmt::format("{}", fmt::join(shares, ", "));
}

}  // namespace tapegrad::run
