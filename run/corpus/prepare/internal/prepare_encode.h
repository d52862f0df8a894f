#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/run/corpus/prepare/internal/prepare_state.h"

namespace tapegrad::run {

// How documents are cut for this tokenizer.
data::PieceCut cut_for(const data::Tokenizer& tokenizer);

// Writes a part's tokens to shards, one after the other.
class PartFiles {
 public:
  // `shard_tokens`: of each shard but the last one; 0 if there is one alone. Goes on as `state`
  // says, and keeps it up to date. Calls `on_shard` when a shard is complete.
  PartFiles(std::filesystem::path folder, DataPartName part, const PrepareOptions& options,
            int bits, std::int64_t shard_tokens, PartState& state,
            std::function<void(const data::ShardInfo&)> on_shard);

  // True if the tokens of a piece are in shards that are complete.
  bool has(std::int64_t piece) const { return piece < begin_.piece; }
  // The next tokens of a piece, none of which may be left out.
  void write(std::int64_t piece, std::span<const data::Token> tokens);
  // After the last piece.
  void finish();

 private:
  void finish_shard();

  const std::filesystem::path folder_;
  const DataPartName part_;
  const data::TokenFormat format_;
  const int bits_;
  const std::int64_t shard_tokens_;
  PartState& state_;
  const PartState begin_;
  std::function<void(const data::ShardInfo&)> on_shard_;
  std::int64_t piece_ = -1, seen_ = 0;  // the piece that is written, and its tokens so far
  std::unique_ptr<data::ShardWriter> writer_;
};

// Encodes pieces on all threads, and writes their tokens with what stands between documents. Some
// megabytes of text at a time are encoded while the next ones are read: less than 24 MB, however
// many threads there are. Neither the threads nor the cuts between pieces change a token.
class PieceEncoding {
 public:
  using Files = std::unique_ptr<PartFiles>[kDataParts];
  // `is_divided`: the parts are two texts, and not documents of one.
  PieceEncoding(PreparedPieces& pieces, const data::Tokenizer& tokenizer, Files& files,
                bool is_divided);
  ~PieceEncoding();

  // Encodes and writes some pieces; false if there are none left.
  bool step();
  std::int64_t bytes() const { return bytes_; }      // of text, whose tokens are written
  std::int64_t encoded() const { return encoded_; }  // of these, what was not written before
  const std::int64_t* documents() const { return documents_; }  // of each part

 private:
  struct Batch;
  struct Group;
  void read(Batch& batch);
  void encode(const Batch& batch, Group& group);
  void write(const Batch& batch);
  void separate(std::int64_t piece, std::size_t part);

  PreparedPieces& pieces_;
  const data::Tokenizer tokenizer_;
  Files& files_;
  const bool is_divided_;
  std::int64_t next_piece_ = 0, bytes_ = 0, encoded_ = 0, documents_[kDataParts] = {};
  std::unique_ptr<Batch> batch_, next_;
  std::vector<Group> groups_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<data::Encoder>> encoders_;  // that no thread uses; under the mutex
  struct End {
    data::DocumentEnds ends;
    bool pending = false;  // a document has ended, and another one may follow
  };
  std::vector<End> ends_;
};

}  // namespace tapegrad::run
