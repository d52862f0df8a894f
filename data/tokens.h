#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/base/file.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Tokens in a file that is open: `count` ids of 16 or 32 bits, unsigned, little-endian, from byte
// `offset` on. See open_shard() in shards.h.
struct TokenFile {
  std::filesystem::path path;  // for messages
  std::shared_ptr<const InputFile> file;
  std::uint64_t offset = 0;
  int bits = 16;
  std::int64_t count = 0;
};

// The token that separates documents.
struct DocumentEnd {
  Token token;
  // True if a document begins with it, as where a text that a model makes begins with the token
  // that ends the one before; false if it begins with the token behind.
  bool begins_next = true;
};

// Tokens [begin, end), of which loaders for training draw windows as often as the weight says: with
// 2, an epoch has each twice; see weights.h.
struct WeightedTokens {
  std::int64_t begin = 0, end = 0;
  double weight = 1;
  std::int64_t size() const { return end - begin; }
};

// Tokens that windows are read of: in memory, or in files that are larger than that. A handle,
// cheap to copy, that may be read from several threads.
//
// Files are read, not mapped. What a window needs lies in the system's cache of files in either
// case; but a file that is cut while a program trains, or a disk that fails, is an Error here, and
// a signal that ends the program there. Memory that is resident does not grow with what was read.
class TokenSource {
 public:
  TokenSource() = default;
  // A view: what it shows must live as long as this handle and its copies.
  TokenSource(std::span<const Token> view)
      : size_(static_cast<std::int64_t>(view.size())), memory_(view.data()) {}
  TokenSource(const std::vector<Token>& view) : TokenSource(std::span<const Token>(view)) {}
  TokenSource(std::vector<Token>&& owned);
  // The tokens of these files, one file after the other. Ids of 2^31 and more are not tokens: see
  // scan_shard() in shards.h.
  explicit TokenSource(std::vector<TokenFile> files);

  std::int64_t size() const { return size_; }

  // Copies the tokens from place `begin` on into `out`. Errors: a place outside of [0, size()); a
  // file that has been cut, or that the system fails to read.
  void copy(std::int64_t begin, std::span<Token> out) const;

  // The same tokens, of which loaders keep documents apart: see Batch::document_starts.
  TokenSource isolated(DocumentEnd end) const;
  const std::optional<DocumentEnd>& isolated_by() const { return end_; }

  // The same tokens as a mixture: no window of a loader for training reaches from one part into
  // another. SequentialBatches walks through all of them alike.
  TokenSource mixed(std::vector<WeightedTokens> parts) const;
  // Empty: one text.
  const std::vector<WeightedTokens>& mixture() const;

 private:
  struct Files;
  std::int64_t size_ = 0;
  const Token* memory_ = nullptr;        // unless they are in files
  std::shared_ptr<const void> storage_;  // of memory_, unless it is a view
  std::shared_ptr<const Files> files_;
  std::optional<DocumentEnd> end_;  // if documents are kept apart
  std::shared_ptr<const std::vector<WeightedTokens>> mixture_;
};

// True if a window of the tokens may have two documents. Reads them up to the first end.
bool has_documents(const TokenSource& tokens, const DocumentEnd& end);

}  // namespace tapegrad::data
