#include "tapegrad/run/corpus/internal/token_folder.h"

#include <algorithm>
#include <map>

#include "tapegrad/base/file.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/corpus/chat/internal/chat_folder.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/corpus/prepare/internal/prepare_state.h"
#include "tapegrad/run/models/formats/nanogpt.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// Files of one name, but for its end: "tales_train.bin" and "tales_val.bin".
struct Files {
  std::vector<fs::path> train, val;  // in the order of their numbers
};

// One file, or several that are numbered.
bool is_part(const std::vector<fs::path>& files) {
  const auto numbered = [](const fs::path& file) {
    const std::string name = file.stem().string();
    return name.back() >= '0' && name.back() <= '9';
  };
  return files.size() == 1 || (!files.empty() && std::all_of(files.begin(), files.end(), numbered));
}

// The parts of a name of the form TEXT(train|val)[_NUMBER].bin. (std::regex takes seconds to
// compile.)
struct FileName {
  std::string_view text;
  bool train;
};

std::optional<FileName> read_name(std::string_view name) {
  const auto cut = [&](std::string_view end) {
    const bool ends = name.ends_with(end);
    if (ends) name.remove_suffix(end.size());
    return ends;
  };
  if (!cut(".bin")) return std::nullopt;
  const std::size_t line = name.find_last_not_of("0123456789");
  if (line != name.npos && name[line] == '_' && line + 1 < name.size()) name = name.substr(0, line);
  const bool train = cut("train");
  if (!train && !cut("val")) return std::nullopt;
  return FileName{name, train};
}

// None if there are several such texts, too.
std::optional<Files> files_in(const fs::path& folder) {
  std::map<std::string, Files> texts;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::optional<FileName> said = read_name(name);
    if (!said) continue;
    Files& text = texts[std::string(said->text)];
    (said->train ? text.train : text.val).push_back(it->path());
  }
  if (texts.size() != 1) return std::nullopt;
  Files files = texts.begin()->second;
  if (!is_part(files.train) || !is_part(files.val)) return std::nullopt;
  std::sort(files.train.begin(), files.train.end());
  std::sort(files.val.begin(), files.val.end());
  return files;
}

// "tales_train.bin", "train_000000.bin … (3 files)"
std::string name_of(const TokenPart& part) {
  if (part.files.empty()) return "no file";
  const std::string name = part.files.front().path.filename().string();
  return part.files.size() == 1 ? name : fmt::format("{} … ({} files)", name, part.files.size());
}

TokenPart part_of(const std::vector<data::TokenFile>& files, const data::DataPart& info) {
  return {files, data::TokenSource(files), info.documents, info.shards};
}

TokenPart open_part(const std::vector<fs::path>& paths) {
  std::vector<data::TokenFile> files;
  for (const fs::path& path : paths) files.push_back(data::open_shard(path));
  return {files, data::TokenSource(files), 0, std::nullopt};
}

std::int64_t bytes_of(const TokenPart& part) {
  std::uint64_t bytes = 0;
  for (const data::TokenFile& file : part.files) bytes += file.file->size();
  return static_cast<std::int64_t>(bytes);
}

std::optional<data::Tokenizer> foreign_tokenizer(const fs::path& folder, const TokenPart& train,
                                                 const TokenPart& val) {
  const fs::path own = folder / kTokenizerFile, meta = folder / kNanogptMeta;
  if (path_exists(own)) return data::Tokenizer::load(own);
  if (path_exists(meta)) return read_nanogpt_meta(meta);
  for (const TokenPart* part : {&train, &val}) {
    for (const data::TokenFile& file : part->files) {
      if (file.bits != 16) return std::nullopt;
    }
  }
  return data::Tokenizer::gpt2();
}

TokenText open_other(const fs::path& folder) {
  check(!path_exists(folder / kPrepareFile),
        "{}: tapegrad prepare has not finished this folder: start it again, with the same options",
        folder.string());
  const auto files = files_in(folder);
  check(files.has_value(),
        "{} has no data.json, which tapegrad prepare writes, and no train.bin and val.bin, or "
        "several",
        folder.string());
  TokenPart train = open_part(files->train), val = open_part(files->val);
  auto tokenizer = foreign_tokenizer(folder, train, val);
  return {folder.string(), name_of(val), std::move(tokenizer), std::move(train), std::move(val)};
}

// Shows how far a part is read, once a second has gone by.
class ReadingProgress {
 public:
  explicit ReadingProgress(std::int64_t bytes) : bytes_(static_cast<double>(bytes)) {}
  void operator()(std::int64_t bytes) {
    done_ += static_cast<double>(bytes);
    const double spent = watch_.seconds();
    if (spent < 1 || !terminal_.wants_progress()) return;
    const double share = std::min(1.0, done_ / bytes_);
    terminal_.working("checking the tokens: " + progress_text(share, spent / share - spent));
  }

 private:
  Terminal terminal_;
  const double bytes_;
  double done_ = 0;
  const Stopwatch watch_;
};

}  // namespace

bool is_token_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) &&
         (data::is_data_folder(path) || fs::exists(path / kPrepareFile, ignored) ||
          files_in(path).has_value());
}

Text read_token_folder(const fs::path& folder) {
  if (data::is_chat_folder(folder)) return read_chat_folder(folder);
  Text text;
  if (path_exists(folder / data::kDataFile)) {
    data::DataFolder data = data::open_data_folder(folder);
    TokenText tokens{folder.string(), "", std::move(data.tokenizer),
                     part_of(data.train, data.info.train), part_of(data.val, data.info.val)};
    tokens.val_name = name_of(tokens.val);
    text.identity.name =
        fmt::format("{} ({})", absolute_path(folder).lexically_normal().filename().string(),
                    data.info.source.name);
    text.identity.fingerprint = data::fingerprint_of(data.info.train.shards, data.info.val.shards);
    text.tokens = std::make_shared<const TokenText>(std::move(tokens));
  } else {
    text.tokens = std::make_shared<const TokenText>(open_other(folder));
    text.identity.name =
        fmt::format("{} and {}", name_of(text.tokens->train), text.tokens->val_name);
  }
  text.identity.bytes = bytes_of(text.tokens->train) + bytes_of(text.tokens->val);
  return text;
}

std::vector<data::ShardInfo> check_part(const TokenPart& part, std::int64_t vocab_size) {
  ReadingProgress progress(bytes_of(part));
  std::vector<data::ShardInfo> found;
  for (std::size_t i = 0; i < part.files.size(); ++i) {
    found.push_back(data::scan_shard(part.files[i], vocab_size, std::ref(progress)));
    if (!part.expected || (*part.expected)[i].name.empty()) continue;
    const data::ShardInfo& expected = (*part.expected)[i];
    check(found.back() == expected,
          "{}: its contents have changed: their CRC-32 is {:08x}, and was {:08x} when {} was "
          "written",
          part.files[i].path.string(), found.back().crc32, expected.crc32, data::kDataFile);
  }
  return found;
}

void check_tokens(Text& text, std::int64_t vocab_size) {
  if (text.tokens == nullptr || text.tokens_checked) return;
  const auto train = check_part(text.tokens->train, vocab_size);
  const auto val = check_part(text.tokens->val, vocab_size);
  text.identity.fingerprint = mixed_fingerprint(data::fingerprint_of(train, val), text.mixture);
  text.tokens_checked = true;
}

void check_same_tokens(const data::Tokenizer& own, const data::Tokenizer& tokenizer,
                       const std::string& folder) {
  const auto refuse = [&](const std::string& difference) {
    fail(
        "{1}: its ids are those of another tokenizer, of the kind {0}: {2}. Give the text itself, "
        "or a model with that tokenizer (of a new run: leave --tokenizer out)",
        own.kind(), folder, difference);
  };
  if (tokenizer.vocab_size() < own.vocab_size()) {
    refuse(fmt::format("that one has {} tokens, and this one {}", own.vocab_size(),
                       tokenizer.vocab_size()));
  }
  for (data::Token token = 0; token < own.vocab_size(); ++token) {
    if (tokenizer.token_bytes(token) == own.token_bytes(token)) continue;
    refuse(fmt::format("token {} differs", token));
  }
}

const TokenText& tokens_for(const Text& text, const data::Tokenizer& tokenizer) {
  const TokenText& tokens = *text.tokens;
  if (tokens.tokenizer) check_same_tokens(*tokens.tokenizer, tokenizer, tokens.folder);
  return tokens;
}

}  // namespace tapegrad::run
