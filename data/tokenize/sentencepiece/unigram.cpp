#include "tapegrad/data/tokenize/sentencepiece/internal/unigram.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

constexpr std::string_view kMark = "▁";

}  // namespace

void Unigram::add(std::string_view text, Token token, double score) {
  set(text, token, score);
  least_ = std::min(least_, score);
  largest_ = std::max(largest_, score);
}

void Unigram::add_symbol(std::string_view text, Token token) {
  set(text, token, static_cast<double>(text.size()) * largest_ - 0.1);
}

void Unigram::set(std::string_view text, Token token, double score) {
  tokens_.add(text, token);
  has_inner_mark_ = has_inner_mark_ || text.find(kMark, 1) != text.npos;
  const auto i = static_cast<std::size_t>(token);
  if (scores_.size() <= i) scores_.resize(i + 1);
  scores_[i] = score;
}

void Unigram::cut_at_marks() { cuts_ = !has_inner_mark_ && tokens_.find(kMark) >= 0; }

std::size_t Unigram::first_part(std::string_view piece) const {
  return cuts_ ? std::min(piece.find(kMark, 1), piece.size()) : piece.size();
}

std::vector<Unigram::Best> Unigram::best_ways(std::string_view piece) const {
  std::vector<Best> best(piece.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, Token token, double score) {
    const double sum = best[begin].score + score;
    if (best[end].begin == SIZE_MAX || sum > best[end].score) best[end] = {sum, begin, token};
  };
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t size = first_char(piece.substr(begin)).size;
    bool has_character = false;
    TextTree::Node node = TextTree::kRoot;
    for (std::size_t end = begin; end < piece.size();) {
      node = tokens_.child(node, piece[end++]);
      if (node == TextTree::kNoNode) break;
      const Token token = tokens_.number(node);
      if (token < 0) continue;
      offer(begin, end, token, scores_[static_cast<std::size_t>(token)]);
      has_character = has_character || end == begin + size;
    }
    if (!has_character) offer(begin, begin + size, -1, least_ - kUnknownPenalty);
    begin += size;
  }
  return best;
}

void Unigram::append_unknown(std::string_view text, std::vector<Token>& out) const {
  if (const Token token = tokens_.find(text); token >= 0) {
    out.push_back(token);
  } else if (!unknown_.append_bytes(text, out)) {
    check(unknown_.token.has_value(),
          "[tokenizer] the vocabulary has no token for '{}', and none for unknown characters",
          text.substr(0, first_char(text).size));
    out.push_back(*unknown_.token);
  }
}

void Unigram::encode(std::string_view piece, std::vector<Token>& out) const {
  const std::vector<Best> best = best_ways(piece);
  std::vector<std::size_t> ends;  // of tokens, from the last one on
  for (std::size_t end = piece.size(); end > 0; end = best[end].begin) ends.push_back(end);
  const auto is_unknown = [&](std::size_t end) {
    return best[end].token < 0 || best[end].token == unknown_.token;
  };
  std::size_t done = 0;  // the part before has its tokens
  for (std::size_t i = ends.size(); i > 0; --i) {
    const std::size_t end = ends[i - 1];
    if (!is_unknown(end)) {
      out.push_back(best[end].token);
    } else if (i > 1 && is_unknown(ends[i - 2])) {
      continue;  // neighbours are one unknown text
    } else {
      append_unknown(piece.substr(done, end - done), out);
    }
    done = end;
  }
}

}  // namespace tapegrad::data
