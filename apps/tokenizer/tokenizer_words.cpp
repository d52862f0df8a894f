#include "tapegrad/apps/tokenizer/tokenizer_words.h"

#include <algorithm>

#include "tapegrad/apps/inspect/token_text.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::tokenizers {
namespace {

using nlohmann::json;

constexpr int kDepth = 16;              // of a tokenizer.json
constexpr std::size_t kMostShown = 24;  // special tokens

std::string text_at(const json& part, const char* name) {
  const auto found = part.is_object() ? part.find(name) : part.end();
  return found != part.end() && found->is_string() ? found->get<std::string>() : "";
}

bool flag_at(const json& part, const char* name, bool otherwise) {
  const auto found = part.is_object() ? part.find(name) : part.end();
  return found != part.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

const json& member_of(const json& part, const char* name) {
  static const json none;
  const auto found = part.is_object() ? part.find(name) : part.end();
  return found == part.end() ? none : *found;
}

std::string quoted_at(const json& part, const char* name) {
  return inspect::quoted_token(text_at(part, name));
}

std::string pattern_words(const json& pattern) {
  const bool is_text = pattern.is_object() && pattern.contains("String");
  return is_text ? quoted_at(pattern, "String") : "/" + text_at(pattern, "Regex") + "/";
}

// A step of a normalizer, pre-tokenizer or post-processor. The readers of the file know these; any
// other is called by its name.
std::string step_words(const json& part) {
  const std::string type = text_at(part, "type");
  if (type == "Prepend") return quoted_at(part, "prepend") + " before the text";
  if (type == "Replace") {
    return fmt::format("{} becomes {}", pattern_words(member_of(part, "pattern")),
                       quoted_at(part, "content"));
  }
  if (type == "Strip") return "no white space at the ends";
  if (type == "StripAccents") return "no accents";
  if (type == "Lowercase") return "lower case";
  if (type == "Precompiled") return "SentencePiece's table of characters";
  if (type == "ByteLevel") {
    return flag_at(part, "use_regex", true) ? "GPT-2's words, in bytes" : "bytes";
  }
  if (type == "Digits") {
    return flag_at(part, "individual_digits", false) ? "each digit alone" : "digits apart";
  }
  if (type == "WhitespaceSplit") return "words between white space";
  if (type == "Split") return "cuts at " + pattern_words(member_of(part, "pattern"));
  if (type == "Metaspace") {
    const bool cuts = flag_at(part, "split", true);
    return fmt::format("' ' becomes {}{}", quoted_at(part, "replacement"),
                       cuts ? ", which begins a word" : "");
  }
  return type;
}

std::string steps_words(const json& steps, const char* list) {
  if (steps.is_null()) return "none";
  const json& parts = member_of(steps, list);
  if (!parts.is_array()) return step_words(steps);
  std::string words;
  for (const json& part : parts) {
    words += (words.empty() ? "" : "; ") + step_words(part);
  }
  return words.empty() ? "none" : words;
}

std::string special_words(const data::Tokenizer& tokenizer) {
  std::string words;
  std::size_t count = 0;
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto token = static_cast<data::Token>(id);
    if (!tokenizer.is_added(token) || ++count > kMostShown) continue;
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", id,
                         inspect::quoted_token(tokenizer.token_bytes(token)));
  }
  if (count > kMostShown)
    words += fmt::format(" and {} more", grouped(static_cast<std::int64_t>(count - kMostShown)));
  return count == 0 ? "none" : words;
}

std::string tokens_words(const data::Tokenizer& tokenizer, std::span<const data::Token> tokens) {
  std::string words;
  for (const data::Token token : tokens) {
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", token,
                         inspect::quoted_token(tokenizer.token_bytes(token)));
  }
  return words.empty() ? "none" : words;
}

std::string method_of_model(const json& model) {
  const std::string type = text_at(model, "type");
  const bool falls_back = flag_at(model, "byte_fallback", false);
  return (type.empty() ? "BPE" : type) + (falls_back ? " with byte fallback" : "");
}

bool is_byte_level(const json& part) {
  if (text_at(part, "type") == "ByteLevel") return true;
  const json& parts = member_of(part, "decoders");
  return parts.is_array() && std::any_of(parts.begin(), parts.end(), is_byte_level);
}

std::string method_of_file(const json& file) {
  const bool bytes = is_byte_level(member_of(file, "decoder"));
  return (bytes ? "byte-level " : "") + method_of_model(member_of(file, "model"));
}

}  // namespace

std::string method_of(const data::Tokenizer& tokenizer) {
  if (tokenizer.kind() == "char") return "characters";
  if (tokenizer.kind() != "hf") return "byte-level BPE";
  return method_of_file(parse_json<json>(tokenizer.hf_json(), kDepth));
}

Facts facts_of(const data::Tokenizer& tokenizer) {
  const std::string size = counted(tokenizer.vocab_size(), "token");
  if (tokenizer.kind() == "char") {
    return {{"method", "characters"}, {"vocabulary", size}};
  }
  Facts facts;
  if (tokenizer.kind() == "hf") {
    const json file = parse_json<json>(tokenizer.hf_json(), kDepth);
    const json& merges = member_of(member_of(file, "model"), "merges");
    facts = {{"method", method_of_file(file)},
             {"vocabulary", merges.is_array()
                                ? fmt::format("{}, {}", size, counted(std::ssize(merges), "merge"))
                                : size},
             {"normalizer", steps_words(member_of(file, "normalizer"), "normalizers")},
             {"pre-tokenizer", steps_words(member_of(file, "pre_tokenizer"), "pretokenizers")}};
  } else {  // GPT-2's, or learnt as GPT-2's was
    facts = {
        {"method", "byte-level BPE"},
        {"vocabulary", fmt::format("{}, {}", size, counted(tokenizer.vocab_size() - 257, "merge"))},
        {"normalizer", "none"},
        {"pre-tokenizer", "GPT-2's words, in bytes"}};
  }
  facts.emplace_back("special tokens", special_words(tokenizer));
  facts.emplace_back("texts begin with", tokens_words(tokenizer, tokenizer.begin()));
  facts.emplace_back("texts end at", tokens_words(tokenizer, tokenizer.ends()));
  return facts;
}

}  // namespace tapegrad::tokenizers
