// Attention at work: one model learns to write a word backwards, another one to sort it.

#include <algorithm>
#include <cmath>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/optim/optimizers/adamw.h"

using namespace tapegrad;

namespace {

constexpr std::int64_t kLetters = 9, kLength = 2 * kLetters;  // "attention=noitnetta" but the last
const nn::DecoderConfig config{
    .vocab_size = 27, .block_size = kLength, .n_layer = 1, .n_head = 2, .n_embd = 32};
constexpr std::int64_t kHead = 16;  // channels of a head

std::string with_answer(const std::string& word, bool sorted) {
  std::string answer(word.rbegin(), word.rend());
  if (sorted) std::sort(answer.begin(), answer.end());
  return word + "=" + answer;
}

// Trains on random words from a to t. Nobody can foretell these, so only the answers count.
void train(const nn::GPT& gpt, optim::AdamW& optimizer, const data::Tokenizer& tokenizer,
           bool sorted, Rng& rng) {
  for (int step = 0; step < 600; ++step) {
    std::vector<data::Token> inputs, targets;
    for (int i = 0; i < 32; ++i) {
      std::string word;
      for (int k = 0; k < kLetters; ++k) word += static_cast<char>('a' + rng.randint(20));
      const std::vector<data::Token> ids = tokenizer.encode(with_answer(word, sorted));
      inputs.insert(inputs.end(), ids.begin(), ids.end() - 1);
      targets.insert(targets.end(), kLetters, -100);
      targets.insert(targets.end(), ids.begin() + kLetters + 1, ids.end());
    }
    const Shape shape{32, kLength};
    Tape tape;
    tape.backward(gpt.loss(Tensor::from(inputs, shape), Tensor::from(targets, shape)));
    optimizer.step(0.01 * (600 - step) / 600);
    optimizer.zero_grad();
  }
}

// The weights (T, T) of one head in the only block, as in chapter 5.
Tensor weights_of(const nn::GPT& gpt, const Tensor& ids, std::int64_t head) {
  const Tensor x = gpt.wte(ids) + slice(gpt.wpe.weight, 0, 0, kLength);
  // Channels: q of both heads, then k, then v.
  const Tensor qkv = gpt.h[0].attn.c_attn(gpt.h[0].ln_1(x));
  const Tensor q = slice(select(qkv, 0, 0), 1, head * kHead, (head + 1) * kHead);
  const Tensor k = slice(select(qkv, 0, 0), 1, (2 + head) * kHead, (3 + head) * kHead);
  const Tensor place = Tensor::arange(kLength);
  const Tensor ahead = gt(place.view({1, kLength}), place.view({kLength, 1}));
  const Tensor scores = matmul(q, k, {.transpose_b = true}) / std::sqrt(kHead);
  return softmax(masked_fill(scores, ahead, -INFINITY));
}

void lesson(bool sorted) {
  Rng rng(123);
  const nn::Params params(rng, DType::f64);
  const nn::GPT gpt(params, config);
  nn::init_gpt2(gpt, params, rng);
  optim::AdamW optimizer(params.parameters());
  const auto tokenizer = data::Tokenizer::of_characters("abcdefghijklmnopqrstuvwxyz=");
  train(gpt, optimizer, tokenizer, sorted, rng);

  const std::string text = with_answer("attention", sorted).substr(0, kLength);
  const Tensor ids = Tensor::from(tokenizer.encode(text), {1, kLength});
  const Tensor written = argmax(gpt(ids), 2);
  fmt::print("{}\nreads writes {:>14} {:>42}\n", sorted ? "\nsorted" : "backwards", "head 1",
             "head 2");
  fmt::print("{:12}   a   t   t   e   n   t   i   o   n      a   t   t   e   n   t   i   o   n\n",
             "");
  for (std::int64_t i = kLetters; i < kLength; ++i) {
    const auto answer = static_cast<data::Token>(written.at(i));
    fmt::print("{:>3} {:>6}  ", text.substr(static_cast<std::size_t>(i), 1),
               tokenizer.token_bytes(answer));
    for (const int head : {0, 1}) {
      const Tensor weights = weights_of(gpt, ids, head);
      for (int j = 0; j < kLetters; ++j) fmt::print(" {:3.0f}", 100 * weights.at({i, j}));
      fmt::print("{}", head == 0 ? "   " : "\n");
    }
  }
}

}  // namespace

int main() {
  try {
    lesson(false);
    lesson(true);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
