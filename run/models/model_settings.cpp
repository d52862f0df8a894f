#include "tapegrad/run/models/model_settings.h"

#include <algorithm>
#include <optional>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/json/internal/python_json.h"
#include "tapegrad/data/tokenize/internal/end_tokens_file.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_settings.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostBytes = 16 << 20;
constexpr std::string_view kFiles[] = {kTokenizerConfigFile, kSpecialTokensFile, kChatTemplateFile,
                                       data::kGenerationFile};
constexpr const char *kEndKey = "eos_token_id", *kBeginKey = "bos_token_id",
                     *kLengthKey = "model_max_length";

// The place of a file that may be a link inside of its folder, or of Hugging Face's cache: there,
// models--NAME/snapshots/REVISION/FILE leads to models--NAME/blobs. These files go out with the
// model, so any other link would take a file of the user's along.
fs::path place_of(const fs::path& file) {
  const fs::path place = resolved_path(file), folder = resolved_path(file.parent_path());
  fs::path at = folder;
  while (at.has_relative_path() && at.filename() != "snapshots") at = at.parent_path();
  const fs::path root = at.has_relative_path() ? at.parent_path() / "blobs" : folder;
  check(is_inside(place, folder) || is_inside(place, root),
        "{}: it is a link to {}, outside of the model: put a copy in its place, or remove it",
        file.string(), place.string());
  return place;
}

ModelSettings read_files(const fs::path& folder, Links links) {
  ModelSettings settings{.folder = folder};
  for (const std::string_view name : kFiles) {
    const fs::path file = folder / name;
    if (!has_entry(file)) continue;
    const fs::path place = links == Links::followed ? place_of(file) : file;
    settings.files.emplace(name, read_file(place, kMostBytes, Links::refused));
  }
  return settings;
}

// The token before texts that a file names by its id, if it is there.
std::optional<std::int64_t> begin_in(const fs::path& file, Links links) {
  if (!has_entry(file)) return std::nullopt;
  const Json id =
      parse_python_object(file, read_file(file, kMostBytes, links)).value(kBeginKey, Json());
  return id.is_number_unsigned() ? std::optional(id.get<std::int64_t>()) : std::nullopt;
}

// True if a file of the settings names the token before texts.
bool names_begin(const ModelSettings& settings) {
  for (const auto& [name, bytes] : settings.files) {
    if (name == kChatTemplateFile) continue;
    Json json;
    try {
      json = parse_python_object(settings.folder / name, bytes);
    } catch (const Error&) {  // settings need not make sense until they are used
      continue;
    }
    for (const char* key : {"bos_token", kBeginKey}) {
      if (!json.value(key, Json()).is_null()) return true;
    }
  }
  return false;
}

std::vector<std::int64_t> ids_of(const Json& value) {
  std::vector<std::int64_t> ids;
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    if (id.is_number_integer()) ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

Json json_of_ends(const data::Tokenizer& tokenizer) {
  const std::vector<data::Token> ends = tokenizer.ends();
  return ends.size() == 1 ? Json(ends.front()) : Json(ends);
}

}  // namespace

std::vector<std::string_view> settings_files() {
  std::vector<std::string_view> names(std::begin(kFiles), std::end(kFiles));
  names.push_back(kSettingsKeysFile);
  names.push_back(data::kEndTokensFile);
  names.push_back(data::kBeginTokenFile);
  return names;
}

ModelSettings read_settings(const fs::path& folder) {
  ModelSettings settings = read_files(folder, Links::followed);
  if (!names_begin(settings)) settings.begin = begin_in(folder / "config.json", Links::followed);
  return settings;
}

ModelSettings load_settings(const fs::path& folder) {
  ModelSettings settings = read_files(folder, Links::refused);
  // One that says nothing but the ends of texts is the tokenizer's: see Tokenizer::save().
  if (const auto file = settings.files.find(data::kGenerationFile); file != settings.files.end()) {
    const Json json = parse_python_object(folder / data::kGenerationFile, file->second);
    if (json.size() == 1 && json.contains(kEndKey)) settings.files.erase(file);
  }
  settings.begin = begin_in(folder / data::kBeginTokenFile, Links::refused);
  if (has_entry(folder / kSettingsKeysFile)) {
    settings.gguf = std::make_shared<const GgufFile>(folder / kSettingsKeysFile, Links::refused);
  }
  return settings;
}

void save_settings(const fs::path& folder, const ModelSettings& settings,
                   const data::Tokenizer& tokenizer) {
  for (const auto& [name, bytes] : settings.files) {
    write_file_atomically(folder / name, name == data::kGenerationFile
                                             ? generation_config_of(settings, tokenizer)
                                             : bytes);
  }
  if (settings.begin) write_json(folder / data::kBeginTokenFile, {{kBeginKey, *settings.begin}});
  if (settings.gguf) write_gguf(folder / kSettingsKeysFile, passed_keys(*settings.gguf), {});
}

std::string generation_config_of(const ModelSettings& settings, const data::Tokenizer& tokenizer) {
  const auto file = settings.files.find(data::kGenerationFile);
  if (file == settings.files.end()) return "";
  const fs::path path = settings.folder / data::kGenerationFile;
  const Json json = parse_python_object(path, file->second);
  const std::vector<data::Token> ends = tokenizer.ends();
  const std::vector<std::int64_t> said = ids_of(json.value(kEndKey, Json()));
  // Where nothing is said, other files say the ends.
  const bool right = said.empty() || std::equal(said.begin(), said.end(), ends.begin(), ends.end());
  if (right) return file->second;
  return with_python_member(path, file->second, kEndKey, json_of_ends(tokenizer));
}

bool leaves_out_ends(const ModelSettings& settings) {
  const auto file = settings.files.find(data::kGenerationFile);
  if (file == settings.files.end()) return false;
  const Json json = parse_python_object(settings.folder / data::kGenerationFile, file->second);
  return ids_of(json.value(kEndKey, Json())).empty();
}

ModelSettings with_ends(ModelSettings settings, const data::Tokenizer& tokenizer) {
  if (!leaves_out_ends(settings)) return settings;
  std::string& file = settings.files.at(std::string(data::kGenerationFile));
  file = with_python_member(settings.folder / data::kGenerationFile, file, kEndKey,
                            json_of_ends(tokenizer));
  return settings;
}

ModelSettings cut_settings(ModelSettings settings, std::int64_t positions) {
  const auto file = settings.files.find(kTokenizerConfigFile);
  if (file == settings.files.end()) return settings;
  const fs::path path = settings.folder / kTokenizerConfigFile;
  const Json length = parse_python_object(path, file->second).value(kLengthKey, Json());
  if (!length.is_number() || length <= positions) return settings;
  file->second = with_python_member(path, file->second, kLengthKey, positions);
  return settings;
}

}  // namespace tapegrad::run
