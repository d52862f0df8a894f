#include "tapegrad/run/corpus/prepare/internal/prepare_state.h"

#include <unistd.h>

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/models/model_settings.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "tapegrad-prepare";
// Version 1 drew other documents for validation. Going on with its shards would put some documents
// into both parts, and others into none.
constexpr std::int64_t kVersion = 2;

Json json_of_part(const PartState& part) {
  Json shards = Json::array();
  for (const data::ShardInfo& shard : part.shards) {
    shards.push_back({{"name", shard.name},
                      {"tokens", shard.tokens},
                      {"bytes", shard.bytes},
                      {"crc32", shard.crc32}});
  }
  return {{"piece", part.piece}, {"tokens", part.tokens}, {"shards", shards}};
}

PartState part_of(const fs::path& path, const Json& json, DataPartName name) {
  PartState part;
  get(path, json, "piece", part.piece);
  get(path, json, "tokens", part.tokens);
  const auto shards = json.find("shards");
  check(shards != json.end() && shards->is_array(), "{}: 'shards' must be a list", path.string());
  for (const Json& object : *shards) {
    data::ShardInfo shard;
    get(path, object, "name", shard.name);
    get(path, object, "tokens", shard.tokens);
    get(path, object, "bytes", shard.bytes);
    get(path, object, "crc32", shard.crc32);
    const std::size_t number = part.shards.size();
    check(shard.name == shard_name(name, number, false) || shard.name == shard_name(name, 0, true),
          "{}: '{}' is not the name of shard {}", path.string(), shard.name, number);
    const fs::path file = path.parent_path() / shard.name;
    check(InputFile(file, Links::refused).size() == static_cast<std::uint64_t>(shard.bytes),
          "{} has changed since it was made: --overwrite begins anew", file.string());
    part.shards.push_back(std::move(shard));
  }
  return part;
}

constexpr const char* kTemporary = ".tmp-";  // in the name of what a killed program has left

bool is_temporary(const fs::path& path) {
  return path.filename().string().find(kTemporary) != std::string::npos;
}

// True if tapegrad prepare makes files of this name.
bool is_ours(std::string name) {
  name.resize(std::min(name.size(), name.find(kTemporary)));
  for (const std::string_view other :
       {std::string_view(kPrepareFile), std::string_view(kStdinFile),
        std::string_view(data::kDataFile), std::string_view(data::kDataTokenizerFile),
        data::kGenerationFile}) {
    if (name == other) return true;
  }
  for (const std::string_view other : settings_files()) {  // of conversations
    if (name == other) return true;
  }
  for (const DataPartName part : {DataPartName::train, DataPartName::val}) {
    const std::string all = shard_name(part, 0, true), first = shard_name(part, 0, false);
    if (name == all || name == turns_name(part)) return true;
    // train_000000.bin, and any other number
    const std::size_t digits = first.find('0');
    const std::string_view number =
        name.size() == first.size() ? std::string_view(name).substr(digits, 6) : "";
    if (!number.empty() && name.starts_with(first.substr(0, digits)) && name.ends_with(".bin") &&
        number.find_first_not_of("0123456789") == number.npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string shard_name(DataPartName part, std::size_t number, bool alone) {
  const std::string_view name = kDataPartNames[static_cast<std::size_t>(part)];
  return alone ? fmt::format("{}.bin", name) : fmt::format("{}_{:06}.bin", name, number);
}

std::string turns_name(DataPartName part) {
  return fmt::format("{}_turns.bin", kDataPartNames[static_cast<std::size_t>(part)]);
}

PrepareState read_state(const fs::path& folder) {
  const fs::path path = folder / kPrepareFile;
  const Json file = read_json_object(path);
  PrepareState state;
  std::string format;
  std::int64_t version = 0;
  get(path, file, "format", format);
  get(path, file, "version", version);
  check(format == kFormat && version == kVersion,
        "{}: it is not {}, version {}: --overwrite begins anew", path.string(), kFormat, kVersion);
  get(path, file, "options", state.options);
  get(path, file, "corpus", state.corpus);
  get(path, file, "tokenizer", state.tokenizer);
  for (std::size_t i = 0; i < kDataParts; ++i) {
    Json part;
    get(path, file, std::string(kDataPartNames[i]), part);
    state.parts[i] = part_of(path, part, static_cast<DataPartName>(i));
  }
  return state;
}

void write_state(const fs::path& folder, const PrepareState& state) {
  Json file = {{"format", kFormat},
               {"version", kVersion},
               {"options", state.options},
               {"corpus", state.corpus},
               {"tokenizer", state.tokenizer}};
  for (std::size_t i = 0; i < kDataParts; ++i) {
    file[std::string(kDataPartNames[i])] = json_of_part(state.parts[i]);
  }
  write_json(folder / kPrepareFile, file);
}

PrepareFolder::PrepareFolder(const fs::path& path, bool overwrite) : path_(path) {
  make_folder(path);
  lock_ = lock_folder(path, "preparing data");
  try {
    check_writable(path);
    std::vector<fs::path> ours, others;
    for (const fs::path& entry : list_folder(path)) {
      (is_ours(entry.filename().string()) ? ours : others).push_back(entry);
    }
    const bool is_begun = path_exists(path / kPrepareFile), is_whole = data::is_data_folder(path);
    const bool is_unused = others.empty() && std::all_of(ours.begin(), ours.end(), is_temporary);
    check(is_begun || is_whole || is_unused,
          "--out-dir {}: it has files already, which tapegrad prepare did not make: choose another "
          "one",
          path.string());
    check(overwrite || !is_whole || is_begun,
          "--out-dir {}: it has a prepared corpus already: --overwrite replaces it", path.string());
    remove_leftovers(path, [](const std::string& name) { return is_ours(name); });
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

PrepareFolder::~PrepareFolder() { ::close(lock_); }

void PrepareFolder::clear() const {
  remove_or_fail(path_ / data::kDataFile);  // without it, the rest is no prepared corpus
  for (const fs::path& entry : list_folder(path_)) {
    const std::string name = entry.filename().string();
    if (is_ours(name) && name != kPrepareFile && name != kStdinFile) remove_or_fail(entry);
  }
}

}  // namespace tapegrad::run
