#include "tapegrad/data/data_folder.h"

#include <set>

#include "tapegrad/base/error.h"
#include "tapegrad/base/fingerprint.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/base/text/number_text.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"

namespace tapegrad::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "tapegrad-data";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 48;  // of a part, and of its bytes

Json json_of_part(const DataPart& part) {
  Json files = Json::array();
  for (const ShardInfo& shard : part.shards) {
    files.push_back({{"name", shard.name},
                     {"tokens", shard.tokens},
                     {"bytes", shard.bytes},
                     {"crc32", fmt::format("{:08x}", shard.crc32)}});
  }
  return {{"documents", part.documents}, {"tokens", part.tokens()}, {"files", files}};
}

// What reads data.json, and says its path in errors.
class Reader {
 public:
  explicit Reader(fs::path path) : path_(std::move(path)) {}

  template <class T>
  T get(const Json& object, const std::string& name) const {
    T value{};
    tapegrad::get(path_, object, name, value);
    return value;
  }
  std::int64_t count(const Json& object, const std::string& name) const {
    const auto value = get<std::int64_t>(object, name);
    expect(value >= 0 && value <= kMostTokens,
           fmt::format("'{}' is {}, but must be from 0 to {}", name, value, kMostTokens));
    return value;
  }
  void expect(bool right, const std::string& what) const {
    check(right, "{}: {}", path_.string(), what);
  }

  DataPart part(const Json& file, const std::string& name, std::set<std::string>& names) const {
    const Json json = get<Json>(file, name);
    DataPart part{.shards = {}, .documents = count(json, "documents")};
    const auto files = json.find("files");
    expect(files != json.end() && files->is_array(), "'files' must be a list");
    expect(files->size() <= kMostShards, fmt::format("{} files are too many", files->size()));
    std::int64_t tokens = 0, bytes = 0;
    for (const Json& shard : *files) {
      part.shards.push_back(this->shard(shard));
      tokens += part.shards.back().tokens;
      bytes += part.shards.back().bytes;
      expect(tokens <= kMostTokens && bytes <= kMostTokens,
             fmt::format("the files of '{}' have more than {} tokens or bytes", name, kMostTokens));
      const std::string& is = part.shards.back().name;
      expect(names.insert(is).second, fmt::format("'{}' is listed twice", is));
    }
    expect(
        tokens == count(json, "tokens"),
        fmt::format("the files of '{}' have {} tokens, and not as many as it says", name, tokens));
    return part;
  }

 private:
  ShardInfo shard(const Json& json) const {
    ShardInfo shard{get<std::string>(json, "name"), count(json, "tokens"), count(json, "bytes"), 0};
    // A path would lead out of the folder.
    expect(!shard.name.empty() && shard.name != "." && shard.name != ".." &&
               shard.name.find('/') == std::string::npos,
           fmt::format("'{}' is not the name of a file of the folder", shard.name));
    const auto crc = get<std::string>(json, "crc32");
    const auto number = number_of<unsigned>(crc, 16);
    expect(number && crc.size() == 8,
           fmt::format("crc32 '{}' is not eight hexadecimal digits", crc));
    shard.crc32 = *number;
    return shard;
  }

  fs::path path_;
};

std::string fingerprint_of_file(const fs::path& path) {
  return fingerprint(read_file(path, HfTokenizer::kMaxFileBytes, Links::refused));
}

std::vector<TokenFile> open_part(const fs::path& folder, const DataInfo& info,
                                 const DataPart& part) {
  std::vector<TokenFile> files;
  for (const ShardInfo& shard : part.shards) {
    files.push_back(open_shard(folder / shard.name, info.format, info.bits(), Links::refused));
    const TokenFile& file = files.back();
    check(
        file.count == shard.tokens && file.file->size() == static_cast<std::uint64_t>(shard.bytes),
        "{}: it has {} tokens in {} bytes, but {} says {} in {}: it was cut or replaced",
        file.path.string(), file.count, file.file->size(), kDataFile, shard.tokens, shard.bytes);
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
  write_json(folder / kDataFile,
             {{"format", kFormat},
              {"version", kVersion},
              {"files", kTokenFormatNames[static_cast<std::size_t>(info.format)]},
              {"bits", info.bits()},
              {"tokenizer", {{"vocab_size", info.vocab_size}, {"fingerprint", info.tokenizer}}},
              {"source",
               {{"name", info.source.name},
                {"bytes", info.source.bytes},
                {"fingerprint", info.source.fingerprint}}},
              {"train", json_of_part(info.train)},
              {"val", json_of_part(info.val)}});
}

DataInfo read_data_json(const fs::path& folder) {
  const fs::path path = folder / kDataFile;
  const Json file = read_json_object(path);
  const Reader in(path);
  in.expect(in.get<std::string>(file, "format") == kFormat,
            fmt::format("'format' is not {}", kFormat));
  const auto version = in.get<std::int64_t>(file, "version");
  in.expect(version == kVersion,
            fmt::format("its version is {}, and this program reads version {}", version, kVersion));
  DataInfo info;
  const auto files = in.get<std::string>(file, "files");
  in.expect(files == kTokenFormatNames[0] || files == kTokenFormatNames[1],
            fmt::format("'files' is '{}', but must be {} or {}", files, kTokenFormatNames[0],
                        kTokenFormatNames[1]));
  info.format = files == kTokenFormatNames[0] ? TokenFormat::nanogpt : TokenFormat::llmc;
  const Json tokenizer = in.get<Json>(file, "tokenizer");
  info.vocab_size = in.count(tokenizer, "vocab_size");
  info.tokenizer = in.get<std::string>(tokenizer, "fingerprint");
  in.expect(in.count(file, "bits") == info.bits(),
            fmt::format("'bits' must be {} for {} tokens", info.bits(), info.vocab_size));
  const Json source = in.get<Json>(file, "source");
  info.source = {in.get<std::string>(source, "name"), in.count(source, "bytes"),
                 in.get<std::string>(source, "fingerprint")};
  std::set<std::string> names;
  info.train = in.part(file, "train", names);
  info.val = in.part(file, "val", names);
  return info;
}

bool is_data_folder(const fs::path& folder) {
  const fs::path path = folder / kDataFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  try {
    return Reader(path).get<std::string>(read_json_object(path), "format") == kFormat;
  } catch (const Error&) {
    return false;
  }
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
  return {std::move(info), std::move(tokenizer), std::move(train), std::move(val)};
}

}  // namespace tapegrad::data
