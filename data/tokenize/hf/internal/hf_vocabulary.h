#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/hf/internal/hf_file.h"
#include "tapegrad/data/tokenize/hf/internal/text_index.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// The tokens of a file by the texts that show them.
class HfVocabulary {
 public:
  static constexpr Token kNone = -1;

  explicit HfVocabulary(const HfFile& file) : file_(&file), index_(file.tokens(), Shown{&file}) {}

  // The file's next one; kNone if it is in no text. Error if another one is shown so.
  void add(Token token) {
    check(index_.add(tokens_.size()), "'{}' is there twice", shown(tokens_.size()));
    tokens_.push_back(token);
  }

  const HfFile& file() const { return *file_; }
  std::size_t size() const { return tokens_.size(); }
  // By the place in the file.
  std::string_view shown(std::size_t place) const { return file_->shown(place); }
  Token operator[](std::size_t place) const { return tokens_[place]; }
  // By the text, or kNone.
  Token find(std::string_view text) const {
    const std::size_t found = index_.find(text);
    return found == index_.kNone ? kNone : tokens_[found];
  }
  // The place of a merge's token, or of a part of it. Error if there is none.
  std::size_t place_in_merge(std::string_view text, std::size_t merge) const {
    const std::size_t found = index_.find(text);
    check(found != index_.kNone && tokens_[found] != kNone,
          "merge {} needs '{}', which is not in the vocabulary", merge, text);
    return found;
  }

 private:
  struct Shown {
    const HfFile* file;
    std::string_view operator()(std::size_t k) const { return file->shown(k); }
  };
  const HfFile* file_;
  TextIndex<Shown> index_;
  std::vector<Token> tokens_;
};

}  // namespace tapegrad::data
