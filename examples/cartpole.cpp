// A network learns to balance a pole on a cart by deep Q-learning (Mnih et al., "Human-level
// control through deep reinforcement learning", 2015), with a replay buffer and a target network.
//
//   cartpole [STEPS [SEED]]    trains until the mean return of 100 episodes is 475 or more

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "cart_pole.h"

using namespace tapegrad;

struct Network {
  nn::Linear l1, l2, out;
  explicit Network(const nn::Params& p)
      : l1(p / "l1", 4, 64), l2(p / "l2", 64, 64), out(p / "out", 64, 2) {}
  // (n, 4) → the value of each action (n, 2).
  Tensor operator()(const Tensor& states) const { return out(relu(l2(relu(l1(states))))); }
  std::int64_t best(const State& state) const {
    const Tensor values = (*this)(Tensor::from(std::span<const float>(state), {1, 4}));
    return values.at(1) > values.at(0) ? 1 : 0;
  }
};

// Mean return without exploration, from 100 starts that are always the same.
double evaluate(const Network& network) {
  Rng starts(99);
  double sum = 0;
  for (int episode = 0; episode < 100; ++episode) {
    CartPole game(starts);
    while (game.steps < 500 && !game.step(network.best(game.observe()))) {
    }
    sum += game.steps;
  }
  return sum / 100;
}

// Huber's loss of Q(before)[action] − (1 + γ·max Q'(after)) for 64 transitions.
Tensor loss_of(const Network& network, const Network& target, const std::vector<Transition>& memory,
               Rng& rng) {
  std::vector<float> before, after, goes_on;
  std::vector<std::int32_t> actions;
  for (int i = 0; i < 64; ++i) {
    const auto at = rng.randint(static_cast<std::int64_t>(memory.size()));
    const Transition& m = memory[static_cast<std::size_t>(at)];
    before.insert(before.end(), m.before.begin(), m.before.end());
    after.insert(after.end(), m.after.begin(), m.after.end());
    actions.push_back(m.action);
    goes_on.push_back(m.goes_on);
  }
  Tensor next;
  {
    const TapePause unrecorded;
    next = 1.0 +
           0.99 * Tensor::from(goes_on, {64}) * max(target(Tensor::from(after, {64, 4})), 1).values;
  }
  const Tensor values =
      gather(network(Tensor::from(before, {64, 4})), Tensor::from(actions, {64, 1}), 1);
  return huber_loss(squeeze(values, 1), next);
}

void copy(const nn::Params& from, const nn::Params& to) {
  for (std::size_t i = 0; i < from.parameters().size(); ++i) {
    const std::span<const float> values = from.parameters()[i].second.values<float>();
    std::copy(values.begin(), values.end(),
              Tensor(to.parameters()[i].second).mutable_data<float>());
  }
}

void train(std::int64_t steps, std::uint64_t seed) {
  Rng weights(seed), rng(seed + 1);
  const nn::Params params(weights), target_params(weights);
  const Network network(params), target(target_params);
  optim::Adam adam(params.parameters());
  std::vector<Transition> memory;
  CartPole game(rng);
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step % 250 == 0) copy(params, target_params);  // the target follows
    const State before = game.observe();
    const bool explores =
        rng.uniform_double() < std::max(0.05, 1 - 2e-4 * static_cast<double>(step));
    const auto action = explores ? rng.randint(2) : network.best(before);
    const bool fell = game.step(action);
    const Transition seen{before, game.observe(), static_cast<std::int32_t>(action),
                          fell ? 0.F : 1.F};
    if (memory.size() < 50000) memory.emplace_back();
    memory[static_cast<std::size_t>(step % 50000)] = seen;
    if (fell || game.steps == 500) game = CartPole(rng);
    if (step >= 1000) {
      Tape tape;
      tape.backward(loss_of(network, target, memory, rng));
      adam.step(step < 20000 ? 1e-3 : 3e-4);
      adam.zero_grad();
    }
    if ((step + 1) % 2500 == 0 || step + 1 == steps) {
      const double mean_return = evaluate(network);
      fmt::print("step {}: mean return {:.1f}\n", step + 1, mean_return);
      if (mean_return >= 475) return;
    }
  }
}

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 60000;
  if (argc > 3 || steps < 1) {
    fmt::print(stderr, "usage: cartpole [STEPS [SEED]]\n");
    return 2;
  }
  try {
    train(steps, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
