#include <functional>

#include "tapegrad/autograd/check/internal/op_cases.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

using enum Draw;
using Cases = std::vector<OpCase>;
using In = Inputs;

// Attention of q, k and v, packed in one tensor or not.
std::function<Tensor(In)> attend(int n_head, bool causal, const ScoreOptions& scores = {}) {
  return [=](In x) {
    const AttentionOptions options{.causal = causal, .scores = scores};
    return x.size() == 1 ? attention(x[0], n_head, options)
                         : attention(x[0], x[1], x[2], n_head, options);
  };
}

// One line per case, which clang-format would tear apart.
// clang-format off

void add_attention(Cases& cases) {
  const Cases lines = {
      {"attention(2, causal)", {{2, 5, 12}}, normal, attend(2, true)},
      {"attention(1, full)", {{1, 4, 9}}, normal, attend(1, false)},
      {"attention(2, causal)", {{1, 1, 12}}, normal, attend(2, true)},
      {"attention(3, causal)", {{2, 3, 6}, {2, 3, 6}, {2, 3, 6}}, normal, attend(3, true)},
      {"attention(2, full)", {{2, 2, 4}, {2, 5, 4}, {2, 5, 4}}, normal, attend(2, false)},
      {"attention(2, causal)", {{1, 0, 12}}, normal, attend(2, true)},
      {"attention(2, full)", {{2, 0, 4}, {2, 3, 4}, {2, 3, 4}}, normal, attend(2, false)},
      {"attention(4, causal), groups of 2", {{2, 3, 8}, {2, 3, 4}, {2, 3, 4}}, normal,
       attend(4, true)},
      {"attention(3, full), groups of 3", {{1, 2, 9}, {1, 4, 3}, {1, 4, 3}}, normal,
       attend(3, false)},
      {"attention(2, full), groups of 2", {{2, 0, 4}, {2, 3, 2}, {2, 3, 2}}, normal,
       attend(2, false)},
      {"attention(2), one as all three", {{1, 3, 4}}, normal,
       [](In x) { return attention(x[0], x[0], x[0], 2); }},
      {"attention(2, dropout)", {{2, 5, 12}}, normal,
       [](In x) {
         Rng r(3);
         return attention(x[0], 2, {.dropout = 0.4, .rng = &r});
       }},
      {"attention(2, full, dropout)", {{2, 2, 4}, {2, 5, 4}, {2, 5, 4}}, normal,
       [](In x) {
         Rng r(3);
         return attention(x[0], x[1], x[2], 2, {.causal = false, .dropout = 0.4, .rng = &r});
       }},
      {"attention(2, causal, padding)", {{2, 4, 12}}, normal,
       [](In x) {
         const Tensor padding = ids({0, 0, 1, 0, 1, 0, 0, 1}, {2, 4}).to(DType::u8);
         return attention(x[0], 2, {.key_padding_mask = padding});
       }},
      {"attention(2, full, padding, dropout)", {{2, 2, 4}, {2, 3, 4}, {2, 3, 4}}, normal,
       [](In x) {
         Rng r(3);
         const Tensor padding = ids({0, 0, 1, 1, 1, 1}, {2, 3}).to(DType::u8);
         return attention(x[0], x[1], x[2], 2, {.causal = false, .dropout = 0.4, .rng = &r,
                                                .key_padding_mask = padding});
       }},
      {"attention(2, full, dropout, padding), groups of 2", {{2, 2, 4}, {2, 3, 2}, {2, 3, 2}},
       normal,
       [](In x) {
         Rng r(3);
         const Tensor padding = ids({0, 0, 1, 1, 1, 1}, {2, 3}).to(DType::u8);
         return attention(x[0], x[1], x[2], 2, {.causal = false, .dropout = 0.4, .rng = &r,
                                                .key_padding_mask = padding});
       }},
      {"attention_reference(4), groups of 2", {{1, 3, 8}, {1, 3, 4}, {1, 3, 4}}, normal,
       [](In x) { return attention_reference(x[0], x[1], x[2], 4, true); }},
      {"attention_reference(2)", {{1, 3, 4}, {1, 3, 4}, {1, 3, 4}}, normal,
       [](In x) { return attention_reference(x[0], x[1], x[2], 2, true); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

// Scores with a scale, a cap or a window.
void add_scores(Cases& cases) {
  const Cases lines = {
      {"attention(2, window 3)", {{2, 7, 12}}, normal, attend(2, true, {.window = 3})},
      {"attention(2, window 1)", {{1, 3, 12}}, normal, attend(2, true, {.window = 1})},
      // Strips and tiles that meet no early key.
      {"attention(1, window 9)", {{1, 81, 3}}, normal,
       attend(1, true, {.window = 9})},
      {"attention(2, documents)", {{2, 5, 12}}, normal,
       attend(2, true, {.document_starts = ids({0, 0, 2, 2, 4, 0, 1, 1, 1, 1}, {2, 5})})},
      // A strip that begins inside a document, and a tile that meets no early key.
      {"attention(1, documents, window 9)", {{1, 81, 3}}, normal,
       [](In x) {
         std::vector<std::int32_t> starts(81, 0);
         for (std::size_t t = 12; t < 81; ++t) starts[t] = t < 40 ? 12 : 40;
         return attention(x[0], 1, {.scores = {.window = 9, .document_starts = ids(starts, {1, 81})}});
       }},
      {"attention(2, cap 1.5)", {{2, 5, 12}}, normal, attend(2, true, {.softcap = 1.5})},
      {"attention(2, full, cap 1.5)", {{2, 2, 4}, {2, 5, 4}, {2, 5, 4}}, normal,
       attend(2, false, {.softcap = 1.5})},
      {"attention(2, scale 1.3)", {{2, 5, 12}}, normal, attend(2, true, {.scale = 1.3})},
      {"attention(4, all three), groups of 2", {{2, 6, 8}, {2, 6, 4}, {2, 6, 4}}, normal,
       attend(4, true, {.scale = 1.3, .softcap = 1.5, .window = 4})},
      {"attention(2, all three, dropout, padding)", {{2, 7, 12}}, normal,
       [](In x) {
         Rng r(3);
         const Tensor padding =
             ids({0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0}, {2, 7}).to(DType::u8);
         return attention(x[0], 2, {.dropout = 0.4, .rng = &r, .key_padding_mask = padding,
                                    .scores = {.scale = 1.3, .softcap = 1.5, .window = 3}});
       }},
      {"attention(2, full, attn_mask)", {{2, 2, 4}, {2, 5, 4}, {2, 5, 4}, {2, 5}}, normal,
       [](In x) {
         return attention(x[0], x[1], x[2], 2, {.causal = false, .scores = {.attn_mask = x[3]}});
       }},
      {"attention(4, attn_mask, dropout, padding), groups of 2",
       {{2, 3, 8}, {2, 3, 4}, {2, 3, 4}, {2, 4, 3, 3}}, normal,
       [](In x) {
         Rng r(3);
         const Tensor padding = ids({0, 0, 1, 0, 1, 0}, {2, 3}).to(DType::u8);
         return attention(x[0], x[1], x[2], 4, {.dropout = 0.4, .rng = &r,
                                                .key_padding_mask = padding,
                                                .scores = {.softcap = 1.5, .attn_mask = x[3]}});
       }},
      {"attention(2, hiding attn_mask)", {{2, 3, 12}}, normal,
       [](In x) {
         const Tensor mask = ids({0, 1, 0, 0, 0, 1, 1, 1, 1}, {3, 3}).to(DType::boolean);
         return attention(x[0], 2, {.causal = false, .scores = {.attn_mask = mask}});
       }},
      {"attention(2, sinks)", {{2, 5, 12}, {2}}, normal,
       [](In x) { return attention(x[0], 2, {.scores = {.sinks = x[1]}}); }},
      {"attention(2, full, sinks)", {{2, 2, 4}, {2, 5, 4}, {2, 5, 4}, {2}}, normal,
       [](In x) {
         return attention(x[0], x[1], x[2], 2, {.causal = false, .scores = {.sinks = x[3]}});
       }},
      {"attention(2, sinks, one query)", {{2, 1, 4}, {2, 5, 4}, {2, 5, 4}, {2}}, normal,
       [](In x) {
         return attention(x[0], x[1], x[2], 2, {.causal = false, .scores = {.sinks = x[3]}});
       }},
      // Rows that see no key, but their sink.
      {"attention(4, sinks, all others), groups of 2", {{2, 6, 8}, {2, 6, 4}, {2, 6, 4}, {4}}, normal,
       [](In x) {
         Rng r(3);
         const Tensor padding = ids({1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 0}, {2, 6}).to(DType::u8);
         const Tensor starts = ids({0, 0, 0, 0, 4, 4, 0, 1, 1, 1, 1, 1}, {2, 6});
         return attention(x[0], x[1], x[2], 4,
                          {.dropout = 0.4, .rng = &r, .key_padding_mask = padding,
                           .scores = {.scale = 1.3, .softcap = 1.5, .window = 3,
                                      .document_starts = starts, .sinks = x[3]}});
       }},
      {"attention(2, attn_mask, sinks)", {{2, 2, 4}, {2, 5, 4}, {2, 5, 4}, {2, 5}, {2}}, normal,
       [](In x) {
         return attention(x[0], x[1], x[2], 2,
                          {.causal = false, .scores = {.attn_mask = x[3], .sinks = x[4]}});
       }},
      {"attention_reference(2, all three)", {{1, 5, 4}, {1, 5, 4}, {1, 5, 4}}, normal,
       [](In x) {
         return attention_reference(x[0], x[1], x[2], 2, true, {}, {},
                                    {.scale = 1.3, .softcap = 1.5, .window = 3,
                                     .document_starts = ids({0, 0, 0, 0, 4}, {1, 5})});
       }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

void add_rotations(Cases& cases) {
  const Cases lines = {
      {"rope(4)", {{2, 3, 8}}, normal, [](In x) { return rope(x[0], 4); }},
      {"rope(2, first 5, channels 8)", {{2, 3, 12}}, normal,
       [](In x) { return rope(x[0], 2, {.first = 5, .channels = 8}); }},
      {"rope(2, first 5, documents)", {{2, 3, 8}}, normal,
       [](In x) {
         return rope(x[0], 2, {.first = 5, .document_starts = ids({0, 1, 1, 0, 0, 2}, {2, 3})});
       }},
      {"rope(4, base 100, scaling)", {{2, 3, 8}}, normal,
       [](In x) { return rope(x[0], 4, {.base = 100, .scaling = RopeScaling{2, 1, 4, 16}}); }},
      {"rope(6, four turn)", {{2, 3, 12}}, normal,
       [](In x) { return rope(x[0], 6, {.first = 2, .turned = 4}); }},
      {"rope(4, linear)", {{2, 3, 8}}, normal,
       [](In x) {
         return rope(x[0], 4, {.scaling = RopeScaling{
                                   .factor = 2.5, .kind = RopeScaling::Kind::linear}});
       }},
      {"rope(4, yarn)", {{2, 3, 8}}, normal,
       [](In x) {
         return rope(x[0], 4, {.base = 10, .scaling = RopeScaling{
                                   .factor = 2.5, .original_positions = 16,
                                   .kind = RopeScaling::Kind::yarn, .attention_factor = 1.5}});
       }},
      {"rope(4, longrope)", {{2, 3, 8}}, normal,
       [](In x) {
         return rope(x[0], 4, {.document_starts = ids({0, 0, 0, 0, 0, 2}, {2, 3}),
                               .scaling = RopeScaling{.original_positions = 2,
                                                      .kind = RopeScaling::Kind::longrope,
                                                      .attention_factor = 1.5,
                                                      .short_factors = {1, 2},
                                                      .long_factors = {3, 4}},
                               .reversed = true});
       }},
      {"rope(4)", {{2, 0, 4}}, normal, [](In x) { return rope(x[0], 4); }},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

// clang-format on

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases) {
  add_attention(cases);
  add_scores(cases);
  add_rotations(cases);
}

}  // namespace tapegrad
