#include "tapegrad/data/tokenize/hf/steps/internal/hf_steps.h"

#include <algorithm>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/base64.h"
#include "tapegrad/data/tokenize/hf/internal/hf_json.h"

namespace tapegrad::data {
namespace {

using nlohmann::json;

constexpr std::string_view kMetaspaceMark = "▁";

// PCRE2's special characters.
std::string escaped(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

void add_normalizer(Normalizer& normalizer, const json& part) {
  const std::string type = json_text_at(part, "type");
  constexpr std::pair<std::string_view, Form> forms[] = {
      {"NFC", Form::nfc}, {"NFD", Form::nfd}, {"NFKC", Form::nfkc}, {"NFKD", Form::nfkd}};
  for (const auto& [name, form] : forms) {
    if (type == name) return normalizer.add_form(form);
  }
  if (type == "Prepend") {
    normalizer.add_prepend(json_text_at(part, "prepend"));
  } else if (type == "Replace") {
    const json& pattern = json_member(part, "pattern");
    if (!pattern.is_object()) unsupported("the normalizer", part);
    const std::string content = json_text_at(part, "content");
    if (pattern.contains("String")) {
      normalizer.add_replace(json_text_at(pattern, "String"), content);
    } else {
      normalizer.add_replace(SplitRegex(json_text_at(pattern, "Regex")), content);
    }
  } else if (type == "Strip") {
    normalizer.add_strip(json_flag(part, "strip_left", true), json_flag(part, "strip_right", true));
  } else if (type == "StripAccents") {
    normalizer.add_strip_accents();
  } else if (type == "Lowercase") {
    normalizer.add_lowercase();
  } else if (type == "Precompiled") {
    const json& rules = json_member(part, "precompiled_charsmap");
    if (rules.is_null() || rules == json("")) return;
    normalizer.add_charsmap(Charsmap(
        bytes_of_base64(json_text_at(part, "precompiled_charsmap"), "\"precompiled_charsmap\"")));
  } else {
    unsupported("the normalizer", part);
  }
}

PreTokenizer::Match match_of(const json& part) {
  using Match = PreTokenizer::Match;
  constexpr std::pair<std::string_view, Match> matches[] = {
      {"Isolated", Match::isolated},
      {"MergedWithPrevious", Match::merged_with_previous},
      {"MergedWithNext", Match::merged_with_next},
      {"Removed", Match::removed}};
  const std::string behavior = json_text_at(part, "behavior");
  const auto* const found =
      std::find_if(std::begin(matches), std::end(matches),
                   [&](const auto& known) { return known.first == behavior; });
  const bool inverted = json_flag(part, "invert", false);
  if (found == std::end(matches) || inverted || !json_member(part, "pattern").is_object()) {
    unsupported("the pre-tokenizer", part);
  }
  return found->second;
}

SplitRegex regex_of(const json& pattern) {
  return SplitRegex(pattern.contains("String") ? escaped(json_text_at(pattern, "String"))
                                               : json_text_at(pattern, "Regex"));
}

// Files before 2024 say "add_prefix_space" where later ones say "prepend_scheme".
PreTokenizer::Prepend prepend_of(const json& part) {
  using Prepend = PreTokenizer::Prepend;
  const json& scheme = json_member(part, "prepend_scheme");
  if (!json_flag(part, "add_prefix_space", true)) return Prepend::never;
  if (scheme.is_null() || scheme == json("always")) return Prepend::always;
  if (scheme == json("first")) return Prepend::first;
  if (scheme != json("never")) unsupported("the prepend_scheme", part);
  return Prepend::never;
}

std::string mark_of(const json& part) {
  return json_member(part, "replacement").is_null() ? std::string(kMetaspaceMark)
                                                    : json_text_at(part, "replacement");
}

void add_pre_tokenizer(PreTokenizerOfFile& read, const json& part) {
  const std::string type = json_text_at(part, "type");
  if (read.byte_level) unsupported("a pre-tokenizer behind ByteLevel", part);
  if (type == "ByteLevel") {
    read.byte_level = true;
    if (json_flag(part, "add_prefix_space", true)) read.steps.add_prefix_space();
    if (json_flag(part, "use_regex", true)) read.steps.add_gpt2();
  } else if (type == "Digits") {
    const bool single = json_flag(part, "individual_digits", false);
    read.steps.add_split(SplitRegex(single ? "\\p{N}" : "\\p{N}+"), PreTokenizer::Match::isolated);
  } else if (type == "Split") {
    const PreTokenizer::Match match = match_of(part);
    read.steps.add_split(regex_of(json_member(part, "pattern")), match);
  } else if (type == "WhitespaceSplit") {
    read.steps.add_split(SplitRegex("\\s+"), PreTokenizer::Match::removed);
  } else if (type == "Metaspace") {
    read.steps.add_metaspace(mark_of(part), prepend_of(part), json_flag(part, "split", true));
  } else {
    unsupported("the pre-tokenizer", part);
  }
}

}  // namespace

Normalizer read_normalizer(const json& normalizer) {
  const auto parts = json_parts(normalizer, "normalizers");
  check(parts.size() <= Normalizer::kMostSteps,
        "the normalizer has {} steps; {} are the most that are read", parts.size(),
        +Normalizer::kMostSteps);
  Normalizer steps;
  for (const json& part : parts) add_normalizer(steps, part);
  return steps;
}

PreTokenizerOfFile read_pre_tokenizer(const json& pre_tokenizer) {
  const auto parts = json_parts(pre_tokenizer, "pretokenizers");
  check(parts.size() <= PreTokenizer::kMostSteps,
        "the pre-tokenizer has {} steps; {} are the most that are read", parts.size(),
        +PreTokenizer::kMostSteps);
  PreTokenizerOfFile read;
  for (const json& part : parts) add_pre_tokenizer(read, part);
  return read;
}

TokenTexts read_decoder(const json& decoder) {
  TokenTexts texts;
  const auto parts = json_parts(decoder, "decoders");
  bool fused = false;
  for (const json& part : parts) {
    const std::string type = json_text_at(part, "type");
    const json& pattern = json_member(part, "pattern");
    if (type == "ByteLevel" && parts.size() == 1) {
      texts.byte_level = true;
    } else if (type == "Metaspace" && parts.size() == 1) {
      texts.replaced = {{mark_of(part), " "}};
    } else if (type == "Replace" && pattern.is_object() && pattern.contains("String") && !fused) {
      texts.replaced.emplace_back(json_text_at(pattern, "String"), json_text_at(part, "content"));
    } else if (type == "ByteFallback" && !fused) {
      texts.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Strip" && fused && json_text_at(part, "content") == " " &&
               json_member(part, "stop") == json(0) && json_member(part, "start") == json(1)) {
      continue;  // decode_text() finds out by itself
    } else {
      unsupported("the decoder", decoder);
    }
  }
  if (parts.empty()) unsupported("a tokenizer without a decoder", decoder);
  constexpr std::size_t most_bytes = 64;
  for (const auto& [from, to] : texts.replaced) {
    if (from.empty() || from.size() > most_bytes || to.size() > from.size()) {
      unsupported("the decoder", decoder);
    }
  }
  return texts;
}

}  // namespace tapegrad::data
