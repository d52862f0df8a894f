#include "tapegrad/data/data_folder.h"

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/data/internal/data_json.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"
#include "tapegrad/data/turns.h"

namespace tapegrad::data {
namespace {

namespace fs = std::filesystem;

std::string fingerprint_of_file(const fs::path& path) {
  return fingerprint(read_file(path, HfTokenizer::kMaxFileBytes, Links::refused));
}

TokenFile open_listed(const fs::path& folder, const ShardInfo& shard, TokenFormat format,
                      int bits) {
  TokenFile file = open_shard(folder / shard.name, format, bits, Links::refused);
  check(file.count == shard.tokens && file.file->size() == static_cast<std::uint64_t>(shard.bytes),
        "{}: it has {} tokens in {} bytes, but {} says {} in {}: it was cut or replaced",
        file.path.string(), file.count, file.file->size(), kDataFile, shard.tokens, shard.bytes);
  return file;
}

std::vector<TokenFile> open_part(const fs::path& folder, const DataInfo& info,
                                 const DataPart& part) {
  std::vector<TokenFile> files;
  for (const ShardInfo& shard : part.shards) {
    files.push_back(open_listed(folder, shard, info.format, info.bits()));
  }
  return files;
}

}  // namespace

std::int64_t DataPart::tokens() const {
  std::int64_t sum = 0;
  for (const ShardInfo& shard : shards) sum += shard.tokens;
  return sum;
}

std::int64_t DataPart::bytes() const {
  std::int64_t sum = 0;
  for (const ShardInfo& shard : shards) sum += shard.bytes;
  return sum;
}

std::string fingerprint_of(const std::vector<ShardInfo>& train, const std::vector<ShardInfo>& val) {
  Fingerprint hash;
  for (const auto* part : {&train, &val}) {
    hash.add(fmt::format("{} files:", part->size()));  // where one part ends counts
    for (const ShardInfo& shard : *part) {
      hash.add(fmt::format("{},{},{:08x};", shard.tokens, shard.bytes, shard.crc32));
    }
  }
  return hash.str();
}

void write_data_json(const fs::path& folder, DataInfo info, const Tokenizer& tokenizer) {
  tokenizer.save(folder / kDataTokenizerFile);
  info.vocab_size = tokenizer.vocab_size();
  info.tokenizer = fingerprint_of_file(folder / kDataTokenizerFile);
  write_data_file(folder, info);
}

DataFolder open_data_folder(const fs::path& folder) {
  DataInfo info = read_data_json(folder);
  const fs::path path = folder / kDataTokenizerFile;
  Tokenizer tokenizer = Tokenizer::load(path);
  check(fingerprint_of_file(path) == info.tokenizer && tokenizer.vocab_size() == info.vocab_size,
        "{}: it is not the tokenizer of {} tokens that made the folder, as its {} says",
        path.string(), info.vocab_size, kDataFile);
  auto train = open_part(folder, info, info.train);
  auto val = open_part(folder, info, info.val);
  DataFolder opened{std::move(info), std::move(tokenizer), std::move(train), std::move(val)};
  if (const auto& chat = opened.info.chat) {
    opened.train_turns = {open_listed(folder, chat->train, TokenFormat::nanogpt, kTurnBits)};
    opened.val_turns = {open_listed(folder, chat->val, TokenFormat::nanogpt, kTurnBits)};
  }
  return opened;
}

}  // namespace tapegrad::data
