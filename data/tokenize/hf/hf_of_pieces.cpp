#include "tapegrad/data/tokenize/hf/internal/hf_of_pieces.h"

#include <cmath>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/base64.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/merges_of_scores.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/model_file.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;

bool is_special(std::int64_t type) { return type == kControlPiece || type == kUnknownPiece; }

json added_tokens_of(const ScoredPieces& v) {
  json added = json::array();
  for (std::size_t i = 0; i < v.texts.size(); ++i) {
    if (!is_special(v.types[i]) && v.types[i] != kUserDefinedPiece) continue;
    json token = {{"id", i}, {"content", v.texts[i]}, {"special", is_special(v.types[i])}};
    for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) {
      token[name] = false;  // Hugging Face's reader wants them all
    }
    added.push_back(std::move(token));
  }
  return added;
}

json rest_of(const ScoredPieces& v) {
  const json space = {{"String", " "}}, mark = {{"String", "▁"}};
  json normalizers = json::array(), decoders = json::array();
  if (v.adds_space) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", space}, {"content", "▁"}});
  decoders.push_back({{"type", "Replace"}, {"pattern", mark}, {"content", " "}});
  if (v.byte_fallback) decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (v.adds_space) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  json model = {{"byte_fallback", v.byte_fallback}};
  if (v.unigram) {
    model.update({{"type", "Unigram"},
                  {"unk_id", static_cast<std::uint64_t>(v.unknown.value())},
                  {"vocab", json::array()}});
  } else {
    model.update({{"type", "BPE"},
                  {"fuse_unk", true},
                  {"ignore_merges", false},
                  {"vocab", json::object()},
                  {"merges", json::array()}});
    if (v.unknown) model["unk_token"] = v.texts[static_cast<std::size_t>(*v.unknown)];
  }
  json file = {{"version", "1.0"},
               {"added_tokens", added_tokens_of(v)},
               {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
               {"pre_tokenizer", nullptr},
               {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}},
               {"model", std::move(model)}};
  if (!v.post_processor.is_null()) file["post_processor"] = v.post_processor;
  return file;
}

// Hugging Face's steps before those of rest_of(). Precompiled replaces other parts of a character
// that has several code points, so only the charsmap of theirs is read here.
json normalizers_before(const SentencePieceModel& model) {
  json steps = json::array();
  if (!model.charsmap.empty()) {
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64_of(model.charsmap)}});
  }
  if (model.remove_extra_whitespaces) {
    steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  return steps;
}

}  // namespace

HfFile hf_file_of(const ScoredPieces& v) {
  HfFile file(rest_of(v), v.texts.size());
  std::vector<std::optional<double>> scores;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < v.texts.size(); ++i) {
    if (v.types[i] == kUnusedPiece) continue;
    check_text_of_json(v.texts[i]);
    check(v.types[i] >= kNormalPiece && v.types[i] <= kBytePiece,
          "the token '{}' is of type {}, which is not known", v.texts[i], v.types[i]);
    check(std::isfinite(v.scores[i]), "the score of '{}' is not finite", v.texts[i]);
    bytes += v.types[i] == kBytePiece ? 1 : 0;
    if (v.unigram) {
      file.add_token(v.texts[i], i, v.scores[i]);
      continue;
    }
    file.add_token(v.texts[i], i);
    const bool merges =
        v.types[i] == kNormalPiece || (v.types[i] == kUserDefinedPiece && v.merges_symbols);
    scores.push_back(merges ? std::optional(v.scores[i]) : std::nullopt);
  }
  check(!v.byte_fallback || bytes == 256,
        "{} of 256 tokens are bytes, without which a text cannot be encoded", bytes);
  if (!v.unigram) add_merges_of_scores(file, scores);
  return file;
}

HfFile hf_file_of(const SentencePieceModel& model, const SentencePieceUse& use) {
  ScoredPieces v{model.pieces, model.types, model.scores};
  v.unigram = model.method == model.kUnigram;
  v.byte_fallback = model.byte_fallback;
  v.adds_space = model.add_dummy_prefix && !use.prefix_first;
  v.merges_symbols = false;
  json silent = json::array(), symbols = json::array();
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    if (model.types[i] == kUnknownPiece) v.unknown = static_cast<std::int64_t>(i);
    if (is_special(model.types[i]) || model.types[i] == kBytePiece) silent.push_back(i);
    if (model.types[i] == kUserDefinedPiece) symbols.push_back(i);
  }
  if (use.begins) {
    const auto begin = model.find(kControlPiece, model.bos_piece);
    check(begin.has_value(), "texts begin with '{}', which is no control piece", model.bos_piece);
    v.post_processor = post_processor_of(model.pieces, begin);
  }
  HfFile file = hf_file_of(v);
  json& rest = file.rest();
  json& steps = rest["normalizer"]["normalizers"];
  json before = normalizers_before(model);
  before.insert(before.end(), steps.begin(), steps.end());
  steps = std::move(before);
  const bool first = model.add_dummy_prefix && use.prefix_first;
  if (first) {
    rest["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
    rest["decoder"]["decoders"].push_back(
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  rest["model"][kSentencePieceKey] = {{"add_dummy_prefix", model.add_dummy_prefix},
                                      {"remove_extra_whitespaces", model.remove_extra_whitespaces},
                                      {"prefix_first", first},
                                      {"unknown", static_cast<std::uint64_t>(v.unknown.value())},
                                      {"unknown_surface", model.unknown_surface},
                                      {"silent", std::move(silent)},
                                      {"symbols", std::move(symbols)}};
  return file;
}

void check_text_of_json(const std::string& text) {
  check(!find_invalid_utf8(text), "a text is not in UTF-8");
  check(text.find('\0') == std::string::npos, "a text has a NUL in it");
}

json post_processor_of(std::span<const std::string> texts, std::optional<std::int64_t> begin) {
  const bool is_token = begin && *begin >= 0 && *begin < std::ssize(texts);
  check(is_token, "texts begin with a token, which bos_token_id does not name");
  const std::string& text = texts[static_cast<std::size_t>(*begin)];
  const json special = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  const json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"type", "TemplateProcessing"},
          {"single", {special, sequence}},
          {"pair", {sequence, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
          {"special_tokens", {{text, {{"id", text}, {"ids", {*begin}}, {"tokens", {text}}}}}}};
}

}  // namespace tapegrad::data
