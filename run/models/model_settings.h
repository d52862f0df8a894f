#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/run/folder/file_names.h"

namespace tapegrad {
class GgufFile;
}

namespace tapegrad::run {

// All that the files of a model say beside its config, tokenizer and weights: how a conversation is
// written, which tokens have which roles, how texts are drawn. Nothing here goes by it. It passes
// whole from where a model is opened to runs and exports, what is not understood included.
struct ModelSettings {
  // Of a folder of Hugging Face's, by name, byte for byte: the three above, and
  // generation_config.json.
  std::map<std::string, std::string, std::less<>> files = {};
  std::filesystem::path folder = {};  // where these were read, for messages
  // "bos_token_id" of config.json, where no other file names the token that begins texts.
  std::optional<std::int64_t> begin = {};
  // The file that has the keys of a model that came as GGUF; null of any other.
  std::shared_ptr<const GgufFile> gguf = {};
};

// The names of the files that save_settings() and Tokenizer::save() may write, but for the
// tokenizer.
std::vector<std::string_view> settings_files();

// Those of a folder of Hugging Face's. Error, with the path, for a file of more than 16 MiB.
ModelSettings read_settings(const std::filesystem::path& folder);
// Those that save_settings() put into a folder, of which none may be a link.
ModelSettings load_settings(const std::filesystem::path& folder);
// Called before the tokenizer is saved, which keeps its ends where these files do not say them.
void save_settings(const std::filesystem::path& folder, const ModelSettings& settings,
                   const data::Tokenizer& tokenizer);

// The generation_config.json that was there, with the tokenizer's ends in place of others; empty if
// there was none. One that does not say them, so that config.json does, gains no key.
std::string generation_config_of(const ModelSettings& settings, const data::Tokenizer& tokenizer);
// True if it is there and does not say them.
bool leaves_out_ends(const ModelSettings& settings);
// For a tokenizer whose ends are no longer the model's own: such a file says them from now on.
ModelSettings with_ends(ModelSettings settings, const data::Tokenizer& tokenizer);
// The settings of a model that has been cut to so many positions: no text is longer.
ModelSettings cut_settings(ModelSettings settings, std::int64_t positions);

}  // namespace tapegrad::run
