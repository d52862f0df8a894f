#include "tapegrad/data/tokenize/bpe/piece_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tapegrad::data {

PieceCache::PieceCache(std::size_t text_bytes) {
  constexpr std::size_t least = 1 << 6, most = 1 << 16;
  const std::size_t entries = std::bit_ceil(std::clamp(text_bytes / 16, least, most));
  entries_.resize(entries);
  shift_ = 64 - std::countr_zero(entries);
}

PieceCache::Words PieceCache::key_of(std::string_view piece) {
  Words key{};
  std::memcpy(key.data(), piece.data(), piece.size());
  reinterpret_cast<char*>(key.data())[kMostBytes] = static_cast<char>(piece.size());
  return key;
}

PieceCache::Entry& PieceCache::at(const Words& key) {
  // Odd constants without a pattern; the top bits of the last product depend on all of the key.
  std::uint64_t hash = key[0] * 0x9E3779B97F4A7C15U;
  hash = (hash ^ (hash >> 32) ^ key[1]) * 0xC2B2AE3D27D4EB4FU;
  hash = (hash ^ (hash >> 32) ^ key[2]) * 0x9E3779B97F4A7C15U;
  return entries_[hash >> shift_];
}

void PieceEncoder::append(std::string_view piece) {
  if (piece.size() > PieceCache::kMostBytes) return model_.encode(piece, tokens_);
  const PieceCache::Words key = PieceCache::key_of(piece);
  PieceCache::Entry& entry = cache_.at(key);
  if (entry.key == key) {
    tokens_.insert(tokens_.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
    return;
  }
  const std::size_t begin = tokens_.size();
  model_.encode(piece, tokens_);
  const std::size_t count = tokens_.size() - begin;
  if (count > PieceCache::kMostTokens) return;
  entry.key = key;
  entry.count = static_cast<std::uint32_t>(count);
  std::copy(tokens_.begin() + static_cast<std::ptrdiff_t>(begin), tokens_.end(),
            entry.tokens.begin());
}

}  // namespace tapegrad::data
