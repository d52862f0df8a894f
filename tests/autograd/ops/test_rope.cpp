#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("rope turns channel i with channel i + D/2 by position times base^(-2i/D)", "[rope]") {
  const std::int64_t D = 6, first = GENERATE(4, 60, 99'990), T = GENERATE(1, 3, 140);
  Rng rng(1);
  const Tensor x = normal(rng, {2, T, 2 * D});
  const Tensor y = rope(x, D, {.first = first, .base = 100});
  double worst = 0;
  for (std::int64_t row = 0; row < 2 * T; ++row) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t i = 0; i < D / 2; ++i) {
        const std::int64_t low = row * 2 * D + head * D + i, high = low + D / 2;
        const double angle =
            static_cast<double>(first + row % T) *
            std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(D));
        const double cos = std::cos(angle), sin = std::sin(angle);
        worst = std::max({worst, std::abs(y.at(low) - (x.at(low) * cos - x.at(high) * sin)),
                          std::abs(y.at(high) - (x.at(high) * cos + x.at(low) * sin))});
      }
    }
  }
  CHECK(worst < (first > 1000 ? 1e-10 : 1e-13));  // an angle of 1e5 has an error of 1e-11
}

TEST_CASE("a row is turned by its position, whatever rows are beside it", "[rope]") {
  Rng rng(6);
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const Tensor x = normal(rng, {200, 24}, dtype);
  const Tensor all = rope(x, 8, {.first = 30});
  for (const std::int64_t t : {0, 33, 34, 97, 199}) {
    CHECK(same_bits(rope(x.rows(t, t + 1), 8, {.first = 30 + t}), all.rows(t, t + 1)));
  }
  CHECK(same_bits(rope(x.rows(40, 110), 8, {.first = 70}), all.rows(40, 110)));
}

TEST_CASE("each sequence of a batch may begin at a position of its own", "[rope]") {
  Rng rng(7);
  const Tensor x = normal(rng, {3, 5, 24}, DType::f32);
  const std::vector<std::int64_t> firsts = {62, 0, 1000};
  const Tensor y = rope(x, 8, {.firsts = firsts});
  for (std::int64_t b = 0; b < 3; ++b) {
    const std::int64_t first = firsts[static_cast<std::size_t>(b)];
    CHECK(same_bits(y.rows(b, b + 1), rope(x.rows(b, b + 1), 8, {.first = first})));
  }
  // Its gradient turns back each sequence by its own positions.
  const Tensor p = x.clone().set_requires_grad();
  Tape tape;
  const Tensor back = tape.gradient(sum(rope(p, 8, {.firsts = firsts}) * y), {p})[0];
  CHECK(difference(back, x, 1e-5, 1e-5) == "");
  CHECK_THROWS_WITH(rope(x, 8, {.firsts = {1, 2}}), ContainsSubstring("(3, 5, 24) is not 2"));
  CHECK_THROWS_WITH(rope(x, 8, {.firsts = {1, -2, 0}}), ContainsSubstring("as -2 is"));
}

TEST_CASE("positions begin anew at each document", "[rope]") {
  Rng rng(8);
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const Tensor x = normal(rng, {2, 7, 24}, dtype);
  const Tensor starts = ids({0, 0, 0, 3, 3, 3, 6, 0, 1, 1, 1, 1, 1, 1}).view({2, 7});
  const RopeOptions options{.first = 5, .document_starts = starts, .channels = 16};
  const Tensor y = rope(x, 8, options);
  const auto part = [](const Tensor& of, std::int64_t b, std::int64_t begin, std::int64_t end) {
    return slice(of.rows(b, b + 1), 1, begin, end);
  };
  const std::vector<std::array<std::int64_t, 3>> documents = {
      {0, 0, 3}, {0, 3, 6}, {0, 6, 7}, {1, 0, 1}, {1, 1, 7}};
  for (const auto& [b, begin, end] : documents) {
    CHECK(same_bits(part(y, b, begin, end),
                    rope(part(x, b, begin, end), 8, {.first = 5, .channels = 16})));
  }
  const Tensor p = x.clone().set_requires_grad();
  Tape tape;
  const Tensor back = tape.gradient(sum(rope(p, 8, options) * y), {p})[0];
  CHECK(difference(back, x, 1e-5, 1e-5) == "");
}

TEST_CASE("Llama 3's scaling turns as transformers does", "[rope]") {
  // inv_freq of transformers 5.12's _compute_llama3_parameters, in f32: short waves stay, one in
  // between is interpolated, long ones turn eight times slower.
  const std::vector<double> inv_freq = {1,
                                        0.193922758,
                                        0.0376060307,
                                        0.00729266508,
                                        0.000524846022,
                                        3.42810235e-05,
                                        6.64786967e-06,
                                        1.28917316e-06};
  const RopeScaling scaling{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_positions = 8192};
  Tensor x = Tensor::zeros({1, 16}, DType::f64);
  for (int i = 0; i < 8; ++i) x.mutable_data<double>()[i] = 1;
  const Tensor y = rope(x, 16, {.first = 3, .base = 500'000, .scaling = scaling});
  for (int i = 0; i < 8; ++i) {
    const double angle = std::atan2(y.at(8 + i), y.at(i));
    CHECK(angle / 3 == Approx(inv_freq[static_cast<std::size_t>(i)]).epsilon(4e-7));
  }
}

TEST_CASE("the linear scaling turns as positions between those of the first training", "[rope]") {
  Rng rng(9);
  const Tensor x = normal(rng, {1, 16});
  const RopeScaling scaling{.factor = 4, .kind = RopeScaling::Kind::linear};
  CHECK(difference(rope(x, 8, {.first = 12, .scaling = scaling}), rope(x, 8, {.first = 3}), 1e-12,
                   1e-13) == "");
  CHECK_FALSE(same_bits(rope(x, 8, {.first = 13, .scaling = scaling}), rope(x, 8, {.first = 3})));
}

TEST_CASE("LongRoPE goes by the length of each text", "[rope]") {
  CHECK(longrope_attention_factor(32, 4096) == Approx(1.1902380714238083).epsilon(1e-14));
  CHECK(longrope_attention_factor(0.5, 4096) == 1);
  const auto scaling = [](std::int64_t original) {
    return RopeScaling{.original_positions = original,
                       .kind = RopeScaling::Kind::longrope,
                       .attention_factor = 1.25,
                       .short_factors = {1, 1.5},
                       .long_factors = {2, 4}};
  };
  Rng rng(9);
  const Tensor x = normal(rng, {2, 6, 8});
  const Tensor of_short = rope(x, 4, {.scaling = scaling(6)});
  const Tensor of_long = rope(x, 4, {.scaling = scaling(5)});
  // Of the first pair and head at position 3: angles 3 and 3 / 2.
  for (const auto& [y, angle] : {std::pair(of_short, 3.0), std::pair(of_long, 1.5)}) {
    const double low = x.at({0, 3, 0}), high = x.at({0, 3, 2});
    CHECK(y.at({0, 3, 0}) ==
          Approx(1.25 * (low * std::cos(angle) - high * std::sin(angle))).margin(1e-6));
  }
  const Tensor mixed = rope(x, 4, {.scaling = scaling(5), .lengths = {5, 6}});
  CHECK(same_bits(mixed.rows(0, 1), of_short.rows(0, 1)));
  CHECK(same_bits(mixed.rows(1, 2), of_long.rows(1, 2)));
  CHECK(same_bits(rope(x, 4, {.scaling = scaling(5), .lengths = {3}}), of_short));

  // Documents side by side, and beside them one that is long.
  const Tensor starts = ids({0, 0, 0, 3, 3, 3, 0, 0, 0, 0, 0, 0}).view({2, 6});
  const Tensor y = rope(x, 4, {.document_starts = starts, .scaling = scaling(5)});
  CHECK(same_bits(slice(y.rows(0, 1), 1, 0, 3), slice(of_short.rows(0, 1), 1, 0, 3)));
  CHECK(same_bits(slice(y.rows(0, 1), 1, 3, 6),
                  rope(slice(x.rows(0, 1), 1, 3, 6), 4, {.scaling = scaling(5)})));
  CHECK(same_bits(y.rows(1, 2), of_long.rows(1, 2)));

  const Tensor back = rope(rope(x, 4, {.scaling = scaling(5), .reversed = true}), 4,
                           {.scaling = scaling(5), .back = true, .reversed = true});
  CHECK(difference(back, x, 1e-5, 1e-6) == "");
  RopeScaling wrong = scaling(5);
  wrong.long_factors.pop_back();
  CHECK_THROWS_WITH(rope(x, 4, {.scaling = wrong}),
                    ContainsSubstring("a short and a long factor for each of 2 pairs, not 1"));
}

TEST_CASE("reversed rotary positions turn the other way", "[rope]") {
  Rng rng(9);
  const Tensor x = normal(rng, {1, 5, 8});
  CHECK(same_bits(rope(x, 4, {.reversed = true}), rope(x, 4, {.back = true})));
}

TEST_CASE("YaRN turns and lengthens as transformers does", "[rope]") {
  // inv_freq and the attention factor of transformers 5.12's _compute_yarn_parameters, in f32.
  using Kind = RopeScaling::Kind;
  struct Case {
    double base;
    RopeScaling scaling;
    std::vector<double> inv_freq;
  };
  CHECK(yarn_attention_factor(4) == Approx(1.138629436111989).epsilon(1e-14));
  CHECK(yarn_attention_factor(4, 2) == Approx(1.277258872223978).epsilon(1e-14));
  CHECK(yarn_attention_factor(0.5, 2) == 1);
  const Case cases[] = {{1e6,
                         {.factor = 4,
                          .original_positions = 32768,
                          .kind = Kind::yarn,
                          .attention_factor = yarn_attention_factor(4)},
                         {1, 0.177827939, 0.0316227786, 0.00421755994, 0.000500000024,
                          4.44569851e-05, 7.90569356e-06, 1.40585337e-06}},
                        {500,
                         {.factor = 3,
                          .original_positions = 200,
                          .kind = Kind::yarn,
                          .beta_fast = 4,
                          .beta_slow = 0.5,
                          .attention_factor = 1.3,
                          .truncate = false},
                         {1, 0.459863275, 0.21147424, 0.0892573297, 0.029908333, 0.0086318627,
                          0.00315247197, 0.00144970615}}};
  Tensor x = Tensor::zeros({1, 16}, DType::f64);
  for (int i = 0; i < 8; ++i) x.mutable_data<double>()[i] = 1;
  for (const Case& c : cases) {
    const Tensor y = rope(x, 16, {.first = 3, .base = c.base, .scaling = c.scaling});
    for (int i = 0; i < 8; ++i) {
      const double angle = std::atan2(y.at(8 + i), y.at(i));
      CHECK(angle / 3 == Approx(c.inv_freq[static_cast<std::size_t>(i)]).epsilon(4e-7));
      CHECK(std::hypot(y.at(8 + i), y.at(i)) == Approx(c.scaling.attention_factor).epsilon(1e-12));
    }
  }
  const auto refused = [&](RopeScaling scaling, const std::string& message) {
    scaling.kind = Kind::yarn;
    CHECK_THROWS_WITH(rope(x, 16, {.scaling = scaling}), ContainsSubstring(message));
  };
  refused({.beta_fast = 1, .beta_slow = 2}, "beta_slow must not be above beta_fast, as 2 and 1");
  refused({.attention_factor = 0}, "attention_factor");
  refused({.beta_slow = -1}, "beta_slow");
  CHECK_THROWS_WITH(rope(x, 16, {.base = 1, .scaling = RopeScaling{.kind = Kind::yarn}}),
                    "[rope] YaRN needs a base above 1, not 1");
}

TEST_CASE("f32's angles are rounded where transformers rounds them", "[rope]") {
  // cos and sin of transformers 5.12's LlamaRotaryEmbedding in f32, of 16 channels at two positions
  // with this scaling. Angles that are not rounded give others: by 5e-4 and more at the second.
  const RopeScaling scaling{.factor = 8, .original_positions = 64};
  struct Row {
    std::int64_t position;
    std::vector<double> cos, sin;
  };
  const Row rows[] = {{8191,
                       {-0.646390438, -0.996769905, 0.693281412, 0.377601177, 0.122510001,
                        0.960835218, 0.998517811, 0.99994427},
                       {-0.763006806, -0.0803098083, 0.720667005, 0.925968349, 0.992467284,
                        0.277120441, 0.0544257946, 0.010559421}},
                      {100'003,
                       {0.984314799, 0.163383067, 0.40901634, -0.99849546, 0.388900876,
                        -0.959207058, 0.787035942, 0.991701126},
                       {-0.176420853, -0.986562729, -0.912527084, -0.0548344217, -0.921279609,
                        -0.282704651, 0.616907179, 0.128564358}}};
  Tensor x = Tensor::zeros({1, 16});
  for (int i = 0; i < 8; ++i) x.mutable_data<float>()[i] = 1;
  for (const Row& row : rows) {
    const Tensor y = rope(x, 16, {.first = row.position, .base = 500'000, .scaling = scaling});
    for (int i = 0; i < 8; ++i) {
      INFO(row.position << " " << i);
      const auto at = static_cast<std::size_t>(i);
      CHECK(y.at(i) == Approx(row.cos[at]).margin(2e-7));
      CHECK(y.at(8 + i) == Approx(row.sin[at]).margin(2e-7));
    }
  }
}

TEST_CASE("scores of turned rows depend on how far they are apart alone", "[rope]") {
  Rng rng(2);
  const Tensor q = normal(rng, {1, 8}), k = normal(rng, {1, 8});
  const auto score = [&](std::int64_t at_q, std::int64_t at_k) {
    return sum(rope(q, 8, {.first = at_q}) * rope(k, 8, {.first = at_k})).item();
  };
  CHECK(score(7, 3) == Approx(score(1004, 1000)).epsilon(1e-10));
  CHECK(score(7, 3) != Approx(score(8, 3)).epsilon(1e-3));
}

TEST_CASE("rope leaves position 0 and what lies beyond its channels as they are", "[rope]") {
  Rng rng(3);
  const Tensor x = normal(rng, {2, 12}, DType::f32);
  const Tensor y = rope(x, 4, {.channels = 8});
  CHECK(same_bits(y.rows(0, 1), x.rows(0, 1)));
  const auto beyond = [](const Tensor& t) { return slice(t, 1, 8, 12); };
  CHECK(same_bits(beyond(y), beyond(x)));
  CHECK_FALSE(same_bits(slice(y.rows(1, 2), 1, 0, 4), slice(x.rows(1, 2), 1, 0, 4)));
  CHECK_FALSE(same_bits(slice(y.rows(1, 2), 1, 4, 8), slice(x.rows(1, 2), 1, 4, 8)));
}

TEST_CASE("rope's result does not depend on the number of threads", "[rope]") {
  Rng rng(4);
  const Tensor x = normal(rng, {4, 200, 96}, DType::f32);
  const Threads one(1);
  const Tensor expected = rope(x, 16);
  const Threads three(3);
  CHECK(same_bits(rope(x, 16), expected));
}

TEST_CASE("what rope cannot turn is an error that names it", "[rope]") {
  const Tensor x = Tensor::zeros({2, 3, 12});
  CHECK_THROWS_WITH(rope(x, 3), ContainsSubstring("[rope]") && ContainsSubstring("not 3"));
  CHECK_THROWS_WITH(rope(x, 0), ContainsSubstring("not 0"));
  CHECK_THROWS_WITH(rope(x, 8),
                    ContainsSubstring("12 channels of x (2, 3, 12) are not heads of 8"));
  CHECK_THROWS_WITH(rope(x, 4, {.channels = 16}), ContainsSubstring("16 channels"));
  CHECK_THROWS_WITH(rope(x, 4, {.first = -1}), ContainsSubstring("-1"));
  CHECK_THROWS_WITH(rope(x, 4, {.base = 0}), ContainsSubstring("base"));
  const auto scaled = [&](const RopeScaling& scaling) { return rope(x, 4, {.scaling = scaling}); };
  CHECK_THROWS_WITH(scaled({.factor = 0}), ContainsSubstring("factor"));
  CHECK_THROWS_WITH(scaled({.factor = 0, .kind = RopeScaling::Kind::linear}),
                    ContainsSubstring("factor"));
  CHECK_THROWS_WITH(scaled({.original_positions = 0}), ContainsSubstring("original_positions"));
  CHECK_THROWS_WITH(scaled({.low_freq_factor = 4}), ContainsSubstring("low_freq_factor"));
  CHECK_THROWS_WITH(scaled({.low_freq_factor = -1}), ContainsSubstring("low_freq_factor"));
  CHECK_THROWS_WITH(rope(Tensor::zeros({4}), 4), ContainsSubstring("(4)"));
  CHECK_THROWS_WITH(rope(Tensor::zeros({2, 4}, DType::i32), 4), ContainsSubstring("i32"));
}

TEST_CASE("rope turns back what it has turned", "[rope]") {
  Rng rng(4);
  const RopeScaling scalings[] = {
      {.factor = 3, .kind = RopeScaling::Kind::linear},
      {.factor = 3, .kind = RopeScaling::Kind::yarn, .attention_factor = 1.5}};
  for (const RopeScaling& scaling : scalings) {
    const DType dtype = GENERATE(DType::f32, DType::f64);
    const Tensor x = normal(rng, {2, 70, 24}, dtype);
    RopeOptions options{.firsts = {5, 900}, .channels = 16, .scaling = scaling};
    const Tensor y = rope(x, 8, options);
    options.back = true;
    CHECK(difference(rope(y, 8, options), x, 0, dtype == DType::f32 ? 1e-6 : 1e-14) == "");
    CHECK(difference(y, x, 0, 0.1) != "");
  }
}

TEST_CASE("of heads of which some channels turn, the others stay", "[rope]") {
  Rng rng(8);
  const Tensor x = normal(rng, {2, 5, 12});
  const Tensor y = rope(x, 6, {.first = 3, .turned = 4});
  for (const std::int64_t head : {0, 6}) {
    const Tensor turned = rope(slice(x, 2, head, head + 4), 4, {.first = 3});
    CHECK(same_bits(slice(y, 2, head, head + 4), turned));
    CHECK(same_bits(slice(y, 2, head + 4, head + 6), slice(x, 2, head + 4, head + 6)));
  }
  CHECK_THROWS_WITH(rope(x, 6, {.turned = 3}), ContainsSubstring("an even number turns, not 3"));
  CHECK_THROWS_WITH(rope(x, 6, {.turned = 8}), ContainsSubstring("not 8"));
}
