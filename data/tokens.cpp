#include "tapegrad/data/tokens.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "tapegrad/base/error.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kChunk = 4096;  // tokens

// Copies ids of one width from a file.
template <class Id>
void copy_ids(const TokenFile& from, std::int64_t begin, std::span<Token> out) {
  std::array<Id, kChunk> ids;
  std::uint64_t at = from.offset + static_cast<std::uint64_t>(begin) * sizeof(Id);
  while (!out.empty()) {
    const std::size_t count = std::min(out.size(), ids.size());
    check(from.file->read(at, ids.data(), count * sizeof(Id)),
          "[tokens] {} cannot be read at byte {}: it has been cut since it was opened, or the disk "
          "fails",
          from.path.string(), at);
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<Token>(ids[i]);
    out = out.subspan(count);
    at += count * sizeof(Id);
  }
}

}  // namespace

struct TokenSource::Files {
  std::vector<TokenFile> list;
  std::vector<std::int64_t> ends;  // the place behind the last token of each file
};

TokenSource::TokenSource(std::vector<Token>&& owned) {
  const auto storage = std::make_shared<const std::vector<Token>>(std::move(owned));
  size_ = std::ssize(*storage);
  memory_ = storage->data();
  storage_ = storage;
}

TokenSource::TokenSource(std::vector<TokenFile> files) {
  Files all{std::move(files), {}};
  for (const TokenFile& file : all.list) all.ends.push_back(size_ += file.count);
  files_ = std::make_shared<const Files>(std::move(all));
}

void TokenSource::copy(std::int64_t begin, std::span<Token> out) const {
  check(begin >= 0 && std::ssize(out) <= size_ && begin <= size_ - std::ssize(out),
        "[tokens] {} tokens from place {} on are outside of the {} that there are", out.size(),
        begin, size_);
  if (files_ == nullptr) {
    std::copy_n(memory_ + begin, out.size(), out.begin());
    return;
  }
  const auto& ends = files_->ends;
  auto end = std::upper_bound(ends.begin(), ends.end(), begin);
  for (; !out.empty(); ++end) {
    const TokenFile& file = files_->list[static_cast<std::size_t>(end - ends.begin())];
    const std::size_t count = std::min(out.size(), static_cast<std::size_t>(*end - begin));
    const std::int64_t place = begin - (*end - file.count);
    file.bits == 16 ? copy_ids<std::uint16_t>(file, place, out.first(count))
                    : copy_ids<std::uint32_t>(file, place, out.first(count));
    out = out.subspan(count);
    begin += static_cast<std::int64_t>(count);
  }
}

TokenSource TokenSource::isolated(DocumentEnd end) const {
  TokenSource apart = *this;
  apart.end_ = end;
  return apart;
}

TokenSource TokenSource::mixed(std::vector<WeightedTokens> parts) const {
  std::int64_t before = 0;
  for (const WeightedTokens& part : parts) {
    check(part.begin == before && part.end >= part.begin && part.weight > 0,
          "[tokens] a mixture of the tokens {} to {}, weight {}, behind {}", part.begin, part.end,
          part.weight, before);
    before = part.end;
  }
  check(before == size_, "[tokens] a mixture of {} tokens, where there are {}", before, size_);
  TokenSource all = *this;
  all.mixture_ = std::make_shared<const std::vector<WeightedTokens>>(std::move(parts));
  return all;
}

const std::vector<WeightedTokens>& TokenSource::mixture() const {
  static const std::vector<WeightedTokens> none;
  return mixture_ ? *mixture_ : none;
}

bool has_documents(const TokenSource& tokens, const DocumentEnd& end) {
  std::vector<Token> chunk;
  // An end that is the last token has no document behind it, and neither has the first one, if it
  // begins a document, one before it.
  const std::int64_t last = tokens.size() - 1;
  for (std::int64_t at = end.begins_next ? 1 : 0; at < last; at += std::ssize(chunk)) {
    chunk.resize(std::min(kChunk, static_cast<std::size_t>(last - at)));
    tokens.copy(at, chunk);
    if (std::find(chunk.begin(), chunk.end(), end.token) != chunk.end()) return true;
  }
  return false;
}

}  // namespace tapegrad::data
