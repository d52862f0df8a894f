#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapegrad::data {

// Texts, one behind the other in one piece of memory.
class TextList {
 public:
  void add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

// The contents of a tokenizer.json: its vocabulary and its merges, of which there may be hundreds
// of thousands, as tables, and a tree of all else. Whether it makes sense is for HfTokenizer to
// see.
class HfFile {
 public:
  // `rest` has all but the elements of "vocab" and "merges" of its "model". `most_tokens`: an id is
  // less.
  HfFile(nlohmann::json rest, std::size_t most_tokens)
      : rest_(std::move(rest)), most_tokens_(most_tokens) {}
  // Error if `text` is no JSON. It describes fewer tokens than it has bytes; an id beyond would
  // only make a hole.
  static HfFile parse(std::string_view text);

  void add_token(std::string_view shown, nlohmann::json id) {
    tokens_.add(shown);
    ids_.push_back(std::move(id));
  }
  // Of a model that goes by scores: Unigram.
  void add_token(std::string_view shown, nlohmann::json id, double score) {
    add_token(shown, std::move(id));
    scores_.push_back(score);
  }
  // ["Ġ", "t"], or "Ġ t" in older files.
  void add_merge(const nlohmann::json& merge);
  void add_merge(std::string_view both) { merges_.add(both); }
  // With a rank, all merges have one: the least goes first, and of equal ones the leftmost in a
  // text. Without, they go in their order.
  void add_merge(std::string_view left, std::string_view right, std::size_t rank);

  const nlohmann::json& rest() const { return rest_; }
  nlohmann::json& rest() { return rest_; }
  std::size_t most_tokens() const { return most_tokens_; }
  std::size_t tokens() const { return ids_.size(); }
  std::string_view shown(std::size_t token) const { return tokens_[token]; }
  const nlohmann::json& id(std::size_t token) const { return ids_[token]; }
  bool has_scores() const { return !ids_.empty() && scores_.size() == ids_.size(); }
  double score(std::size_t token) const { return scores_[token]; }
  std::size_t merges() const { return merges_.size(); }
  // The two tokens of a merge. Error, with its number, if it is none.
  std::pair<std::string_view, std::string_view> merge(std::size_t i) const;
  // The result of a merge.
  std::string merged_text(std::size_t i) const {
    const auto [left, right] = merge(i);
    return std::string(left).append(right);
  }
  std::size_t rank(std::size_t i) const { return ranks_.empty() ? i : ranks_[i]; }

  // The text of the file.
  std::string json_text() const;

 private:
  void add_scored(const nlohmann::json& pair);

  nlohmann::json rest_;
  std::size_t most_tokens_;
  TextList tokens_, merges_;
  std::vector<nlohmann::json> ids_;
  std::vector<double> scores_;
  std::vector<std::size_t> ranks_;
};

}  // namespace tapegrad::data
