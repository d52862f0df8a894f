#include "tapegrad/run/train/teacher.h"

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/models/same_tokens.h"

namespace tapegrad::run {

nn::Params teacher_params(const OpenedModel& teacher, Precision precision) {
  nn::Params params(teacher.weights, DType::f32, precision);
  params.quantize(nullptr, /*exact=*/true);
  return params;
}

void check_teacher(const OpenedModel& teacher, const std::string& path,
                   const data::Tokenizer& tokenizer, std::int64_t vocab_size,
                   std::int64_t block_size) {
  const std::string difference = token_difference({teacher.tokenizer, teacher.config.vocab_size},
                                                  {tokenizer, vocab_size}, "the model");
  check(difference.empty(),
        "--teacher {}: {}: both must have the same tokenizer (of a new model: --tokenizer PATH)",
        path, difference);
  check(block_size <= teacher.config.block_size,
        "--teacher {}: it sees {} tokens at once, fewer than --block-size {}", path,
        grouped(teacher.config.block_size), grouped(block_size));
}

}  // namespace tapegrad::run
