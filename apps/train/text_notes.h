#pragma once

#include <cstdint>
#include <string>

#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad::gpt {

// Of a large text, stderr tells what would save reading it and making tokens at each start; of
// documents that are to be kept apart, that there is but one.
void print_notes(const run::TextOptions& options, std::uint64_t seed,
                 const run::LearntText& learnt);

// For people: "corpus.txt and, to validate, letters/"
std::string text_name(const run::Text& text);
// "9,000 tokens of 12 documents"
std::string amount(const data::TokenSource& tokens, std::int64_t documents);

}  // namespace tapegrad::gpt
