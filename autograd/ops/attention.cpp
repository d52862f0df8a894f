#include <algorithm>
#include <array>

#include "tapegrad/autograd/cached_attention.h"
#include "tapegrad/autograd/kernels/internal/attention_backward.h"
#include "tapegrad/autograd/kernels/internal/attention_forward.h"
#include "tapegrad/autograd/ops/internal/attention_checks.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/base/internal/number_rules.h"

namespace tapegrad {
namespace {

// (B, T, C) as rows of heads.
template <class T>
HeadRows<const T> rows_of(const Tensor& x) {
  return {x.data<T>(), x.dim(2), x.dim(1) * x.dim(2)};
}
template <class T>
HeadRows<T> rows_of(Tensor& x) {
  return {x.mutable_data<T>(), x.dim(2), x.dim(1) * x.dim(2)};
}
// Part i (q, k or v) of packed rows (B, T, 3C). Without any rows there is no data to point into.
template <class T>
HeadRows<T> part_of(const HeadRows<T>& packed, std::int64_t i) {
  T* data = packed.data == nullptr ? nullptr : packed.data + i * packed.row / 3;
  return {data, packed.row, packed.batch};
}

// q, k and v, or their gradients: three tensors (B, T, …), or the parts of one (B, T, 3C). They
// differ only in how far rows lie apart.
template <class T, class Tensors>
auto heads_of(Tensors& qkv) {
  if (qkv.size() == 1) {
    const auto all = rows_of<T>(qkv[0]);
    return std::array{part_of(all, 0), part_of(all, 1), part_of(all, 2)};
  }
  return std::array{rows_of<T>(qkv[0]), rows_of<T>(qkv[1]), rows_of<T>(qkv[2])};
}

AttentionTiles tiles_of(const AttentionSizes& size, const ScoreOptions& scores) {
  const Tensor& documents = scores.document_starts;
  return {.size = size,
          .window = scores.window == 0 ? AttentionTiles::kNoWindow : scores.window,
          .starts = documents.defined() ? documents.data<std::int32_t>() : nullptr};
}

// The inputs of the op are q, k and v, or all three in one, and then the sinks, if there are some.
struct Call {
  AttentionSizes size;
  ScoreOptions scores;  // without sinks
  KeepMask keep;
  Tensor padding;          // (B, Tk) u8, or undefined
  bool has_sinks = false;  // (H)

  Inputs qkv_of(Inputs in) const { return in.first(in.size() - (has_sinks ? 1 : 0)); }
  Tensor sinks_of(Inputs in) const { return has_sinks ? in.back() : Tensor(); }

  template <class T>
  AttentionKernel<T> kernel(Inputs in) const {
    const Inputs parts = qkv_of(in);
    const auto qkv = heads_of<T>(parts);
    return {.tiles = tiles_of(size, scores),
            .q = qkv[0],
            .k = qkv[1],
            .v = qkv[2],
            .keep = keep,
            .padding = padding.defined() ? padding.data<std::uint8_t>() : nullptr,
            .scale = scale_of(scores, size.D),
            .cap = scores.softcap,
            .sinks = has_sinks ? in.back().data<T>() : nullptr};
  }
};

Call make_call(const Shape& q, std::int64_t C, std::int64_t Tk, int n_head,
               const AttentionOptions& options) {
  check_heads(C, n_head);
  check(!options.causal || q[1] == Tk,
        "[attention] causal attention needs as many queries as keys, not {} and {}", q[1], Tk);
  check_numbers("AttentionOptions", {{"dropout", options.dropout, from_to(0, 1)}});
  check_padding(options.key_padding_mask, q[0], Tk);
  check_scores(options.scores, options.causal, q[0], q[1]);
  Call call{{q[0], q[1], Tk, n_head, C / n_head, options.causal}, options.scores, {}, {}};
  call.has_sinks = options.scores.sinks.defined();
  call.scores.sinks = {};
  // Copies, so that the caller may change the masks before backward.
  if (options.key_padding_mask.defined()) call.padding = options.key_padding_mask.clone();
  Tensor& documents = call.scores.document_starts;
  if (documents.defined()) documents = documents.clone();
  if (options.rng != nullptr) {
    call.keep = KeepMask(*options.rng, q[0] * n_head * q[1] * Tk, options.dropout);
  }
  return call;
}

FusedOp::Output forward(const Call& call, Inputs in) {
  const auto& [B, Tq, Tk, H, D, causal, group] = call.size;
  const DType dtype = in[0].dtype();
  Tensor out = Tensor::empty({B, Tq, H * D}, dtype), stats = Tensor::empty({B, H, Tq, 2}, dtype);
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    call.kernel<T>(in).forward(rows_of<T>(out), stats.mutable_data<T>());
  });
  return {out, {stats, call.keep.stored()}};
}

// dk or dv (B, Tk, H·D) summed over the heads that share: (B, Tk, K·D).
Tensor sum_groups(const Tensor& x, const Call& call) {
  const auto& [B, Tq, Tk, H, D, causal, group] = call.size;
  const std::int64_t K = H / group;
  return reshape(sum(reshape(x, {B, Tk, K, group, D}), {3}), {B, Tk, K * D});
}

Grads backward(const Call& call, const Tensor& dy, Inputs in, const Tensor& stats) {
  const auto& [B, Tq, Tk, H, D, causal, group] = call.size;
  const Inputs qkv = call.qkv_of(in);
  Grads grads;
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    // Each head of queries has a dk and a dv of its own here.
    const Shape shape = i == 0 ? qkv[0].shape() : Shape{B, Tk, H * D};
    // Keys that no query meets get zeros, and nothing else writes them. Where no tile meets all
    // keys, all tiles add to what is there.
    const bool empty = Tq == 0 || !tiles_of(call.size, call.scores).meets_all();
    grads.push_back(empty ? Tensor::zeros(shape, dy.dtype()) : Tensor::empty(shape, dy.dtype()));
  }
  Tensor dsinks = call.has_sinks ? Tensor::empty({B, H, Tq}, dy.dtype()) : Tensor();
  dispatch(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto d = heads_of<T>(grads);
    call.kernel<T>(in).backward(rows_of<T>(dy), stats.data<T>(), d[0], d[1], d[2],
                                call.has_sinks ? dsinks.mutable_data<T>() : nullptr);
  });
  if (group > 1) {
    for (std::size_t i : {1, 2}) grads[i] = sum_groups(grads[i], call);
  }
  if (call.has_sinks) grads.push_back(sum(dsinks, {0, 2}));
  return grads;
}

Tensor reference(const Call& call, Inputs in) {
  const Inputs qkv = call.qkv_of(in);
  std::vector<Tensor> parts(qkv.begin(), qkv.end());
  if (qkv.size() == 1) {
    const std::int64_t C = qkv[0].dim(2) / 3;
    parts = split(qkv[0], {C, C, C}, 2);
  }
  ScoreOptions scores = call.scores;
  scores.sinks = call.sinks_of(in);
  return attention_reference(parts[0], parts[1], parts[2], static_cast<int>(call.size.H),
                             call.size.causal, call.keep, call.padding, scores);
}

Tensor forward_cached(AttentionSizes size, const ScoreOptions& scores,
                      std::span<const CachedKeys> cached, const std::vector<std::int64_t>& lengths,
                      const Tensor& q, const Tensor& sinks) {
  Tensor out = Tensor::empty(q.shape(), q.dtype());
  const KeepMask keep;
  dispatch(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor stats = Tensor::empty({size.B, size.H, size.Tq, 2}, out.dtype());
    AttentionTiles tiles = tiles_of(size, scores);
    tiles.lengths = lengths.data();
    const AttentionKernel<T> kernel{.tiles = tiles,
                                    .q = rows_of<T>(q),
                                    .k = {},
                                    .v = {},
                                    .cached = cached,
                                    .keep = keep,
                                    .scale = scale_of(scores, size.D),
                                    .cap = scores.softcap,
                                    .sinks = sinks.defined() ? sinks.data<T>() : nullptr};
    kernel.forward(rows_of<T>(out), stats.mutable_data<T>());
  });
  return out;
}

std::int64_t positions_in(const CachedKeys& c) {
  std::int64_t positions = 0;
  for (const auto& page : c.pages) positions += page->capacity();
  return positions;
}

void check_cached(const Tensor& q, const CachedKeys& c, const CachedPage& first) {
  const std::int64_t room = positions_in(c), last = std::ssize(c.pages) - 1;
  check(c.length >= q.dim(1) && c.length <= room,
        "[attention] {} positions in pages for {} cannot end with the {} of q {}", c.length, room,
        q.dim(1), q.shape());
  for (std::int64_t i = 0; i <= last; ++i) {
    const CachedPage& page = *c.pages[static_cast<std::size_t>(i)];
    check(page.channels() == first.channels() && page.dtype() == q.dtype(),
          "[attention] q {} of {} does not fit a page of {} channels of {}", q.shape(),
          name_of(q.dtype()), page.channels(), name_of(page.dtype()));
    check(i == last || page.capacity() == CachedPage::kPositions,
          "[attention] a page of {} positions is not the last one", page.capacity());
  }
}

// One body for both forms, which reports tell apart by their names.
Tensor apply_attention(std::string_view name, std::string_view backward_name,
                       std::vector<Tensor> in, const Call& call, const Tensor& sinks) {
  check_sinks(sinks, static_cast<int>(call.size.H), in[0].dtype());
  if (sinks.defined()) in.push_back(sinks);
  if (call.scores.attn_mask.defined()) return reference(call, in);
  return apply_fused(in,
                     {.name = name,
                      .backward_name = backward_name,
                      .forward = [call](Inputs in, const Needs&) { return forward(call, in); },
                      .backward = [call](const Tensor& dy, Inputs in, Inputs notes,
                                         const Needs&) { return backward(call, dy, in, notes[0]); },
                      .reference = [call](Inputs in) { return reference(call, in); }});
}

}  // namespace

Tensor attention(const Tensor& qkv, int n_head, const AttentionOptions& options) {
  check(qkv.rank() == 3 && qkv.dim(2) % 3 == 0, "[attention] qkv must be (B, T, 3C), not {}",
        qkv.shape());
  const Call call = make_call(qkv.shape(), qkv.dim(2) / 3, qkv.dim(1), n_head, options);
  return apply_attention("attention_qkv", "attention_qkv_backward", {qkv}, call,
                         options.scores.sinks);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_head,
                 const AttentionOptions& options) {
  const std::int64_t group = group_size(q.shape(), k.shape(), v.shape(), n_head);
  Call call = make_call(q.shape(), q.dim(2), k.dim(1), n_head, options);
  call.size.group = group;
  return apply_attention("attention", "attention_backward", {q, k, v}, call, options.scores.sinks);
}

Tensor attention(const Tensor& q, std::span<const CachedKeys> cached, int n_head,
                 const ScoreOptions& scores) {
  check(q.rank() == 3 && q.dim(1) > 0 && std::ssize(cached) == q.dim(0) && !cached.empty() &&
            !cached[0].pages.empty(),
        "[attention] q {} is not (B, T, C) for {} cached sequences", q.shape(), cached.size());
  check(!scores.document_starts.defined(), "[attention] a cached sequence is one document");
  check(!scores.attn_mask.defined(), "[attention] attention to cached keys takes no attn_mask");
  check_scores(scores, true, q.dim(0), q.dim(1));
  check_sinks(scores.sinks, n_head, q.dtype());
  const CachedPage& first = *cached[0].pages[0];
  std::vector<std::int64_t> lengths;
  for (const CachedKeys& c : cached) {
    check_cached(q, c, first);
    lengths.push_back(c.length);
  }
  const Shape shape{q.dim(0), first.capacity(), first.channels()};
  const AttentionSizes size{q.dim(0),
                            q.dim(1),
                            *std::max_element(lengths.begin(), lengths.end()),
                            n_head,
                            q.dim(2) / std::max(1, n_head),
                            /*causal=*/true,
                            group_size(q.shape(), shape, shape, n_head)};
  return apply(
      "attention", {q, scores.sinks},
      [&](Inputs in, Saved& saved) {
        check(!saved.recording(), "[attention] no tape can record attention to cached keys");
        return forward_cached(size, scores, cached, lengths, in[0], in[1]);
      },
      [](const Tensor&, const Saved&, const Needs&) { return Grads(); });
}

}  // namespace tapegrad
