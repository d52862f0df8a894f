#include "tapegrad/run/corpus/prepare/internal/prepare_encode.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::run {
namespace {

constexpr std::size_t kMostGroups = 64;
// A batch may have one piece more. Two batches, and the tokens of one, are in memory at once.
constexpr std::size_t kGroupBytes = std::size_t{1} << 20, kMostBatchBytes = std::size_t{8} << 20;
constexpr std::size_t kMostPieceBytes = std::size_t{16} << 20;
// Some documents have many tokens: space for more than these is not kept.
constexpr std::size_t kMostKeptTokens = (std::size_t{8} << 20) / sizeof(data::Token);

}  // namespace

data::PieceCut cut_for(const data::Tokenizer& tokenizer) {
  data::PieceCut cut{[tokenizer](std::string_view text) { return tokenizer.last_cut(text); },
                     std::size_t{1} << 18};
  if (tokenizer.kind() == "hf") cut.usual = cut.most = kMostPieceBytes;
  return cut;
}

PartFiles::PartFiles(std::filesystem::path folder, DataPartName part, const PrepareOptions& options,
                     int bits, std::int64_t shard_tokens, PartState& state,
                     std::function<void(const data::ShardInfo&)> on_shard)
    : folder_(std::move(folder)),
      part_(part),
      format_(options.format),
      bits_(bits),
      shard_tokens_(shard_tokens),
      state_(state),
      begin_(state),
      on_shard_(std::move(on_shard)) {}

void PartFiles::write(std::int64_t piece, std::span<const data::Token> tokens) {
  if (has(piece)) return;
  if (piece != piece_) seen_ = 0;
  piece_ = piece;
  if (piece == begin_.piece && seen_ < begin_.tokens) {
    const auto done = std::min<std::int64_t>(begin_.tokens - seen_, std::ssize(tokens));
    seen_ += done;
    tokens = tokens.subspan(static_cast<std::size_t>(done));
  }
  while (!tokens.empty()) {
    if (!writer_) {
      const std::size_t number = state_.shards.size();
      check(number < data::kMostShards, "--shard-tokens {}: there would be more than {} files",
            shard_tokens_, data::kMostShards);
      writer_ = std::make_unique<data::ShardWriter>(
          folder_ / shard_name(part_, number, shard_tokens_ == 0), format_, bits_);
    }
    auto some = tokens;
    if (shard_tokens_ > 0) {
      const auto room = static_cast<std::size_t>(shard_tokens_ - writer_->size());
      some = tokens.first(std::min(tokens.size(), room));
    }
    writer_->write(some);
    seen_ += std::ssize(some);
    tokens = tokens.subspan(some.size());
    if (writer_->size() == shard_tokens_) finish_shard();
  }
}

void PartFiles::finish() {
  if (writer_) finish_shard();
}

void PartFiles::finish_shard() {
  state_.shards.push_back(writer_->finish());
  writer_.reset();
  state_.piece = piece_;
  state_.tokens = seen_;
  on_shard_(state_.shards.back());
}

// Some pieces, whose texts stand one after the other in `text`.
struct PieceEncoding::Batch {
  struct Item {
    std::size_t begin, size;
    std::int64_t number;
    std::size_t part;
    bool first, last, is_written;
    std::string_view in(std::string_view text) const { return text.substr(begin, size); }
  };
  std::string text;
  std::vector<Item> items;
};

// The work of one thread at a time: the items of a batch from `begin` to `end`.
struct PieceEncoding::Group {
  std::size_t begin = 0, end = 0;
  std::vector<data::Token> tokens = {};
  std::vector<std::size_t> ends = {};  // of each item's tokens
};

PieceEncoding::PieceEncoding(PreparedPieces& pieces, const data::Tokenizer& tokenizer, Files& files,
                             bool is_divided)
    : pieces_(pieces), tokenizer_(tokenizer), files_(files), is_divided_(is_divided) {
  // Several for each thread, so that none waits long for the last one.
  const auto threads = static_cast<std::size_t>(num_threads());
  const std::size_t groups = threads == 1 ? 1 : std::min(4 * threads, kMostGroups);
  groups_.resize(groups);
  for (std::size_t i = 0; i < kDataParts; ++i) ends_.push_back({{tokenizer, true}});
}

PieceEncoding::~PieceEncoding() = default;

bool PieceEncoding::step() {
  if (!batch_) {
    batch_ = std::make_unique<Batch>();
    next_ = std::make_unique<Batch>();
    read(*batch_);
  }
  if (batch_->items.empty()) return false;
  const auto groups = static_cast<std::int64_t>(groups_.size());
  const std::vector<Batch::Item>& items = batch_->items;
  std::size_t item = 0;
  for (std::int64_t i = 0; i < groups; ++i) {
    Group& group = groups_[static_cast<std::size_t>(i)];
    const std::size_t most = batch_->text.size() / groups_.size() * static_cast<std::size_t>(i + 1);
    group.begin = item;
    while (item < items.size() && (i + 1 == groups || items[item].begin < most)) ++item;
    group.end = item;
  }
  parallel_for(groups + 1, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      i == 0 ? read(*next_) : encode(*batch_, groups_[static_cast<std::size_t>(i - 1)]);
    }
  });
  write(*batch_);
  std::swap(batch_, next_);
  return true;
}

void PieceEncoding::read(Batch& batch) {
  batch.text.clear();
  batch.items.clear();
  const std::size_t enough = std::min(groups_.size() * kGroupBytes, kMostBatchBytes);
  PartPiece piece;
  while (batch.text.size() < enough && pieces_.next(piece)) {
    const auto part = static_cast<std::size_t>(piece.part);
    const std::int64_t number = next_piece_++;
    batch.items.push_back({batch.text.size(), piece.text.size(), number, part, piece.first,
                           piece.last, files_[part]->has(number)});
    batch.text += piece.text;
  }
}

void PieceEncoding::encode(const Batch& batch, Group& group) {
  group.tokens.clear();
  group.ends.clear();
  // Hardly any text has more tokens than bytes. Space that grew step by step would leave as much
  // again behind, in the memory of each thread.
  std::size_t bytes = 0;
  for (std::size_t i = group.begin; i < group.end; ++i) bytes += batch.items[i].size;
  group.tokens.reserve(bytes);
  // One for each thread and not for each group: what it remembers of words takes 4 MB.
  std::unique_ptr<data::Encoder> encoder;
  {
    const std::lock_guard lock(mutex_);
    if (!encoders_.empty()) {
      encoder = std::move(encoders_.back());
      encoders_.pop_back();
    }
  }
  if (!encoder) encoder = std::make_unique<data::Encoder>(tokenizer_, kGroupBytes);
  for (std::size_t i = group.begin; i < group.end; ++i) {
    const Batch::Item& item = batch.items[i];
    if (!item.is_written) encoder->encode(item.in(batch.text), true, group.tokens);
    group.ends.push_back(group.tokens.size());
  }
  const std::lock_guard lock(mutex_);
  encoders_.push_back(std::move(encoder));
}

void PieceEncoding::write(const Batch& batch) {
  for (Group& group : groups_) {
    const std::span<const data::Token> all = group.tokens;
    std::size_t begin = 0;
    for (std::size_t i = group.begin; i < group.end; ++i) {
      const Batch::Item& item = batch.items[i];
      const std::size_t end = group.ends[i - group.begin];
      const auto own = all.subspan(begin, end - begin);
      begin = end;
      if (item.first) separate(item.number, item.part);
      PartFiles& files = *files_[item.part];
      if (item.first && tokenizer_.lacks_begin(own)) files.write(item.number, tokenizer_.begin());
      files.write(item.number, own);
      End& at = ends_[item.part];
      at.ends.see(item.in(batch.text), item.first);
      at.pending = item.last;
      documents_[item.part] += item.first ? 1 : 0;
      bytes_ += static_cast<std::int64_t>(item.size);
      encoded_ += item.is_written ? 0 : static_cast<std::int64_t>(item.size);
    }
    if (group.tokens.capacity() > kMostKeptTokens) group.tokens = std::vector<data::Token>();
  }
}

// Adds the tokens before a document. A token ends each document but the last one of all parts; what
// stands for it otherwise is between the documents of one part.
void PieceEncoding::separate(std::int64_t piece, std::size_t part) {
  const bool is_token = tokenizer_.end_of_text().has_value();
  for (std::size_t i = 0; i < kDataParts; ++i) {
    End& at = ends_[i];
    if (!at.pending || (i != part && (!is_token || is_divided_))) continue;
    files_[i]->write(piece, at.ends.separator());
    at.pending = false;
  }
}

}  // namespace tapegrad::run
