#include "tapegrad/data/tokenize/hf/pre_tokenizer.h"

#include "tapegrad/data/tokenize/bpe/gpt2_pieces.h"

namespace tapegrad::data {

void PreTokenizer::cut_from(std::size_t step, std::string_view text, const Found& found) const {
  if (text.empty()) return;
  if (step == steps_.size()) return found(text);
  const auto* regex = std::get_if<SplitRegex>(&steps_[step]);
  if (regex == nullptr) {
    while (!text.empty()) {
      const std::size_t size = first_piece(text);
      cut_from(step + 1, text.substr(0, size), found);
      text.remove_prefix(size);
    }
    return;
  }
  std::size_t done = 0;
  regex->each_match(text, [&](std::size_t begin, std::size_t end) {
    cut_from(step + 1, text.substr(done, begin - done), found);
    cut_from(step + 1, text.substr(begin, end - begin), found);
    done = end;
  });
  cut_from(step + 1, text.substr(done), found);
}

}  // namespace tapegrad::data
