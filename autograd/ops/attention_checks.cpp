#include "tapegrad/autograd/ops/internal/attention_checks.h"

#include <cmath>

#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad {

double scale_of(const ScoreOptions& scores, std::int64_t D) {
  return scores.scale != 0 ? scores.scale : 1 / std::sqrt(static_cast<double>(D));
}

void check_scores(const ScoreOptions& scores, bool causal, std::int64_t B, std::int64_t Tq) {
  check_numbers("ScoreOptions", {{"scale", scores.scale, at_least(0)},
                                 {"softcap", scores.softcap, at_least(0)},
                                 {"window", static_cast<double>(scores.window), at_least(0)}});
  check(scores.window == 0 || causal, "[attention] a window needs causal attention");
  check(!scores.document_starts.defined() || causal,
        "[attention] documents side by side need causal attention");
  check_document_starts("attention", scores.document_starts, B, Tq);
}

void check_document_starts(std::string_view op, const Tensor& starts, std::int64_t B,
                           std::int64_t T) {
  if (!starts.defined()) return;
  check(starts.shape() == Shape{B, T} && starts.dtype() == DType::i32,
        "[{}] document_starts must be i32 of {}, not {} of {}", op, Shape{B, T},
        name_of(starts.dtype()), starts.shape());
  const auto* start = starts.data<std::int32_t>();
  for (std::int64_t i = 0; i < B * T; ++i) {
    const std::int64_t t = i % T;
    check(start[i] == t || (t > 0 && start[i] == start[i - 1]),
          "[{}] the document of position {} of row {} begins at {}, which is neither that position "
          "nor the beginning of the document before",
          op, t, i / T, start[i]);
  }
}

void check_padding(const Tensor& mask, std::int64_t B, std::int64_t Tk) {
  check(!mask.defined() || (mask.shape() == Shape{B, Tk} && is_mask(mask.dtype())),
        "[attention] key_padding_mask must be bool or u8 of {}, not {} of {}", Shape{B, Tk},
        mask.defined() ? name_of(mask.dtype()) : "", mask.defined() ? mask.shape() : Shape{});
}

void check_attn_mask(const Tensor& mask, const Tensor& scores) {
  if (!mask.defined()) return;
  check(is_mask(mask.dtype()) || mask.dtype() == scores.dtype(),
        "[attention] attn_mask must be bool, u8 or {}, not {}", name_of(scores.dtype()),
        name_of(mask.dtype()));
  bool fits = mask.rank() <= scores.rank();
  for (int i = 1; fits && i <= mask.rank(); ++i) {
    fits = mask.dim(-i) == 1 || mask.dim(-i) == scores.dim(-i);
  }
  check(fits, "[attention] attn_mask {} does not fit scores (B, H, Tq, Tk) = {}", mask.shape(),
        scores.shape());
}

void check_sinks(const Tensor& sinks, int n_head, DType dtype) {
  check(!sinks.defined() || (sinks.shape() == Shape{n_head} && sinks.dtype() == dtype),
        "[attention] sinks must be {} of {}, not {} of {}", name_of(dtype), Shape{n_head},
        sinks.defined() ? name_of(sinks.dtype()) : "", sinks.defined() ? sinks.shape() : Shape{});
}

void check_heads(std::int64_t C, int n_head) {
  check(n_head > 0 && C % n_head == 0, "[attention] {} channels are not divisible by n_head {}", C,
        n_head);
}

std::int64_t group_size(const Shape& q, const Shape& k, const Shape& v, int n_head) {
  check(q.rank() == 3 && k.rank() == 3 && k == v && q[0] == k[0],
        "[attention] q {} does not fit k {} and v {}", q, k, v);
  check_heads(q[2], n_head);
  const std::int64_t C = q[2], D = C / n_head, width = k[2];
  if (width == C) return 1;
  check(D > 0 && width > 0 && width % D == 0 && n_head % (width / D) == 0,
        "[attention] q {} has {} heads of {}, which cannot share those of k {} and v {}: their "
        "number must divide {}",
        q, n_head, D, k, v, n_head);
  return C / width;
}

}  // namespace tapegrad
