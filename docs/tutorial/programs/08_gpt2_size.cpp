// GPT-2's shape and size: first with placeholders for its blocks, then whole.

#include "placeholder_gpt.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/summary.h"

using namespace tapegrad;

namespace {

const nn::DecoderConfig book{.qkv_bias = false, .tied = false, .separate_qkv = true};

// Makes a model and runs it once.
template <class Model>
void try_out(const char* label, const Tensor& batch) {
  Rng rng(123);
  const nn::Params params(rng);
  const Model gpt(params, book);
  fmt::print("{:<13} ids {} -> logits {}, {:>11} parameters\n", label, batch.shape(),
             gpt(batch).shape(), grouped(params.count()));
}

int lesson() {
  const auto tokenizer = data::Tokenizer::gpt2();
  std::vector<data::Token> ids = tokenizer.encode("Every effort moves you");
  for (const data::Token id : tokenizer.encode("Every day holds a")) ids.push_back(id);
  const Tensor batch = Tensor::from(ids, {2, 4});

  try_out<tutorial::PlaceholderGPT>("placeholders:", batch);
  try_out<nn::GPT>("whole:", batch);

  fmt::print("\n{}", nn::summary(book).str());
  fmt::print("\nOpenAI's GPT-2 has {} parameters\n", grouped(nn::summary({}).parameters()));
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
