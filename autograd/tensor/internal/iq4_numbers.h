#pragma once

#include <cstdint>

namespace tapegrad {

// The numbers of ggml's types iq4_nl and iq4_xs: dense near 0, where most weights are.
inline constexpr std::int8_t kIq4Numbers[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace tapegrad
