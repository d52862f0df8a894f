#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tapegrad/autograd/tensor/internal/write_stored.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::run {

// Helpers that formats share. `file` begins the messages of readers.

// A count of a file as an int. What does not fit is a value that validate_config() refuses.
inline int small_count(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, -1, 1 << 24));
}

inline void validate_config(const nn::DecoderConfig& config, std::string_view file) {
  try {
    config.validate();
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

// The tokenizer of a model with so many rows, of which there may be more than tokens.
inline data::Tokenizer tokenizer_of_rows(const data::Tokenizer& tokenizer, std::int64_t rows,
                                         std::string_view file) {
  check(tokenizer.vocab_size() <= rows,
        "{}: the tokenizer has {} tokens, more than the vocab_size {} of the model: the files do "
        "not belong together",
        file, tokenizer.vocab_size(), rows);
  return tokenizer.padded(rows);
}

inline void require_f32(const nn::Params& params) {
  check(params.dtype() == DType::f32, "a model of {} cannot be exported: load it in f32",
        name_of(params.dtype()));
}
// Error, naming the tensor, unless all weights are f32 and the type can hold them.
inline void require_stored_as(const StoredType& type, const nn::Params& params) {
  require_f32(params);
  for (const auto& [name, t] : params.tensors()) check_fits(name, t, type);
}

}  // namespace tapegrad::run
