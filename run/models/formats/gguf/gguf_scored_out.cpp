#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/hf/internal/hf_of_pieces.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_scored.h"
#include "tapegrad/run/models/formats/internal/pre_tokenizer_steps.h"

namespace tapegrad::run {
namespace {

using nlohmann::json;

bool is_mark(const json& value) { return value == json("▁"); }

// The parts of a list that may stand alone, in one list.
std::vector<json> parts_of(const json& part, const char* list) {
  if (part.is_null()) return {};
  if (part.at("type") != json("Sequence")) return {part};
  std::vector<json> parts;
  for (const json& inner : member(part, list)) {
    for (json& flat : parts_of(inner, list)) parts.push_back(std::move(flat));
  }
  return parts;
}

// Without the splits at spaces, of which none is left.
bool cuts_nothing(const json& pre_tokenizer) {
  const std::vector<json> parts = parts_of(pre_tokenizer, "pretokenizers");
  return std::all_of(parts.begin(), parts.end(), [](const json& part) {
    return part.at("type") == json("Split") && part.at("pattern") == json{{"String", " "}};
  });
}

}  // namespace

bool falls_back_to_bytes(const json& file) {
  const std::vector<json> parts = parts_of(member(file, "decoder"), "decoders");
  return std::any_of(parts.begin(), parts.end(),
                     [](const json& part) { return part.at("type") == json("ByteFallback"); });
}

bool adds_space(const json& file) {
  std::vector<json> steps = parts_of(member(file, "normalizer"), "normalizers");
  const bool prepends =
      !steps.empty() && steps[0].at("type") == json("Prepend") && is_mark(steps[0].at("prepend"));
  if (prepends) steps.erase(steps.begin());
  const bool replaces = steps.size() == 1 && steps[0].at("type") == json("Replace") &&
                        steps[0].at("pattern") == json{{"String", " "}} &&
                        is_mark(steps[0].at("content"));
  check(replaces && cuts_nothing(member(file, "pre_tokenizer")),
        "llama.cpp's SentencePiece changes texts in no way but that spaces become ▁, with one more "
        "before each part between special tokens or without; this tokenizer's normalizer or "
        "pre-tokenizer does otherwise");
  const json& model = file.at("model");
  const bool has_symbols = !member(member(model, data::kSentencePieceKey), "symbols").empty();
  check(!prepends || !has_symbols,
        "llama.cpp puts a space behind user-defined pieces, which SentencePiece does not");
  return prepends;
}

namespace {

void check_bytes(const json& model) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string shown = fmt::format("<0x{:02X}>", byte);
    check(flag(model, "byte_fallback", false) && model.at("vocab").contains(shown),
          "llama.cpp's SentencePiece needs a token {} and byte_fallback", shown);
  }
}

// The merges that make a token, by their numbers.
struct Merges {
  std::size_t first, last, count;
};
using MergesOfTokens = std::unordered_map<std::string, Merges>;

MergesOfTokens merges_of_tokens(const json& model) {
  MergesOfTokens made;
  std::size_t i = 0;
  for (const json& merge : model.at("merges")) {
    std::string both = merge.is_string()
                           ? merge.get<std::string>()
                           : merge[0].get<std::string>() + merge[1].get<std::string>();
    if (merge.is_string()) both.erase(both.find(' '), 1);
    Merges& merges = made.try_emplace(std::move(both), Merges{i, i, 0}).first->second;
    merges.last = i++;
    ++merges.count;
  }
  return made;
}

// In how many places two tokens meet in one.
std::size_t splits_of(const std::string& text, const json& vocab) {
  std::size_t splits = 0;
  for (std::size_t at = 1; at < text.size(); ++at) {
    const bool begins_character = (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
    if (!begins_character) continue;
    splits += vocab.contains(text.substr(0, at)) && vocab.contains(text.substr(at)) ? 1 : 0;
  }
  return splits;
}

void check_merges(const json& file, const MergesOfTokens& made) {
  // llama.cpp finds tokens of this kind before it merges.
  std::unordered_set<std::string> user_defined;
  for (const json& added : member(file, "added_tokens")) {
    if (!flag(added, "special", false)) user_defined.insert(added.at("content"));
  }
  const json& vocab = file.at("model").at("vocab");
  for (const auto& [text, id] : vocab.items()) {
    const auto found = made.find(text);
    const Merges merges = found == made.end() ? Merges{1, 0, 0} : found->second;
    const bool in_a_row =
        user_defined.count(text) > 0 || merges.last + 1 - merges.first == merges.count;
    check(splits_of(text, vocab) == merges.count && in_a_row,
          "llama.cpp's SentencePiece merges any two tokens that are written as a third, in the "
          "order of the third ones; the merges of this tokenizer that make '{}' are others",
          text);
  }
}

}  // namespace

std::vector<double> scores_of_json(const json& file, std::size_t tokens) {
  const json& model = file.at("model");
  check(!flag(model, "ignore_merges", false), "llama.cpp's SentencePiece has no ignore_merges");
  check_bytes(model);
  const MergesOfTokens made = merges_of_tokens(model);
  check_merges(file, made);
  // The first token to be made has the largest score.
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const auto& [text, merges] : made) order.emplace_back(merges.first, text);
  std::sort(order.begin(), order.end());
  std::vector<double> scores(tokens);
  double next = 0;
  for (const auto& [first, text] : order) {
    scores.at(model.at("vocab").at(text).get<std::size_t>()) = --next;
  }
  return scores;
}

}  // namespace tapegrad::run
