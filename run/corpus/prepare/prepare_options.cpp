#include "tapegrad/run/corpus/prepare/prepare_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/run/corpus/chat/chat_text.h"
#include "tapegrad/run/corpus/internal/token_folder.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/folder/internal/folder_calls.h"

namespace tapegrad::run {

namespace fs = std::filesystem;

void PrepareOptions::validate() const {
  check(!corpus.empty() || !chat.empty(),
        "--corpus is needed: files and folders of text; or --chat: files of conversations");
  check(corpus.empty() || chat.empty(), "--chat excludes --corpus: a folder has one of them");
  check(!out_dir.empty(), "--out-dir is needed: the folder of the tokens");
  check_tokenizer(tokenizer);
  const PrepareOptions usual;
  const bool is_chat = !chat.empty();
  CorpusSource{.paths = is_chat ? chat : corpus,
               .field = field,
               .encoding = encoding,
               .val = val,
               .is_chat = is_chat}
      .validate();
  for (const std::string& file : chat) weighted_file(file);
  check(is_chat || (model.empty() && !strict_data && !special_in_messages),
        "--model, --strict-data and --special-in-messages need --chat");
  check(!is_chat || (separator.empty() && field == usual.field),
        "--separator and --field are for text, and --chat has none");
  check(!is_chat || !model.empty() || tokenizer != "char",
        "--chat needs a tokenizer with special tokens: --tokenizer bpe:N (such as bpe:2048), gpt2 "
        "or the path of a tokenizer.json; or --model PATH");
  check(val.empty() || !val_fraction, "--val and --val-fraction exclude each other");
  check(format == data::TokenFormat::nanogpt || shard_tokens <= data::kMostLlmcTokens,
        "--shard-tokens {}: a file of llm.c's has at most {} tokens", shard_tokens,
        data::kMostLlmcTokens);
}

// Its own files in a corpus: the next start would find another corpus. Tokens are no text.
void check_outside(const PrepareOptions& o) {
  const fs::path out = resolved_path(o.out_dir);
  for (const auto* paths : {&o.corpus, &o.val}) {
    for (const std::string& path : *paths) {
      std::error_code error;
      if (path == "-" || !fs::is_directory(path, error)) continue;
      check(!is_inside(out, resolved_path(path)),
            "--out-dir {} is inside of the corpus {}: choose another one", o.out_dir, path);
      check(!is_token_folder(path), "{}: it is tokens already, not text", path);
    }
  }
}

std::string options_text(const PrepareOptions& o) {
  const std::string text = fmt::format(
      "--corpus {} --field {} --encoding {} --separator '{}' --val {} --val-fraction {} --seed {} "
      "--tokenizer {} --format {} --shard-tokens {}",
      fmt::join(o.corpus, " "), o.field, o.encoding, o.separator, fmt::join(o.val, " "),
      o.val_fraction.value_or(kValFraction), o.seed, o.tokenizer,
      data::kTokenFormatNames[static_cast<std::size_t>(o.format)], o.shard_tokens);
  if (o.chat.empty()) return text;
  return fmt::format("--chat {} --model {}{} {}", fmt::join(o.chat, " "), o.model,
                     o.special_in_messages ? " --special-in-messages" : "", text);
}

}  // namespace tapegrad::run
