#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/autograd/onnx/internal/onnx_graph.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad::run {

// Functions of ops.h as nodes of a graph: what each computes of tensors of f32 stands there. Where
// ONNX has no op for one, its nodes are those that runtimes fuse into theirs.

OnnxValue reshape(OnnxGraph& g, const OnnxValue& x, const std::vector<std::int64_t>& shape);
OnnxValue permute(OnnxGraph& g, const OnnxValue& x, const std::vector<std::int64_t>& order);
std::vector<OnnxValue> split(OnnxGraph& g, const OnnxValue& x,
                             const std::vector<std::int64_t>& sizes);  // of the last dimension

OnnxValue cast(OnnxGraph& g, const OnnxValue& x, OnnxType to);
OnnxValue rows_of(OnnxGraph& g, const OnnxValue& table, const OnnxValue& ids);  // of a tensor
OnnxValue size_of(OnnxGraph& g, const OnnxValue& x, std::int64_t axis);  // without dimensions
// `now` (B, H, T, D) behind an input past_key_values.PART (B, H, P, D): an output present.PART (B,
// H, P + T, D). The caller keeps it.
OnnxValue with_past(OnnxGraph& g, const std::string& part, const OnnxValue& now,
                    const std::vector<OnnxSize>& past, const std::vector<OnnxSize>& present);

// x·by; x itself for 1.
OnnxValue scaled(OnnxGraph& g, const OnnxValue& x, double by);
// x itself for a cap of 0.
OnnxValue softcap(OnnxGraph& g, const OnnxValue& x, double cap);

// Over the last dimension, of `channels` elements. An empty weight is 1, an empty bias 0.
OnnxValue rms_norm(OnnxGraph& g, const OnnxValue& x, const OnnxValue& weight, double eps);
OnnxValue layer_norm(OnnxGraph& g, const OnnxValue& x, const OnnxValue& weight,
                     const OnnxValue& bias, const LayerNormOptions& options, std::int64_t channels);

// x (B, H, T, D) with the cos and sin of each pair of channels (B, 1, T, R/2) → (B, H, T, D): the
// first R channels of each head turned.
struct OnnxAngles {
  OnnxValue cos, sin;
  std::int64_t turned;  // R
};
OnnxValue rope(OnnxGraph& g, const OnnxValue& x, std::int64_t head_size, const OnnxAngles& angles);

// What attention adds to scores. Masks are boolean, true where a query may see a key.
OnnxValue hidden_unless(OnnxGraph& g, const OnnxValue& seen);
// attention_mask (B, S) of i64 → (B, 1, 1, S): 0 hides a key from all queries.
OnnxValue seen_by_mask(OnnxGraph& g, const OnnxValue& mask);
// How far each query is behind each key (T, S), where the queries are the last T of S = past + T.
OnnxValue distances(OnnxGraph& g, const OnnxValue& past, const OnnxValue& total);

// q (B, H, T, D), k and v (B, K, S, D), `hidden` (B, 1, T, S), which is added to the scores → (B,
// H, T, D).
struct OnnxHeads {
  std::int64_t queries, keys, size;  // H, K, D
};
OnnxValue attention(OnnxGraph& g, const OnnxValue& q, const OnnxValue& k, const OnnxValue& v,
                    const OnnxValue& hidden, const OnnxHeads& heads, const ScoreOptions& scores);

}  // namespace tapegrad::run
