// Attention and rotary positions of documents that stand side by side.

#include "tapegrad/autograd/kernels/internal/small_product.h"
#include "tapegrad/tests/autograd/ops/compare_fused.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// Starts (rows, T) of documents of these lengths, each row's after the other.
Tensor starts_of(const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<std::int32_t> starts;
  for (const auto& lengths : rows) {
    std::int32_t at = 0;
    for (const std::int64_t length : lengths) {
      starts.insert(starts.end(), static_cast<std::size_t>(length), at);
      at += static_cast<std::int32_t>(length);
    }
  }
  const auto B = static_cast<std::int64_t>(rows.size());
  return Tensor::from(starts, {B, static_cast<std::int64_t>(starts.size()) / B});
}

// Starts (B, T) of documents of 1 to `most` tokens.
Tensor random_starts(Rng& rng, std::int64_t B, std::int64_t T, std::int64_t most) {
  std::vector<std::int32_t> starts;
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t t = 0, end = 0, start = 0; t < T; ++t) {
      if (t == end) start = t, end = t + 1 + rng.randint(most);
      starts.push_back(static_cast<std::int32_t>(start));
    }
  }
  return Tensor::from(starts, {B, T});
}

struct ValueAndGradient {
  Tensor value, gradient;
};
template <class F>
ValueAndGradient run(const Tensor& x, const F& f) {
  Tape tape;
  tape.watch(x);
  const Tensor y = f(x);
  Rng rng(7);
  return {y, tape.gradient(y, {x}, {.seeds = {normal(rng, y.shape(), x.dtype())}})[0]};
}

}  // namespace

TEST_CASE("attention of documents agrees with its composed reference", "[attention_documents]") {
  Rng rng(41);
  for (const std::int64_t T : {1, 17, 64, 65, 200}) {
    for (const std::int64_t most : {1, 5, 16, 40, 150, 1000}) {
      for (const std::int64_t window : {0, 20}) {
        INFO("T " << T << ", documents of up to " << most << ", window " << window);
        const ScoreOptions scores{.window = window,
                                  .document_starts = random_starts(rng, 2, T, most)};
        compare([&](Inputs in) { return attention(in[0], 2, {.scores = scores}); },
                [&](Inputs in) {
                  const auto qkv = split(in[0], {6, 6, 6}, 2);
                  return attention_reference(qkv[0], qkv[1], qkv[2], 2, true, {}, {}, scores);
                },
                {normal(rng, {2, T, 18})});
      }
    }
  }
}

TEST_CASE("documents go together with windows, caps, groups, padding and dropout",
          "[attention_documents]") {
  Rng rng(42);
  for (const std::int64_t window : {0, 30}) {
    INFO("window " << window);
    compare_attention(rng, {.window = window, .document_starts = random_starts(rng, 2, 150, 60)});
  }
}

TEST_CASE("each document has the values and gradients that it has alone", "[attention_documents]") {
  Rng rng(43);
  const std::vector<std::int64_t> lengths = {30, 1, 99, 16, 64, 2};
  const Tensor x = normal(rng, {1, 212, 3 * 24}), starts = starts_of({lengths});
  const auto turned_and_attended = [](const Tensor& qkv, const Tensor& documents) {
    const Tensor turned = rope(qkv, 12, {.document_starts = documents, .channels = 48});
    return attention(turned, 2, {.scores = {.document_starts = documents}});
  };
  const auto all = run(x, [&](const Tensor& in) { return turned_and_attended(in, starts); });
  const auto apart = run(x, [&](const Tensor& in) {
    std::vector<Tensor> parts;
    for (const Tensor& part : split(in, lengths, 1)) {
      parts.push_back(turned_and_attended(part, {}));
    }
    return concat(parts, 1);
  });
  CHECK(difference(all.value, apart.value, 1e-13, 1e-14) == "");
  CHECK(difference(all.gradient, apart.gradient, 1e-12, 1e-13) == "");
}

TEST_CASE("rows of one document each have the bits that they have without documents",
          "[attention_documents]") {
  Rng rng(44);
  const Tensor x = normal(rng, {2, 130, 24}, DType::f32), none = starts_of({{130}, {130}});
  const auto of = [&](const Tensor& documents) {
    return run(x, [&](const Tensor& in) {
      return attention(rope(in, 4, {.document_starts = documents}), 2,
                       {.scores = {.document_starts = documents}});
    });
  };
  CHECK(same_bits(of(none).value, of({}).value));
  CHECK(same_bits(of(none).gradient, of({}).gradient));
  CHECK_FALSE(same_bits(of(starts_of({{130}, {129, 1}})).value, of({}).value));
}

TEST_CASE("documents have the same bits on any number of threads", "[attention_documents]") {
  Rng rng(45);
  const Tensor x = normal(rng, {3, 300, 48}, DType::f32), starts = random_starts(rng, 3, 300, 90);
  const auto on = [&](int threads) {
    const Threads set(threads);
    return run(x, [&](const Tensor& in) {
      return attention(rope(in, 8, {.document_starts = starts}), 2,
                       {.scores = {.document_starts = starts}});
    });
  };
  const auto one = on(1), three = on(3);
  CHECK(same_bits(one.value, three.value));
  CHECK(same_bits(one.gradient, three.gradient));
}

TEST_CASE("what lies between documents costs no products, in neither direction",
          "[attention_documents]") {
  Rng rng(46);
  const Tensor x = normal(rng, {1, 1024, 3 * 16}, DType::f32);
  const Tensor eight = starts_of({std::vector<std::int64_t>(8, 128)});
  const auto work = [&](const Tensor& documents) {
    const double before = small_product_flops();
    run(x, [&](const Tensor& in) {
      return attention(in, 1, {.scores = {.document_starts = documents}});
    });
    return small_product_flops() - before;
  };
  // A query sees 512.5 keys in the mean, or 64.5; a strip has up to 15 more.
  CHECK(work(eight) < 0.145 * work({}));
}

TEST_CASE("the masks may change before backward", "[attention_documents]") {
  Rng rng(47);
  const Tensor x = normal(rng, {1, 20, 12}), starts = starts_of({{7, 13}});
  const auto gradient = [&](bool changes) {
    Tensor own = starts.clone();
    Tape tape;
    tape.watch(x);
    const Tensor y =
        attention(rope(x, 2, {.document_starts = own}), 2, {.scores = {.document_starts = own}});
    if (changes) std::fill_n(own.mutable_data<std::int32_t>(), 20, 0);
    return tape.gradient(y, {x}, {.seeds = {y}})[0];
  };
  CHECK(same_bits(gradient(false), gradient(true)));
}

TEST_CASE("documents that do not fit are errors that name them", "[attention_documents]") {
  const Tensor x = Tensor::zeros({1, 3, 6});
  const auto attend = [&](const Tensor& starts, bool causal = true) {
    return attention(x, 1, {.causal = causal, .scores = {.document_starts = starts}});
  };
  const auto row = [](std::int32_t a, std::int32_t b, std::int32_t c) {
    return ids({a, b, c}).view({1, 3});
  };
  CHECK_NOTHROW(attend(row(0, 1, 1)));
  CHECK_THROWS_WITH(attend(row(0, 1, 1), false),
                    ContainsSubstring("needs causal") || ContainsSubstring("need causal"));
  CHECK_THROWS_WITH(attend(ids({0, 0, 0})), ContainsSubstring("must be i32 of (1, 3)"));
  CHECK_THROWS_WITH(attend(Tensor::zeros({1, 3})), ContainsSubstring("must be i32"));
  const std::vector<Tensor> wrong = {row(1, 1, 1), row(0, 0, 1),  row(0, 1, 0),
                                     row(0, 2, 2), row(0, -1, 0), row(-1, -1, -1)};
  for (const Tensor& starts : wrong) {
    CHECK_THROWS_WITH(attend(starts), ContainsSubstring("[attention] the document of position"));
    CHECK_THROWS_WITH(rope(x, 2, {.document_starts = starts}),
                      ContainsSubstring("[rope] the document of position"));
  }
  CHECK_THROWS_WITH(attend(row(0, 1, 0)), ContainsSubstring("position 2 of row 0 begins at 0"));
  CHECK_THROWS_WITH(rope(Tensor::zeros({3, 6}), 2, {.document_starts = ids({0, 0, 0})}),
                    ContainsSubstring("[rope] x (3, 6) with document_starts"));
}
