// A character LSTM learns a text, with truncated backpropagation, and writes some of its own.
//   char_lstm TEXT [STEPS]

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

using namespace tapegrad;

constexpr std::int64_t kBatch = 32, kTime = 64, kHidden = 128;

struct Model {
  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear head;
  Model(const nn::Params& p, std::int64_t kinds)
      : embedding(p / "embedding", kinds, kHidden),
        lstm(p / "lstm", kHidden, kHidden),
        head(p / "head", kHidden, kinds) {}
  // ids (T, B) → logits (T, B, kinds). The state goes on from call to call.
  Tensor operator()(const Tensor& ids, nn::LSTM::State& state) const {
    const auto result = lstm(embedding(ids), state);
    state = result.state;
    return head(result.y);
  }
};

// Each character as its place in the sorted list of those that the text has.
std::vector<std::int32_t> encode(const std::string& text, const std::string& kinds) {
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<std::int32_t>(kinds.find(c)));
  return ids;
}

std::string write(const Model& model, const std::string& kinds, int length) {
  Rng rng(3);
  nn::LSTM::State state;
  std::string text;
  auto id = static_cast<std::int32_t>(rng.randint(static_cast<std::int64_t>(kinds.size())));
  for (int i = 0; i < length; ++i) {
    const Tensor logits = model(Tensor::from(std::vector{id}, {1, 1}), state);
    const Tensor p = softmax(logits);
    id = static_cast<std::int32_t>(
        rng.multinomial({p.data<float>(), static_cast<std::size_t>(p.numel())}));
    text += kinds[static_cast<std::size_t>(id)];
  }
  return text;
}

void train(const std::string& text, std::int64_t steps) {
  std::string kinds = text;
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  const std::vector<std::int32_t> ids = encode(text, kinds);
  // Row b of the batch reads its own part of the text, from the beginning again at its end.
  const auto part = (static_cast<std::int64_t>(ids.size()) - 1) / kBatch;
  check(part >= kTime, "the text needs {} characters", kBatch * kTime + 1);
  const auto piece = [&](std::int64_t at) {
    std::vector<std::int32_t> values;
    for (std::int64_t t = at; t < at + kTime; ++t) {
      for (std::int64_t b = 0; b < kBatch; ++b) {
        values.push_back(ids[static_cast<std::size_t>(b * part + t)]);
      }
    }
    return Tensor::from(values, {kTime, kBatch});
  };

  Rng rng(1);
  const nn::Params params(rng);
  const Model model(params, static_cast<std::int64_t>(kinds.size()));
  optim::AdamW adamw(params.parameters());
  nn::LSTM::State state;
  for (std::int64_t step = 1, at = 0; step <= steps; ++step, at += kTime) {
    if (at + kTime > part) {
      at = 0;
      state = {};
    }
    Tape tape;  // knows nothing of the steps before: gradients end at the state
    const Tensor loss = cross_entropy(model(piece(at), state), piece(at + 1));
    tape.backward(loss);
    adamw.step(3e-3);
    adamw.zero_grad();
    if (step % 50 == 0 || step == steps) fmt::print("step {}: loss {:.3f}\n", step, loss.item());
  }
  fmt::print("{}\n", write(model, kinds, 300));
}

int main(int argc, char** argv) try {
  check(argc == 2 || argc == 3, "usage: char_lstm TEXT [STEPS]");
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 500;
  check(steps >= 1, "there must be a step or more, not {}", argv[2]);
  train(read_file(argv[1]), steps);
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
