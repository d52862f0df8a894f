#include "tapegrad/run/train/teacher.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::run {

nn::Params teacher_params(const OpenedModel& teacher, Precision precision) {
  nn::Params params(teacher.weights, DType::f32, precision);
  params.pack(nullptr, /*exact=*/true);
  return params;
}

void check_teacher(const OpenedModel& teacher, const std::string& path,
                   const data::Tokenizer& tokenizer, std::int64_t vocab_size,
                   std::int64_t block_size) {
  check(teacher.config.vocab_size == vocab_size,
        "--teacher {}: it has {} tokens, and the model {}: both must have the same tokenizer (of a "
        "new model: --tokenizer PATH)",
        path, grouped(teacher.config.vocab_size), grouped(vocab_size));
  const std::int64_t tokens = std::min(tokenizer.vocab_size(), teacher.tokenizer.vocab_size());
  for (data::Token token = 0; token < tokens; ++token) {
    check(tokenizer.token_bytes(token) == teacher.tokenizer.token_bytes(token),
          "--teacher {}: token {} is '{}' there, and '{}' of the model: both must have the same "
          "tokenizer (of a new model: --tokenizer PATH)",
          path, token, teacher.tokenizer.token_bytes(token), tokenizer.token_bytes(token));
  }
  check(block_size <= teacher.config.block_size,
        "--teacher {}: it sees {} tokens at once, fewer than --block-size {}", path,
        grouped(teacher.config.block_size), grouped(block_size));
}

}  // namespace tapegrad::run
