#include "tapegrad/run/formats/token_files.h"

#include <algorithm>
#include <cstring>

#include "tapegrad/autograd/base/file.h"
#include "tapegrad/autograd/base/fingerprint.h"
#include "tapegrad/run/formats/nanogpt.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostFileBytes = std::int64_t{4} << 30;
constexpr std::int32_t kMagic = 20240520, kVersion = 1;
constexpr std::size_t kHeaderBytes = 1024;

struct Files {
  std::vector<fs::path> train, val;
  bool complete() const { return train.size() == 1 && val.size() == 1; }
};

Files files_in(const fs::path& folder) {
  Files files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with("train.bin")) files.train.push_back(it->path());
    if (name.ends_with("val.bin")) files.val.push_back(it->path());
  }
  return files;
}

std::vector<data::Token> read_ids(const fs::path& path, std::int64_t vocab_size,
                                  Fingerprint& hash) {
  const std::string bytes = read_file(path, kMostFileBytes);
  hash.add(fmt::format("{} bytes: ", bytes.size()));  // where one file ends counts
  hash.add(bytes);
  std::string_view ids = bytes;
  std::int32_t header[3] = {};
  if (ids.size() >= kHeaderBytes) std::memcpy(header, ids.data(), sizeof header);
  if (header[0] == kMagic) {
    ids.remove_prefix(kHeaderBytes);
    check(header[1] == kVersion && header[2] >= 0 &&
              ids.size() == 2 * static_cast<std::size_t>(header[2]),
          "{}: its header says version {} and {} tokens, which does not fit its {} bytes",
          path.string(), header[1], header[2], bytes.size());
  }
  check(ids.size() % 2 == 0, "{}: {} bytes are no ids of 16 bits", path.string(), bytes.size());
  std::vector<data::Token> tokens(ids.size() / 2);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::uint16_t id = 0;
    std::memcpy(&id, ids.data() + 2 * i, sizeof id);
    check(id < vocab_size, "{}: the id {} at place {} is not one of the {} tokens", path.string(),
          id, i, vocab_size);
    tokens[i] = id;
  }
  return tokens;
}

}  // namespace

bool is_token_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) && files_in(path).complete();
}

Text read_token_folder(const fs::path& folder) {
  const Files files = files_in(folder);
  check(files.complete(), "{} has no train.bin and val.bin, or several", folder.string());
  const fs::path meta = folder / kNanogptMeta;
  const data::Tokenizer tokenizer =
      fs::exists(meta) ? read_nanogpt_meta(meta) : data::Tokenizer::gpt2();
  Fingerprint hash;
  TokenText ids{folder.string(), files.val[0].filename().string(), tokenizer,
                read_ids(files.train[0], tokenizer.vocab_size(), hash),
                read_ids(files.val[0], tokenizer.vocab_size(), hash)};
  Text text;
  text.identity = {.name = fmt::format("{} and {}", files.train[0].filename().string(),
                                       files.val[0].filename().string()),
                   .bytes = static_cast<std::int64_t>(fs::file_size(files.train[0]) +
                                                      fs::file_size(files.val[0])),
                   .fingerprint = hash.str()};
  text.tokens = std::make_shared<const TokenText>(std::move(ids));
  return text;
}

const TokenText& tokens_for(const Text& text, const data::Tokenizer& tokenizer) {
  const data::Tokenizer& own = text.tokens->tokenizer;
  const auto refuse = [&](const std::string& difference) {
    fail(
        "{1}: its ids are those of another tokenizer, of the kind {0}: {2}. Give the text itself, "
        "or a model with that tokenizer (of a new run: --tokenizer {0})",
        own.kind(), text.tokens->folder, difference);
  };
  if (tokenizer.vocab_size() < own.vocab_size()) {
    refuse(fmt::format("that one has {} tokens, and this one {}", own.vocab_size(),
                       tokenizer.vocab_size()));
  }
  for (data::Token token = 0; token < own.vocab_size(); ++token) {
    if (tokenizer.token_bytes(token) == own.token_bytes(token)) continue;
    refuse(fmt::format("token {} differs", token));
  }
  return *text.tokens;
}

}  // namespace tapegrad::run
