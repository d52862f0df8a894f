#pragma once

#include <filesystem>

#include "tapegrad/data/tokenize/hf/internal/hf_file.h"

namespace tapegrad::data {

// The keys of tokenizer_config.json that decide ids in AutoTokenizer of transformers 5, and what
// becomes of them here. A key that is not in this table decides none: it is about decoding, batches
// or messages, or is read by classes of other models alone (do_lower_case).
//   key                    beside tokenizer.json    vocab.json, merges.txt   tokenizer.model
//   tokenizer_class        gives no rule, below     chooses the rule         see hf_file_in()
//   add_prefix_space       by the class: applied    applied                  must be the file's
//   add_bos_token, _eos    transformers drops it    applied                  bos: see hf_file_in()
//   split_special_tokens   true is refused          true is refused          true is refused
//   fix_mistral_regex      true is refused where    read by no class of      read by no class of
//                          transformers applies it  these                    these
// Beside tokenizer.json, a class only decides whether add_prefix_space is read. Ids are those of
// the file's own rule, as in the library tokenizers. AutoTokenizer puts the rule of a class that
// has one (GPT2Tokenizer, Qwen2Tokenizer) in its place: its ids are others where the file's rule is
// another.
//
// Names of tokens ("bos_token") and "added_tokens_decoder" are for add_outside_tokens().

// The tables that a folder's tokenizer is made of.
enum class TokenizerTables { json, merges, pieces };

// Applies the keys of a folder's tokenizer_config.json to a tokenizer.json, or to the one that was
// made of the folder's other files. Returns whether it has changed. Error, with the key, for what
// cannot be applied, and for a class whose rule is not known where the class alone says it.
bool apply_tokenizer_config(HfFile& file, const std::filesystem::path& folder,
                            TokenizerTables tables);

}  // namespace tapegrad::data
