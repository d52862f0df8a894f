#pragma once

#include <algorithm>
#include <string_view>

#include "tapegrad/base/error.h"

namespace tapegrad::optim {

// Error if an optimiser is to make a step, and none of its parameters has a gradient.
template <class Slots>
void check_any_gradient(std::string_view optimizer, const Slots& slots) {
  check(std::any_of(slots.begin(), slots.end(),
                    [](const auto& slot) { return slot.parameter.grad().defined(); }),
        "{}::step: none of {} parameters has a gradient; tape.backward(loss) comes first",
        optimizer, slots.size());
}

}  // namespace tapegrad::optim
