#pragma once

#include <filesystem>

#include "tapegrad/data/tokenize/hf/hf_file.h"

namespace tapegrad::data {

// The keys of tokenizer_config.json that decide ids, as AutoTokenizer of transformers 5 reads them.
// A key that is not in this table decides none: it is about decoding, batches or messages, or is
// read by classes of other models alone (do_lower_case).
//   key                    beside tokenizer.json    vocab.json, merges.txt   tokenizer.model
//   tokenizer_class        the file has the rule    chooses the rule         see hf_file_in()
//   add_prefix_space       by the class: applied    applied                  must be the file's
//   add_bos_token, _eos    transformers drops it    applied                  bos: see hf_file_in()
//   split_special_tokens   true is refused          true is refused          true is refused
//   fix_mistral_regex      true is refused where    read by no class of      read by no class of
//                          transformers applies it  these                    these
// Names of tokens ("bos_token") and "added_tokens_decoder" are for add_outside_tokens().

// The tables that a folder's tokenizer is made of.
enum class TokenizerTables { json, merges, pieces };

// Applies the keys of a folder's tokenizer_config.json to a tokenizer.json, or to the one that was
// made of the folder's other files. Returns whether it has changed. Error, with the key, for what
// cannot be applied, and for a class whose rule is not known where the class alone says it.
bool apply_tokenizer_config(HfFile& file, const std::filesystem::path& folder,
                            TokenizerTables tables);

}  // namespace tapegrad::data
