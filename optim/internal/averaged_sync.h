#pragma once

#include <memory>

#include "tapegrad/optim/ema.h"
#include "tapegrad/optim/gradient_sync.h"

namespace tapegrad::optim {

// The updates of `sync`, after each of which the parameters are averaged, too (ema.h). The averages
// are the values of agreed(), so that a model file has them. The optimiser's file has the
// parameters' own values as "training_weights.<name>", and the number of updates. Every process has
// all averages: they make the same ones of the same parameters.
//
// load() takes the averages for those that the parameters had when this was made: they are read
// from the model file. restart() goes on from the averages.
std::unique_ptr<GradientSync> with_averages(std::unique_ptr<GradientSync> sync,
                                            const NamedTensors& parameters,
                                            const EMAOptions& options);

}  // namespace tapegrad::optim
