#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tapegrad::run {

// What tokenizers of well-known models do with a text before bytes are merged. GGUF has names for
// these where a tokenizer.json says each step, and transformers knows some by the model's family.
struct KnownPreTokenizer {
  std::string_view name;   // of tokenizer.ggml.pre
  std::string_view steps;  // as steps_of() describes them
  bool nfc = false;        // which llama.cpp leaves out, and Qwen2's own tokenizer does
  bool ignores_merges = false;
  bool begins = false;  // texts begin with the begin token unless the file says otherwise
};
inline constexpr KnownPreTokenizer kKnownPreTokenizers[] = {
    {"gpt-2", "ByteLevel+regex"},
    {"smollm", "Digits ByteLevel+regex"},
    {.name = "llama-bpe",
     .steps = R"(Split:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ ByteLevel)",
     .ignores_merges = true,
     .begins = true},
    {.name = "qwen2",
     .steps = R"(Split:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ ByteLevel)",
     .nfc = true},
};
inline constexpr const KnownPreTokenizer& kGpt2PreTokenizer = kKnownPreTokenizers[0];
inline constexpr const KnownPreTokenizer& kQwen2PreTokenizer = kKnownPreTokenizers[3];

// Of a tokenizer.json that HfTokenizer has accepted: a member, null if it is absent; a flag, which
// is `absent` where it is not there or null; and a pre-tokenizer or normalizer as one line.
const nlohmann::json& member(const nlohmann::json& object, const char* name);
bool flag(const nlohmann::json& object, const char* name, bool absent);
std::string steps_of(const nlohmann::json& part);

// The inverse: the pre-tokenizer that a tokenizer.json describes so.
nlohmann::json pre_tokenizer_of(const KnownPreTokenizer& known);

}  // namespace tapegrad::run
