#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tapegrad/data/tokenize/bpe/bpe_train.h"

namespace tapegrad::data {

// The kinds of tokenizers that are learnt into a tokenizer.json of Hugging Face's.
// - bpe: GPT-2's, see Tokenizer::train_bpe: 256 bytes, merges, <|endoftext|>
// - byte_fallback: SentencePiece's BPE in Llama 2's form: <unk>, <s>, </s>, 256 bytes for
// characters
//   that are rare, merges, characters; a space is ▁, and one stands before a text
// - unigram: SentencePiece's Unigram (Kudo 2018), with the same steps before it, each word alone,
// and the
//   same special tokens and bytes
enum class TrainedKind { bpe, byte_fallback, unigram };

// The counts that training of the kind needs, without words.
PieceCounts counts_for(TrainedKind kind);
// The last place where a text can be cut before its parts are counted; 0 if there is none.
std::size_t last_counted_cut(TrainedKind kind, std::string_view text);
// Counts a document, or a part of it up to such a place; `first`: its beginning.
void count_words(TrainedKind kind, std::string_view text, bool first, PieceCounts& counts);

// The text of the tokenizer.json. `on_tokens` is called with the tokens that are learnt so far; for
// unigram with the pieces that are left. Equal counts give equal files, whatever the number of
// threads. Error if the corpus is too short for `vocab_size`, or that is too small for its
// characters.
std::string train_tokenizer(TrainedKind kind, const PieceCounts& counts, std::int64_t vocab_size,
                            const std::function<void(std::int64_t)>& on_tokens = {});

}  // namespace tapegrad::data
