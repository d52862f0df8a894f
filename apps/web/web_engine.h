#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tapegrad/apps/web/page_tokenizer.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/generation/token_stream.h"
#include "tapegrad/optim/optimizers/adamw.h"

namespace tapegrad::web {

// A model that works in a page, or anywhere else, on one thread. The page asks by objects of JSON
// and gets objects; the member "do" says what:
//   facts   → name, parameters, n_layer, n_head, n_embd, block_size, vocab_size, tokenizer
//   begin   prompt, max_new_tokens, greedy, temperature, top_k (0: all), seed → tokens
//   next    → text; id, probability, and best, the likeliest kBest tokens in its place; or end
//   look    text → what `tapegrad inspect --json` prints of it
//   train   text, batch_size, learning_rate, seed → tokens: steps of AdamW on this text may follow
//   step    → step, loss
// A text of a seed is the one that `tapegrad sample` writes, up to the rounding of products.
class Engine {
 public:
  static constexpr std::int64_t kBest = 10;

  // Opens a file of weights that run::export_web() has written. The file may be anybody's: Error
  // for one that is no such file, or whose description does not fit its weights.
  explicit Engine(const std::string& path);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Errors: no such request; a field is missing or out of its bounds; those of the library.
  Json answer(const Json& request);

 private:
  struct Training {
    std::vector<data::Token> tokens;
    std::int64_t batch_size, length;  // of its batches: (batch_size, length) tokens
    double learning_rate;
    Rng rng;
    optim::AdamW optimizer;
  };

  Json facts() const;
  Json begin(const Json& request);
  Json next();
  Json look(const Json& request) const;
  Json train(const Json& request);
  Json step();

  std::shared_ptr<const TensorSource> file_;
  Json description_;
  std::string name_;
  nn::DecoderConfig config_;
  PageTokenizer tokenizer_;
  nn::Params params_;
  nn::Decoder gpt_;
  std::vector<data::Token> ends_, prompt_;  // that end a text; that stand for an empty one
  std::unique_ptr<nn::TokenStream> stream_;
  Utf8Stream characters_;
  std::unique_ptr<Training> training_;
};

// The answer to a request in JSON, with "open" in place of "do" to open a file in place of the one
// before. Of an error, {"error": WORDS}.
std::string answer(const std::string& request);

}  // namespace tapegrad::web
