#pragma once

#include "tapegrad/nn/gpt.h"

// What GPT and Llama have in common: a row of blocks, and a head on the last one's output.

namespace tapegrad::nn::decoder {

// The head: of its own, or on the token embedding. Then its draws replace the embedding's, as where
// PyTorch code sets wte.weight = lm_head.weight.
Linear make_head(const Params& p, const GPTConfig& config, const Embedding& tokens);

// Error if ids are not (B, T) or reach beyond block_size from position `first`.
void check_ids(const Tensor& ids, std::int64_t first, const GPTConfig& config);

// x (B, T, C) → its last position, (B, C).
Tensor last_position(const Tensor& x);

template <class Block>
std::vector<Block> make_blocks(const Params& p, const GPTConfig& config) {
  std::vector<Block> blocks;
  for (int i = 0; i < config.n_layer; ++i) blocks.emplace_back(p / i, config);
  return blocks;
}

// x (B, T, C) → the output of the last block. `states`, if there are any, get that of each.
template <class Block>
Tensor run_blocks(const std::vector<Block>& blocks, Tensor x, bool recompute, Rng* rng,
                  std::vector<Tensor>* states = nullptr) {
  for (const Block& block : blocks) {
    const auto run = [&block](Inputs in, Rng* r) { return block(in[0], r); };
    x = recompute ? checkpoint(run, {x}, rng) : block(x, rng);
    if (states) states->push_back(x);
  }
  return x;
}

// x and the output of each block.
template <class Block>
std::vector<Tensor> states_between(const std::vector<Block>& blocks, const Tensor& x) {
  std::vector<Tensor> states = {x};
  run_blocks(blocks, x, /*recompute=*/false, /*rng=*/nullptr, &states);
  return states;
}

template <class Block>
Tensor run_blocks(const std::vector<Block>& blocks, Tensor x, KVCache& cache) {
  cache.layers.resize(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) x = blocks[i](x, cache.layers[i]);
  return x;
}

}  // namespace tapegrad::nn::decoder
