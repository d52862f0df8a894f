#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/nn/decoder_config.h"

namespace tapegrad::nn {

// One part of a model: its own weights, and what it costs to run.
struct SummaryRow {
  std::string name;            // "h.0.attn.c_attn"
  std::vector<Shape> weights;  // shapes of its parameters
  double flops = 0;            // per token of a forward pass, see Summary
  std::string note = {};       // in place of shapes where there are none
  double active = 1;           // share of the weights that a token meets: top_k of all experts
  std::int64_t parameters() const;
};

// Blocks of one kind: with experts, a dense feed-forward or none, with attention, a convolution …
struct SummaryBlocks {
  int first = 0;  // the first of them
  std::int64_t count = 0;
  std::vector<SummaryRow> rows;  // of each
};

// The parts of a Decoder, found from a model whose tensors have no memory (dry_run.h). FLOPs are
// those of the matrix products in a forward pass over `tokens` tokens, per token; a multiplication
// and an addition count as two. A query of attention sees (tokens + 1)/2 keys on average. Training
// costs three times as much.
struct Summary {
  DecoderConfig config;
  std::vector<SummaryRow> embeddings, head;
  std::vector<SummaryBlocks> kinds;  // of blocks, by their first: that of block 0 is the first
  std::int64_t tokens = 0;

  std::int64_t parameters() const;
  std::int64_t active_parameters() const;  // that a token meets: less than all with experts
  // The count if the head shares, or shared, the token embedding.
  std::int64_t parameters_if_tied() const;
  std::int64_t mixer_parameters() const;         // of block 0: of what mixes positions
  std::int64_t feed_forward_parameters() const;  // of block 0
  double flops() const;
  double block_flops() const;  // of all blocks together
  // A table by layer, and the totals. Bytes are counted for f32; an MB is 2²⁰ of them.
  std::string str() const;
};

// Without `tokens`, sequences are as long as the model sees.
Summary summary(const DecoderConfig& config, std::optional<std::int64_t> tokens = {});

}  // namespace tapegrad::nn
