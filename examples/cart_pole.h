#pragma once

// The game that cartpole.cpp learns.

#include <tapegrad/base/random.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

using State = std::array<float, 4>;  // position, velocity, angle, angular velocity

// Barto, Sutton & Anderson, "Neuronlike adaptive elements that can solve difficult learning control
// problems" (1983), without friction, as in Gymnasium's CartPole-v1: a return of 500 is the most.
struct CartPole {
  std::array<double, 4> state{};
  int steps = 0;

  explicit CartPole(tapegrad::Rng& rng) {
    for (double& value : state) value = 0.1 * rng.uniform_double() - 0.05;
  }
  // Pushes left (0) or right (1) for 0.02 s. True if the pole has fallen or the cart left its
  // track.
  bool step(std::int64_t action) {
    constexpr double kGravity = 9.8, kPole = 0.1, kMass = 1.1, kHalfLength = 0.5, kSeconds = 0.02;
    auto& [x, velocity, angle, spin] = state;
    const double force = action == 1 ? 10 : -10, cosine = std::cos(angle), sine = std::sin(angle);
    const double push = (force + kPole * kHalfLength * spin * spin * sine) / kMass;
    const double turn = (kGravity * sine - cosine * push) /
                        (kHalfLength * (4.0 / 3 - kPole * cosine * cosine / kMass));
    const double speed_up = push - kPole * kHalfLength * turn * cosine / kMass;
    x += kSeconds * velocity;
    velocity += kSeconds * speed_up;
    angle += kSeconds * spin;
    spin += kSeconds * turn;
    ++steps;
    return std::abs(x) > 2.4 || std::abs(angle) > 12 * 2 * std::numbers::pi / 360;
  }
  State observe() const {
    State seen;
    std::copy(state.begin(), state.end(), seen.begin());
    return seen;
  }
};

// One step of a game, to learn from.
struct Transition {
  State before, after;
  std::int32_t action;
  float goes_on;  // 0 where the pole fell: no return follows
};
