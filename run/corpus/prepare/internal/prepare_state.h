#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/data/data_folder.h"
#include "tapegrad/run/corpus/prepare/internal/prepare_corpus.h"

namespace tapegrad::run {

// Where a part of a corpus goes on when tapegrad prepare is started again.
struct PartState {
  std::vector<data::ShardInfo> shards;  // that are complete
  // Behind them: at the piece of this number, of all of the corpus, of which so many tokens are in
  // these shards.
  std::int64_t piece = 0, tokens = 0;
};

// The contents of the file kPrepareFile while a corpus is prepared. It is removed when data.json is
// there.
struct PrepareState {
  std::string options;            // all that the files depend on, as text for people
  std::string corpus, tokenizer;  // fingerprints; empty: not known yet
  PartState parts[kDataParts];
};
inline constexpr const char* kPrepareFile = "prepare-state.json";

// Shard `number` of a part; `alone`: the only one.
std::string shard_name(DataPartName part, std::size_t number, bool alone);

// The turns of a part's conversations.
std::string turns_name(DataPartName part);

// Error for a file that is no such state, or if a shard that it lists has another size.
PrepareState read_state(const std::filesystem::path& folder);
void write_state(const std::filesystem::path& folder, const PrepareState& state);

// The folder that the tokens are made in. It holds a lock as long as this lives.
class PrepareFolder {
 public:
  // Makes the folder, or opens one of an earlier tapegrad prepare. Error if it has other things in
  // it, or, without `overwrite`, a corpus that is complete.
  PrepareFolder(const std::filesystem::path& path, bool overwrite);
  ~PrepareFolder();
  PrepareFolder(const PrepareFolder&) = delete;
  PrepareFolder& operator=(const PrepareFolder&) = delete;

  // Removes what an earlier tapegrad prepare made, but not kPrepareFile, which has to be there: if
  // this is killed, that file says whose the rest is. Nor kStdinFile.
  void clear() const;

 private:
  const std::filesystem::path path_;
  int lock_;
};

}  // namespace tapegrad::run
