#include "tapegrad/data/tokenize/bpe/internal/gpt2_merges.h"

#include <string>
#include <string_view>
#include <unordered_map>

#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"

namespace tapegrad::embedded {
std::string_view gpt2_merges();
}

namespace tapegrad::data {

std::vector<Merge> gpt2_merges() {
  std::unordered_map<std::string, Token> token_of;
  for (const std::uint8_t byte : gpt2_byte_order()) {
    token_of.emplace(std::string(1, static_cast<char>(byte)), static_cast<Token>(token_of.size()));
  }
  std::vector<Merge> merges;
  std::string_view lines = embedded::gpt2_merges();
  lines.remove_prefix(lines.find('\n') + 1);  // the first line is the version
  for (std::size_t end = 0; (end = lines.find('\n')) != std::string_view::npos;
       lines.remove_prefix(end + 1)) {
    const std::string_view line = lines.substr(0, end);
    const std::size_t space = line.find(' ');
    const std::string left = bytes_of_shown(line.substr(0, space)).value();
    const std::string right = bytes_of_shown(line.substr(space + 1)).value();
    merges.emplace_back(token_of.at(left), token_of.at(right));
    token_of.emplace(left + right, static_cast<Token>(token_of.size()));
  }
  return merges;
}

}  // namespace tapegrad::data
