#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/corpus/documents.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/run/corpus/text.h"

namespace tapegrad::run {

// Texts that are mixed by weights: a pass, or as many random windows, has what is in a path of
// weight 2 twice. Each path is divided into parts to train and to validate with by itself, and all
// are validated with alike.

// "books/:2": a file or folder, and how often a pass has what it has [1]. The path of something
// that exists is a path as a whole, whatever it ends with.
struct WeightedFile {
  std::string path;
  double weight = 1;
};
// Error if the weight is not above 0, or is more than 1,000.
WeightedFile weighted_file(std::string_view text);
// Of several paths whose weights are not all 1.
bool is_mixture(std::span<const WeightedFile> files);

// Reads each path as data::read_corpus does. The identity is that of the contents alone.
Text read_mixture(std::span<const WeightedFile> files, const data::CorpusOptions& options);
// Opens folders of tokens, which may have one weight. Error if their tokenizers are not the same,
// or one is of conversations.
Text read_token_folders(std::span<const WeightedFile> folders);
// A fingerprint that differs for other weights of the same texts; of one text `fingerprint`.
std::string mixed_fingerprint(std::string fingerprint, const std::vector<MixedText>& mixture);

// The ranges of the text's documents that each path of a mixture has; of one text, all.
std::vector<std::span<const data::TextRange>> ranges_of(const Text& text);

// The tokens of a mixture whose paths are divided so, for training as Tokens::mixed().
struct MixedTokens {
  data::TokenSource train, val;
};
// `allow_special`: see Tokenizer::encode_documents. Each path's documents end with the token that
// ends texts, but for the last one's. Without `with_val`, there is nothing to validate with.
MixedTokens encode_mixture(const std::vector<MixedText>& mixture, const data::Tokenizer& tokenizer,
                           std::vector<data::DocumentSplit> parts, bool with_val);
// Error, with its name, for a path that has no window of block_size tokens and their targets.
void check_mixture(const data::TokenSource& train, const std::vector<MixedText>& mixture,
                   std::int64_t block_size);

// "61.5 % books, 38.5 % letters.txt": of what is trained on. Empty if there is no mixture.
std::string shares_text(const data::TokenSource& train, const std::vector<MixedText>& mixture);

}  // namespace tapegrad::run
