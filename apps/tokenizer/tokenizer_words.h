#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::tokenizers {

// The method in a few words: "characters", "byte-level BPE", "BPE with byte fallback", "Unigram".
std::string method_of(const data::Tokenizer& tokenizer);

// What a tokenizer does with a text, for people: lines of a name and its value, such as
// {"normalizer", "' ' becomes '▁'"}. Values may hold any text of the tokenizer's file.
using Facts = std::vector<std::pair<std::string, std::string>>;
Facts facts_of(const data::Tokenizer& tokenizer);

}  // namespace tapegrad::tokenizers
