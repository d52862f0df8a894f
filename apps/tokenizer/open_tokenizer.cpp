#include "tapegrad/apps/tokenizer/open_tokenizer.h"

#include <algorithm>
#include <iterator>

#include "tapegrad/base/file.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::tokenizers {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer(const fs::path& folder) {
  constexpr const char* kNames[] = {"tokenizer.json", "vocab.json", "tokenizer.model"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* name) { return path_exists(folder / name); });
}

}  // namespace

data::Tokenizer open_tokenizer(const std::string& name) {
  const fs::path path = name;
  if (!path_exists(path)) {
    if (name == "gpt2") return data::Tokenizer::gpt2();
    fail(
        "'{}' is no tokenizer: give gpt2, a tokenizer.json or tokenizer.model, a folder that has "
        "one, or a model whose file has its tokenizer, as GGUF",
        name);
  }
  const bool is_file = !is_folder(path);
  const bool names_one = path.extension() == ".json" || path.extension() == ".model";
  if (is_file ? names_one : has_tokenizer(path)) return data::Tokenizer::open(path);
  return run::open_model(path).tokenizer;
}

}  // namespace tapegrad::tokenizers
