#include "tapegrad/data/internal/data_json.h"

#include <set>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "tapegrad-data";
// Programs that know the first version alone would take conversations for text.
constexpr std::int64_t kVersion = 1, kChatVersion = 2;
constexpr double kMostWeight = 1000;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 48;  // of a part, and of its bytes

Json json_of_shard(const ShardInfo& shard, const char* of = "tokens") {
  return {{"name", shard.name},
          {of, shard.tokens},
          {"bytes", shard.bytes},
          {"crc32", fmt::format("{:08x}", shard.crc32)}};
}

Json json_of_part(const DataPart& part) {
  Json files = Json::array();
  for (const ShardInfo& shard : part.shards) files.push_back(json_of_shard(shard));
  return {{"documents", part.documents}, {"tokens", part.tokens()}, {"files", files}};
}

Json json_of_chat(const ChatInfo& chat) {
  Json files = Json::array(), prompts = Json::array();
  for (const ChatInfo::File& file : chat.files) {
    files.push_back(
        {{"name", file.name}, {"conversations", file.conversations}, {"weight", file.weight}});
  }
  for (const ChatInfo::Prompt& prompt : chat.prompts) {
    prompts.push_back({{"conversation", prompt.conversation},
                       {"question", prompt.question},
                       {"wanted", prompt.wanted},
                       {"tokens", prompt.tokens}});
  }
  return {{"template", chat.chat_template},
          {"train_turns", json_of_shard(chat.train, "numbers")},
          {"val_turns", json_of_shard(chat.val, "numbers")},
          {"files", files},
          {"bad_lines", chat.bad_lines},
          {"prompts", prompts}};
}

// Reads data.json, and names its path in errors.
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

  ChatInfo chat(const Json& json, std::int64_t train_documents, std::int64_t vocab_size,
                std::set<std::string>& names) const {
    ChatInfo chat;
    chat.chat_template = get<std::string>(json, "template");
    chat.train = shard(get<Json>(json, "train_turns"), "numbers");
    chat.val = shard(get<Json>(json, "val_turns"), "numbers");
    for (const ShardInfo* turns : {&chat.train, &chat.val}) {
      expect(names.insert(turns->name).second, fmt::format("'{}' is listed twice", turns->name));
    }
    std::int64_t conversations = 0;
    for (const Json& file : list(json, "files")) {
      chat.files.push_back({get<std::string>(file, "name"), count(file, "conversations"),
                            get<double>(file, "weight")});
      const ChatInfo::File& read = chat.files.back();
      expect(read.weight > 0 && read.weight <= kMostWeight,
             fmt::format("a weight is {}, but must be above 0, and at most {}", read.weight,
                         kMostWeight));
      conversations += read.conversations;
      expect(conversations <= train_documents, "'files' have more conversations than 'train'");
    }
    expect(conversations == train_documents, "'files' have fewer conversations than 'train'");
    chat.bad_lines = count(json, "bad_lines");
    for (const Json& prompt : list(json, "prompts")) {
      chat.prompts.push_back({count(prompt, "conversation"),
                              get<std::string>(prompt, "question"),
                              get<std::string>(prompt, "wanted"),
                              {}});
      for (const Json& token : list(prompt, "tokens")) {
        const bool right = token.is_number_integer() && token >= 0 && token < vocab_size;
        expect(right, fmt::format("'prompts' have tokens that are not of the {}", vocab_size));
        chat.prompts.back().tokens.push_back(token.get<Token>());
      }
    }
    return chat;
  }

 private:
  const Json& list(const Json& object, const std::string& name) const {
    const auto found = object.find(name);
    expect(found != object.end() && found->is_array(), fmt::format("'{}' must be a list", name));
    return *found;
  }
  ShardInfo shard(const Json& json, const char* of = "tokens") const {
    ShardInfo shard{get<std::string>(json, "name"), count(json, of), count(json, "bytes"), 0};
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

}  // namespace

void write_data_file(const fs::path& folder, const DataInfo& info) {
  Json file = {{"format", kFormat},
               {"version", info.chat ? kChatVersion : kVersion},
               {"files", kTokenFormatNames[static_cast<std::size_t>(info.format)]},
               {"bits", info.bits()},
               {"tokenizer", {{"vocab_size", info.vocab_size}, {"fingerprint", info.tokenizer}}},
               {"source",
                {{"name", info.source.name},
                 {"bytes", info.source.bytes},
                 {"fingerprint", info.source.fingerprint}}},
               {"train", json_of_part(info.train)},
               {"val", json_of_part(info.val)}};
  if (info.chat) file["chat"] = json_of_chat(*info.chat);
  write_json(folder / kDataFile, file);
}

DataInfo read_data_json(const fs::path& folder) {
  const fs::path path = folder / kDataFile;
  const Json file = read_json_object(path);
  const Reader in(path);
  in.expect(in.get<std::string>(file, "format") == kFormat,
            fmt::format("'format' is not {}", kFormat));
  const auto version = in.get<std::int64_t>(file, "version");
  in.expect(version == kVersion || version == kChatVersion,
            fmt::format("its version is {}, and this program reads the versions {} and {}", version,
                        kVersion, kChatVersion));
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
  if (version == kChatVersion) {
    info.chat = in.chat(in.get<Json>(file, "chat"), info.train.documents, info.vocab_size, names);
  }
  return info;
}

namespace {

// The data.json of a folder, if it is one of ours.
std::optional<Json> data_file_in(const fs::path& folder) {
  const fs::path path = folder / kDataFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    Json file = read_json_object(path);
    if (Reader(path).get<std::string>(file, "format") == kFormat) return file;
  } catch (const Error&) {  // of another program
  }
  return std::nullopt;
}

}  // namespace

bool is_data_folder(const fs::path& folder) { return data_file_in(folder).has_value(); }

bool is_chat_folder(const fs::path& folder) {
  const auto file = data_file_in(folder);
  return file && file->contains("chat");
}

}  // namespace tapegrad::data
