#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tapegrad/run/models/families/internal/known_pre_tokenizer.h"

namespace tapegrad::run {

// Of a tokenizer.json that HfTokenizer has accepted: a member, null if it is absent; a flag, which
// is `absent` where it is not there or null; and a pre-tokenizer or normalizer as one line.
const nlohmann::json& member(const nlohmann::json& object, const char* name);
bool flag(const nlohmann::json& object, const char* name, bool absent);
std::string steps_of(const nlohmann::json& part);

// The step that writes bytes as characters; with `regex`, behind GPT-2's cut into words.
nlohmann::json byte_level_step(bool regex);
// The inverse of steps_of(): the pre-tokenizer that a tokenizer.json describes so.
nlohmann::json pre_tokenizer_of(const KnownPreTokenizer& known);

}  // namespace tapegrad::run
