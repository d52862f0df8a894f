#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/random.h"

namespace tapegrad::nn {

// Fills a new parameter. It draws from the Rng what PyTorch's initialiser draws.
using Init = std::function<void(Tensor&, Rng&)>;

Init zeros();
Init ones();
// N(mean, std²): torch.nn.init.normal_.
Init normal(double mean, double std);
// U(low, high): torch.nn.init.uniform_.
Init uniform(double low, double high);
// U(±1/√fan_in): what nn.Linear draws for its weight (kaiming_uniform_ with a = √5) and its bias.
// For kaiming_uniform_ itself, name KaimingOptions: {} is a fan of 0.
Init kaiming_uniform(std::int64_t fan_in);
// U(±gain·√(6/(fan_in + fan_out))) and N(0, gain²·2/(fan_in + fan_out)): torch.nn.init's
// xavier_uniform_ and xavier_normal_ (Glorot & Bengio, 2010, section 4.2.1). As there, the fans are
// those of a weight (out, in, …): its first two sizes, each times all the others. Error if the
// parameter has fewer than two dimensions.
Init xavier_uniform(double gain = 1);
Init xavier_normal(double gain = 1);

// The activation behind a weight, by which the spread of its values is multiplied so that
// activations keep theirs. calculate_gain() is torch.nn.init's; the slope is that of leaky_relu.
enum class Gain { linear, sigmoid, tanh, relu, leaky_relu, selu };
double calculate_gain(Gain nonlinearity, double negative_slope = 0.01);
enum class FanMode { fan_in, fan_out };
struct KaimingOptions {
  double a = 0;  // the slope of leaky_relu
  FanMode mode = FanMode::fan_in;
  Gain nonlinearity = Gain::leaky_relu;
};
// U(±gain·√(3/fan)) and N(0, gain²/fan): torch.nn.init's kaiming_uniform_ and kaiming_normal_ (He
// et al., "Delving Deep into Rectifiers", 2015, section 2.2), of fans as above, with the same
// Error.
Init kaiming_uniform(const KaimingOptions& options);
Init kaiming_normal(const KaimingOptions& options = {});

// gain times a matrix whose rows, or columns if there are fewer, are orthonormal:
// torch.nn.init.orthogonal_ (Saxe et al., "Exact solutions to the nonlinear dynamics of learning in
// deep linear neural networks", 2013), up to rounding. A parameter (out, in, …) is a matrix of
// `out` rows. Error if it has fewer than two dimensions. Takes time rows²·columns of a wide matrix.
Init orthogonal(double gain = 1);

struct TruncNormalOptions {
  double mean = 0, std = 1;
  double a = -2, b = 2;  // the least and the most, as values: not multiples of std
};
// N(mean, std²) within [a, b]: torch.nn.init.trunc_normal_ of PyTorch 2.14, which draws again what
// lies outside. Error unless std > 0 and a <= b, and if less than 1 draw in 1000 would be kept.
Init trunc_normal(const TruncNormalOptions& options = {});

// init, and then zeros in one row, if it is given: that of padding in a matrix of embeddings.
Init zero_row(const Init& init, std::optional<std::int64_t> row);

// Fills a parameter anew, in place.
void refill(Tensor t, const Init& init, Rng& rng);

}  // namespace tapegrad::nn
