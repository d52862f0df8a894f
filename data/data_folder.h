#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/data/shards.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

// A corpus that was tokenised once: the shards of its parts for training and validation,
// tokenizer.json, which made them, and data.json, which says what belongs to the folder. Written by
// tapegrad prepare. docs/data.md has the layout.
inline constexpr const char *kDataFile = "data.json", *kDataTokenizerFile = "tokenizer.json";

inline constexpr std::size_t kMostShards = 1 << 16;  // that data.json may list for a part

// One part, of which the shards follow each other.
struct DataPart {
  std::vector<ShardInfo> shards;
  std::int64_t documents = 0;

  std::int64_t tokens() const;
  std::int64_t bytes() const;  // of the files
};

// The parts of shards of conversations beside tokens: docs/data.md.
struct ChatInfo {
  std::string chat_template;  // fingerprint of the template that made the tokens
  ShardInfo train, val;       // the turns of each part: see turns.h
  struct File {
    std::string name;                // for people
    std::int64_t conversations = 0;  // that are in the training part, one file's behind the other's
    double weight = 1;               // see ChatSet
  };
  std::vector<File> files;
  std::int64_t bad_lines = 0;  // that were left out
  // Questions for a model while it trains: the first conversations to validate with, up to their
  // last answers.
  struct Prompt {
    std::int64_t conversation = 0;
    std::string question, wanted;  // the last message, and the answer that follows
    std::vector<Token> tokens;
  };
  std::vector<Prompt> prompts;
};

// The origin of the shards. For people, but for the fingerprint.
struct DataSource {
  std::string name;         // "3 files"
  std::int64_t bytes = 0;   // of the text
  std::string fingerprint;  // of paths, sizes and contents, as its writer defines it
};

struct DataInfo {
  TokenFormat format = TokenFormat::nanogpt;
  DataPart train, val;
  DataSource source;
  std::optional<ChatInfo> chat = {};  // of conversations, of which each is a document
  // write_data_json() sets these, from the tokenizer.
  std::int64_t vocab_size = 0;
  std::string tokenizer;  // fingerprint of the file tokenizer.json

  int bits() const { return bits_for(vocab_size); }
};

// Equal shards have equal ones, contents included: of the two parts of a corpus.
std::string fingerprint_of(const std::vector<ShardInfo>& train, const std::vector<ShardInfo>& val);

// Writes tokenizer.json, and then data.json, with which the folder is complete.
void write_data_json(const std::filesystem::path& folder, DataInfo info,
                     const Tokenizer& tokenizer);

// Error, with the path, for a file that is not one of ours, or lists what cannot be.
DataInfo read_data_json(const std::filesystem::path& folder);
// Has a data.json that says so. A file of that name that another program made, or that cannot be
// read, is none.
bool is_data_folder(const std::filesystem::path& folder);
// One of conversations.
bool is_chat_folder(const std::filesystem::path& folder);

struct DataFolder {
  DataInfo info;
  Tokenizer tokenizer;
  std::vector<TokenFile> train, val;  // open, in the order of info.train and info.val
  std::vector<TokenFile> train_turns = {}, val_turns = {};  // one each, if info.chat
};
// Errors: as for read_data_json; a shard that is missing, a symbolic link, cut, or of another
// format than data.json says; another tokenizer.json. What is in the shards is not read: see
// scan_shard.
DataFolder open_data_folder(const std::filesystem::path& folder);

}  // namespace tapegrad::data
