#include "tapegrad/run/models/formats/llmc_tokenizer.h"

#include <array>
#include <cstring>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"

namespace tapegrad::run {
namespace {

constexpr std::int32_t kTokenizerMagic = 20240328, kVersion = 2, kOlderVersion = 1;
constexpr std::size_t kMostTokenBytes = 255;
// More than that of any vocabulary of data::Bpe::kMaxSize tokens.
constexpr std::int64_t kMostFileBytes = std::int64_t{64} << 20;

using Header = std::array<std::int32_t, 256>;

std::vector<std::string> tokens_of(std::string_view file) {
  Header header{};
  check(file.size() >= sizeof header, "{} bytes are too few", file.size());
  std::memcpy(header.data(), file.data(), sizeof header);
  check(header[0] == kTokenizerMagic, "it does not begin as one of llm.c does");
  check(header[1] == kVersion || header[1] == kOlderVersion, "version {} is not supported",
        header[1]);
  file.remove_prefix(sizeof header);
  check(header[2] > 0 && static_cast<std::size_t>(header[2]) <= file.size() &&
            header[2] <= data::Bpe::kMaxSize,
        "{} tokens in {} bytes", header[2], file.size());
  std::vector<std::string> tokens;
  for (std::int32_t i = 0; i < header[2]; ++i) {
    const std::size_t size = file.empty() ? 0 : static_cast<unsigned char>(file[0]);
    check(size > 0 && size < file.size(), "token {} is not whole", i);
    tokens.emplace_back(file.substr(1, size));
    file.remove_prefix(1 + size);
  }
  check(file.empty(), "{} bytes are left behind its tokens", file.size());
  return tokens;
}

}  // namespace

std::string llmc_tokenizer(const data::Tokenizer& tokenizer, data::Token end) {
  std::int64_t count = tokenizer.vocab_size();
  while (count > 0 && tokenizer.token_bytes(static_cast<data::Token>(count - 1)).empty()) --count;
  const Header header = {kTokenizerMagic, kVersion, static_cast<std::int32_t>(count), end};
  std::string file(reinterpret_cast<const char*>(header.data()), sizeof header);
  for (data::Token token = 0; token < count; ++token) {
    const std::string bytes = tokenizer.token_bytes(token);
    check(!bytes.empty() && bytes.size() <= kMostTokenBytes,
          "llm.c's tokenizer cannot have token {}, of {} bytes: from 1 to {} can be", token,
          bytes.size(), kMostTokenBytes);
    file += static_cast<char>(bytes.size());
    file += bytes;
  }
  return file;
}

data::Tokenizer read_llmc_tokenizer(const std::filesystem::path& path) {
  const std::string file = read_file(path, kMostFileBytes);
  try {
    return data::Tokenizer::of_tokens(tokens_of(file));
  } catch (const Error& error) {
    fail("{}: not a usable tokenizer of llm.c: {}", path.string(), error.what());
  }
}

}  // namespace tapegrad::run
