#pragma once

#include <functional>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/random.h"

namespace tapegrad::nn {

// Fills a new parameter. It draws from the Rng what PyTorch's initialiser draws.
using Init = std::function<void(Tensor&, Rng&)>;

Init zeros();
Init ones();
// N(mean, std²): torch.nn.init.normal_.
Init normal(double mean, double std);
// U(±1/√fan_in): what nn.Linear draws for its weight (kaiming_uniform_ with a = √5) and its bias.
Init kaiming_uniform(std::int64_t fan_in);
// U(±gain·√(6/(fan_in + fan_out))) and N(0, gain²·2/(fan_in + fan_out)): torch.nn.init's
// xavier_uniform_ and xavier_normal_ (Glorot & Bengio, 2010, section 4.2.1). As there, the fans are
// those of a weight (out, in, …): its first two sizes, each times all the others. Error if the
// parameter has fewer than two dimensions.
Init xavier_uniform(double gain = 1);
Init xavier_normal(double gain = 1);

// Fills a parameter anew, in place.
void refill(Tensor t, const Init& init, Rng& rng);

}  // namespace tapegrad::nn
