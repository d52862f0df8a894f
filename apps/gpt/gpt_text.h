#pragma once

#include <string>

#include "tapegrad/apps/gpt/gpt_options.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::gpt {

// The text of a new run, or of the one that is resumed.
run::Text read_text(const Options& options, const run::RunFolder& folder);
// Its tokens, all of which the tokenizer has. Of a large text, stderr tells what would save making
// them at each start.
run::TextData read_data(run::Text& text, const Options& options);

// For people: "corpus.txt and, to validate, letters/"
std::string text_name(const run::Text& text);
// "9,000 tokens of 12 documents"
std::string amount(const data::Tokens& tokens, std::int64_t documents);

}  // namespace tapegrad::gpt
