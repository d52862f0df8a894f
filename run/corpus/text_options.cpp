// The options of a run's text.

#include <fmt/ranges.h>

#include <filesystem>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/data/data_folder.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad::run {

std::string tokenizer_spec(const data::Tokenizer& tokenizer, const std::filesystem::path& folder) {
  const std::string kind(tokenizer.kind());
  if (kind == "hf") return absolute_path(folder).lexically_normal().string();
  return kind == "bpe" ? fmt::format("bpe:{}", tokenizer.vocab_size()) : kind;
}

std::string unescaped(const std::string& text) {
  constexpr std::string_view names = "nrt\\", values = "\n\r\t\\";
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t which =
        text[i] == '\\' && i + 1 < text.size() ? names.find(text[i + 1]) : names.npos;
    result += which == names.npos ? text[i] : values[which];
    if (which != names.npos) ++i;
  }
  return result;
}

void check_tokenizer(const std::string& spec) {
  if (spec == "char" || spec == "gpt2" || data::is_path_of_tokenizer(spec)) return;
  const std::optional<std::int64_t> size = data::bpe_size(spec);
  check(size && *size >= 257 && *size <= data::Bpe::kMaxSize,
        "--tokenizer: '{}' is not char, gpt2, the path of a tokenizer.json, or bpe:N with N tokens "
        "from 257 to {}, such as bpe:1024",
        spec, +data::Bpe::kMaxSize);
}

void TextOptions::validate() const {
  if (data.empty() || !tokenizer.empty()) check_tokenizer(tokenizer);
  source().validate();
  check(val.empty() || !corpus.empty() || !data.empty() || learns_chat(),
        "--val needs --corpus (and takes all files up to the next option)");
  check(val.empty() || !val_fraction, "--val and --val-fraction exclude each other");
  check(data.empty() || corpus.empty(), "--data and --corpus exclude each other");
  check(chat.empty() || (corpus.empty() && data.empty()),
        "--chat excludes --corpus and --data: a run learns from one of them");
  check(preferences.empty() || (corpus.empty() && data.empty() && chat.empty()),
        "--preferences excludes --corpus, --data and --chat: a run learns from one of them");
  const bool is_chat = learns_chat();
  // A folder that has moved was known to its run. Who opens it says that it is not there.
  std::error_code unknown;  // reading says then what is wrong, which no option is
  const bool has_moved =
      data.size() == 1 && !std::filesystem::exists(data.front(), unknown) && !unknown;
  check(has_moved || is_chat == (batches == BatchKind::packed), "--batches {}: {}",
        name_of_enum(batches),
        is_chat ? "batches of conversations are packed" : "packed is for --chat");
  check(has_moved || (is_chat && preferences.empty()) || loss == data::ChatLoss::answers,
        "--loss needs --chat");
  const bool has_lines = !chat.empty() || !preferences.empty();
  check(has_lines || !strict_data, "--strict-data needs --chat or --preferences");
  check(has_lines || !special_in_messages, "--special-in-messages needs --chat or --preferences");
  check(!has_lines || separator.empty(), "--separator is for text, and {} has none",
        chat.empty() ? "--preferences" : "--chat");
  check(!is_chat || !isolate_documents,
        "--isolate-documents is for text: packed conversations never see each other");
  for (const auto* paths : {&corpus, &data, &chat, &preferences}) {
    for (const std::string& path : *paths) weighted_file(path);
  }
  const auto only_text = [&](bool usual, std::string_view option) {
    check(data.empty() || usual, "{} is for text, and --data {} is tokens already", option,
          fmt::join(data, " "));
  };
  only_text(val.empty(), "--val");
  only_text(!val_fraction, "--val-fraction");
  only_text(separator.empty(), "--separator");
  only_text(field == TextOptions().field, "--field");
  only_text(encoding == TextOptions().encoding, "--encoding");
  check(batches == BatchKind::epochs || !stride, "--stride needs --batches epochs");
}

bool TextOptions::learns_chat() const {
  if (data.size() != 1) return !chat.empty() || !preferences.empty();
  return data::is_chat_folder(weighted_file(data.front()).path);
}

CorpusSource TextOptions::source() const {
  if (!data.empty()) return {.paths = data, .is_data = true, .weighted = true};
  if (!chat.empty() || !preferences.empty()) {
    return {.paths = chat.empty() ? preferences : chat,
            .encoding = encoding,
            .val = val,
            .is_chat = true,
            .strict = strict_data,
            .is_pairs = chat.empty()};
  }
  return {.paths = corpus, .field = field, .encoding = encoding, .val = val, .weighted = true};
}

Division TextOptions::division(std::uint64_t seed) const {
  return {unescaped(separator), val_fraction, seed};
}

}  // namespace tapegrad::run
