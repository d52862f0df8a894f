#pragma once

#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// Checks of inputs that the fused op and its reference share, with the same Errors.

// The scale of scores for heads of D channels.
double scale_of(const ScoreOptions& scores, std::int64_t D);
// Of queries (B, Tq, …).
void check_scores(const ScoreOptions& scores, bool causal, std::int64_t B, std::int64_t Tq);
// Error unless `starts`, if defined, are ScoreOptions::document_starts of (B, T).
void check_document_starts(std::string_view op, const Tensor& starts, std::int64_t B,
                           std::int64_t T);
void check_padding(const Tensor& mask, std::int64_t B, std::int64_t Tk);
// Error unless `mask`, if defined, is ScoreOptions::attn_mask of `scores` (B, H, Tq, Tk).
void check_attn_mask(const Tensor& mask, const Tensor& scores);
// Error unless `sinks`, if defined, are ScoreOptions::sinks of n_head heads.
void check_sinks(const Tensor& sinks, int n_head, DType dtype);
void check_heads(std::int64_t C, int n_head);
// How many of q's heads share a head of k and v.
std::int64_t group_size(const Shape& q, const Shape& k, const Shape& v, int n_head);

}  // namespace tapegrad
