// A variational autoencoder (Kingma & Welling, "Auto-Encoding Variational Bayes", 2014) learns to
// draw digits: made-up ones, or MNIST's from a folder with its files.
//
//   autoencoder [STEPS [FOLDER]]    trains, and draws digits that it read and digits of its own

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "digit_images.h"

using namespace tapegrad;

constexpr std::int64_t kHidden = 256, kCode = 12, kBatch = 100;

struct Autoencoder {
  nn::Linear encode, mean, log_variance, decode, pixels;

  Autoencoder(const nn::Params& p, std::int64_t size)
      : encode(p / "encode", size, kHidden),
        mean(p / "mean", kHidden, kCode),
        log_variance(p / "log_variance", kHidden, kCode),
        decode(p / "decode", kCode, kHidden),
        pixels(p / "pixels", kHidden, size) {}

  Tensor logits(const Tensor& z) const { return pixels(relu(decode(z))); }  // (n, size)

  struct Losses {
    Tensor reconstruction, divergence;  // in nats for each image
  };
  // Minus the evidence lower bound, in its two parts (equation 10): z = μ + σ·ε is drawn so that
  // gradients reach μ and σ.
  Losses operator()(const Tensor& images, Rng& rng) const {
    const auto n = static_cast<double>(images.dim(0));
    const Tensor h = relu(encode(images));
    const Tensor mu = mean(h), log_var = log_variance(h);
    const Tensor z = mu + exp(0.5 * log_var) * Tensor::randn(mu.shape(), rng);
    const Tensor reconstruction =
        binary_cross_entropy_with_logits(logits(z), images, {.reduction = Reduction::sum});
    // KL(N(μ, σ²) ‖ N(0, 1)) = ½·Σ(μ² + σ² − 1 − log σ²), appendix B.
    const Tensor divergence = 0.5 * sum(mu * mu + exp(log_var) - 1.0 - log_var);
    return {reconstruction / n, divergence / n};
  }
};

// Images side by side, two columns of text for each pixel in width.
void draw(const char* title, const Tensor& images, std::int64_t side) {
  fmt::print("{}\n", title);
  constexpr std::string_view kShades = " .:+#@";
  for (std::int64_t y = 0; y < side; ++y) {
    std::string line;
    for (std::int64_t i = 0; i < images.dim(0); ++i) {
      for (std::int64_t x = 0; x < side; ++x) {
        const double value = std::clamp(images.at({i, y * side + x}), 0.0, 1.0);
        line += kShades[static_cast<std::size_t>(value * 5.99)];
      }
      line += "  ";
    }
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

void train(std::int64_t steps, const char* folder) {
  Rng weights(1), drawn(2), noise(3);
  const MadeUp made_up{.least_height = 16, .least_width = 12, .noise = 0};
  std::optional<arrays::ArrayLoader> loader;
  std::int64_t side = MadeUp::kSide;
  if (folder) {
    const Tensor all = load_mnist(folder, "train").images;
    side = all.dim(2);
    loader.emplace(arrays::Rows{all},
                   arrays::ArrayLoader::Options{.batch_size = std::min(kBatch, all.dim(0))}, drawn);
  }
  const auto next = [&] {
    return flatten(loader ? loader->next()[0] : make_digits(kBatch, drawn, made_up).images, 1);
  };

  const nn::Params params(weights);
  const Autoencoder model(params, side * side);
  optim::Adam adam(params.parameters());
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Tensor images = next();
    Tape tape;
    const auto [reconstruction, divergence] = model(images, noise);
    tape.backward(reconstruction + divergence);
    adam.step(1e-3);
    adam.zero_grad();
    if (step % 250 == 0 || step == steps) {
      fmt::print("step {}: reconstruction {:.1f}, divergence {:.1f}, together {:.1f} nats\n", step,
                 reconstruction.item(), divergence.item(),
                 reconstruction.item() + divergence.item());
    }
  }

  const Tensor read = next();
  const Tensor some = read.rows(0, std::min<std::int64_t>(5, read.dim(0)));
  draw("read:", some, side);
  draw("drawn again:", sigmoid(model.logits(model.mean(relu(model.encode(some))))), side);
  draw("of its own:", sigmoid(model.logits(Tensor::randn({5, kCode}, noise))), side);
}

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 2000;
  if (argc > 3 || steps < 1) {
    fmt::print(stderr, "usage: autoencoder [STEPS [FOLDER]]\n");
    return 2;
  }
  try {
    train(steps, argc > 2 ? argv[2] : nullptr);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
