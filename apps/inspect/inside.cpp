#include "tapegrad/apps/inspect/inside.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tapegrad/autograd/ops.h"

namespace tapegrad::inspect {
namespace {

// Logits of so many positions are there at a time: with a large vocabulary, those of all would take
// more memory than the model.
constexpr std::int64_t kRows = 32;

// Calls `see` with each position of a state (1, T, C) and its log probabilities (V).
using SeeRow = std::function<void(std::size_t position, std::span<const float> log_p)>;
void for_each_row(const nn::Decoder& model, const Tensor& state, const SeeRow& see) {
  const std::int64_t T = state.dim(1), V = model.config.vocab_size;
  for (std::int64_t begin = 0; begin < T; begin += kRows) {
    const std::int64_t end = std::min(begin + kRows, T);
    const Tensor log_p = log_softmax(model.logits_of(slice(state, 1, begin, end)));
    for (std::int64_t t = begin; t < end; ++t) {
      see(static_cast<std::size_t>(t),
          {log_p.data<float>() + (t - begin) * V, static_cast<std::size_t>(V)});
    }
  }
}

// The likeliest `count` tokens; of equally likely ones, the first.
std::vector<Guess> best_of(std::span<const float> log_p, std::size_t count) {
  std::vector<data::Token> best;
  for (std::size_t i = 0; i < log_p.size(); ++i) {
    const auto likelier = [&](float p, data::Token other) {
      return p > log_p[static_cast<std::size_t>(other)];
    };
    if (best.size() == count && !likelier(log_p[i], best.back())) continue;
    if (best.size() == count) best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), log_p[i], likelier),
                static_cast<data::Token>(i));
  }
  std::vector<Guess> guesses;
  for (const data::Token token : best) {
    const double p = std::exp(static_cast<double>(log_p[static_cast<std::size_t>(token)]));
    check(std::isfinite(p), "the model computes probabilities that are not finite");
    guesses.push_back({token, p});
  }
  return guesses;
}

std::optional<double> log_p_of_next(std::span<const data::Token> tokens, std::size_t position,
                                    std::span<const float> log_p) {
  if (position + 1 == tokens.size()) return std::nullopt;
  return log_p[static_cast<std::size_t>(tokens[position + 1])];
}

std::optional<double> exp_of(std::optional<double> log_p) {
  return log_p ? std::optional(std::exp(*log_p)) : std::nullopt;
}

void predict(const nn::Decoder& model, const Tensor& state, Inside& inside) {
  double nats = 0;
  for_each_row(model, state, [&](std::size_t t, std::span<const float> log_p) {
    const auto next = log_p_of_next(inside.tokens, t, log_p);
    inside.predictions.push_back({best_of(log_p, kBest), exp_of(next)});
    nats -= next.value_or(0);
  });
  if (inside.tokens.size() == 1) return;
  inside.loss = nats / static_cast<double>(inside.tokens.size() - 1);
  check(std::isfinite(*inside.loss), "the loss of this text is not finite");
}

std::vector<LensCell> lens_of(const nn::Decoder& model, const Tensor& state, const Inside& inside) {
  std::vector<LensCell> row;
  for_each_row(model, state, [&](std::size_t t, std::span<const float> log_p) {
    row.push_back({best_of(log_p, 1)[0], exp_of(log_p_of_next(inside.tokens, t, log_p))});
  });
  return row;
}

// The lower triangles of weights (1, H, T, T).
std::vector<std::vector<std::uint16_t>> thousandths(const Tensor& weights) {
  const std::int64_t H = weights.dim(1), T = weights.dim(2);
  std::vector<std::vector<std::uint16_t>> heads(static_cast<std::size_t>(H));
  const float* row = weights.data<float>();
  for (auto& head : heads) {
    for (std::int64_t t = 0; t < T; ++t, row += T) {
      std::transform(row, row + t + 1, std::back_inserter(head), [](float w) {
        return static_cast<std::uint16_t>(std::lround(1000 * std::clamp(w, 0.0F, 1.0F)));
      });
    }
  }
  return heads;
}

// The tokens that follow each of `tokens`; the last one has none, and does not count.
constexpr std::int32_t kNone = -100;
Tensor targets_of(std::span<const data::Token> tokens) {
  std::vector<std::int32_t> next(tokens.begin() + 1, tokens.end());
  next.push_back(kNone);
  return Tensor::from(next, {1, std::ssize(next)});
}

std::vector<double> norms_of_rows(const Tensor& x) {
  const std::int64_t T = x.dim(1), C = x.dim(2);
  std::vector<double> norms;
  for (std::int64_t t = 0; t < T; ++t) {
    double sum = 0;
    for (std::int64_t c = 0; c < C; ++c) sum += std::pow(x.at(t * C + c), 2);
    norms.push_back(std::sqrt(sum));
  }
  return norms;
}

}  // namespace

Inside look_inside(const nn::Decoder& model, std::span<const data::Token> tokens) {
  check(!tokens.empty(), "there is no token to look at");
  Inside inside;
  inside.tokens.assign(tokens.begin(), tokens.end());
  const Tensor ids = Tensor::from(inside.tokens, {1, std::ssize(tokens)});
  const std::vector<Tensor> states = model.residual_stream(model.embed(ids));
  predict(model, states.back(), inside);
  for (std::size_t i = 0; i + 1 < states.size(); ++i) {
    inside.lens.push_back(lens_of(model, states[i], inside));
  }
  std::vector<LensCell>& last = inside.lens.emplace_back();
  for (const Prediction& p : inside.predictions) last.push_back({p.best[0], p.next});
  for (int layer = 0; layer < model.config.n_layer; ++layer) {
    if (!model.config.has_attention(layer)) continue;
    const Tensor& state = states[static_cast<std::size_t>(layer)];
    inside.attention_blocks.push_back(layer);
    inside.attention.push_back(thousandths(model.attention_weights(layer, state)));
  }
  inside.input_gradient = tokens.size() == 1
                              ? std::vector<double>{0}
                              : norms_of_rows(model.input_gradient(ids, targets_of(tokens), kNone));
  return inside;
}

}  // namespace tapegrad::inspect
