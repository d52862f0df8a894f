#include "tapegrad/data/tokenize/hf/internal/hf_folder_file.h"

#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"
#include "tapegrad/data/tokenize/hf/internal/hf_of_pieces.h"
#include "tapegrad/data/tokenize/hf/internal/outside_tokens.h"
#include "tapegrad/data/tokenize/hf/internal/tokenizer_config.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/model_file.h"

namespace tapegrad::data {
namespace {

namespace fs = std::filesystem;

std::string read_whole(const fs::path& path) { return read_file(path, HfTokenizer::kMaxFileBytes); }

FoundFile found_json(std::string text) {
  FoundFile found{HfFile::parse(text), std::move(text)};
  if (number_added_tokens(found.file)) found.text.clear();
  return found;
}

FoundFile found_pieces(const fs::path& path, const fs::path& config) {
  const SentencePieceModel model = parse_sentencepiece(read_whole(path));
  SentencePieceUse use;
  if (!config.empty()) {
    const Json settings =
        path_exists(config) ? parse_json_object(config, read_whole(config)) : Json::object();
    const auto says = [&](const char* name, bool absent) {
      const auto found = settings.find(name);
      return found != settings.end() && found->is_boolean() ? found->get<bool>() : absent;
    };
    const Json& name = settings.value("tokenizer_class", Json());
    const std::string text = name.is_string() ? name.get<std::string>() : "Llama";
    const bool of_class = text.find("Llama") != text.npos || text.find("Gemma") != text.npos;
    const Json& prefix = settings.value("add_prefix_space", Json());
    check(!prefix.is_boolean() || prefix == model.add_dummy_prefix || !of_class,
          "{}: \"add_prefix_space\" is {}, and tokenizer.model's add_dummy_prefix is {}: this is "
          "not supported",
          config.filename().string(), prefix.dump(), model.add_dummy_prefix);
    use.begins = says("add_bos_token", of_class && model.find(kControlPiece, model.bos_piece));
    use.prefix_first = !says("legacy", true);
  }
  const auto end = model.find(kControlPiece, model.eos_piece);
  return {hf_file_of(model, use), "", end ? std::optional<std::int64_t>(*end) : std::nullopt};
}

// Other names that SentencePiece's files have. Their classes in transformers give pieces other ids.
void refuse_files_of_classes(const fs::path& folder) {
  for (const char* name : {"spiece.model", "sentencepiece.bpe.model"}) {
    check(!path_exists(folder / name),
          "{} is SentencePiece's file of a class that changes ids, which is not read: "
          "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers makes a "
          "tokenizer.json of it",
          name);
  }
}

FoundFile first_file_in(const fs::path& folder, TokenizerTables& tables) {
  const fs::path file = folder / "tokenizer.json", vocab = folder / "vocab.json",
                 pieces = folder / "tokenizer.model";
  if (path_exists(file)) return found_json(read_whole(file));
  tables = TokenizerTables::merges;
  if (path_exists(vocab)) {
    return found_json(tokenizer_json_of(read_whole(vocab), read_whole(folder / "merges.txt")));
  }
  tables = TokenizerTables::pieces;
  if (path_exists(pieces)) return found_pieces(pieces, folder / "tokenizer_config.json");
  refuse_files_of_classes(folder);
  fail("it has neither tokenizer.json nor vocab.json nor tokenizer.model");
}

}  // namespace

FoundFile hf_file_in(const fs::path& folder) {
  auto tables = TokenizerTables::json;
  FoundFile found = first_file_in(folder, tables);
  const bool has_more = add_outside_tokens(found.file, folder);
  const bool has_changed = apply_tokenizer_config(found.file, folder, tables);
  if (has_more || has_changed) found.text.clear();
  return found;
}

FoundFile hf_file_at(const fs::path& path) {
  return path.extension() == ".model" ? found_pieces(path, "") : found_json(read_whole(path));
}

}  // namespace tapegrad::data
