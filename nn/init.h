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

// Fills a parameter anew, in place.
void refill(Tensor t, const Init& init, Rng& rng);

}  // namespace tapegrad::nn
