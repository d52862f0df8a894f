#include "tapegrad/autograd/check/internal/op_cases.h"
#include "tapegrad/autograd/ops/recurrent_ops.h"

namespace tapegrad {

// One line per case, which clang-format would tear apart.
// clang-format off

namespace {

// Without and with heads of values that share one of keys, and documents side by side. Keys are
// short, and states forget, so that nothing grows.
template <class Each>
void add_delta_rules(const Each& each) {
  const auto run = [](Inputs x, const Tensor& starts = {}) {
    return gated_delta_rule(x[0], x[1] * 0.5, x[2], -softplus(x[3]), sigmoid(x[4]), starts);
  };
  const Tensor starts = Tensor::from(std::vector<std::int32_t>{0, 0, 2, 2, 0, 1, 1, 1}, {2, 4});
  each("gated_delta_rule", {{2, 3, 1, 2}, {2, 3, 1, 2}, {2, 3, 1, 3}, {2, 3, 1}, {2, 3, 1}}, run);
  each("gated_delta_rule", {{1, 3, 1, 2}, {1, 3, 1, 2}, {1, 3, 2, 1}, {1, 3, 2}, {1, 3, 2}}, run);
  each("gated_delta_rule(documents)", {{2, 4, 1, 1}, {2, 4, 1, 1}, {2, 4, 1, 2}, {2, 4, 1}, {2, 4, 1}},
       [=](Inputs x) { return run(x, starts); });
  each("gated_delta_rule", {{1, 0, 1, 2}, {1, 0, 1, 2}, {1, 0, 1, 3}, {1, 0, 1}, {1, 0, 1}}, run);
}

template <class Each>
void add_state_space_scans(const Each& each) {
  const auto run = [](Inputs x, const Tensor& starts = {}) {
    return state_space_scan(x[0], softplus(x[1]), -exp(x[2]), x[3] * 0.5, x[4], starts);
  };
  const Tensor starts = Tensor::from(std::vector<std::int32_t>{0, 0, 2, 2, 0, 1, 1, 1}, {2, 4});
  each("state_space_scan", {{2, 3, 1, 3}, {2, 3, 1}, {1}, {2, 3, 1, 2}, {2, 3, 1, 2}}, run);
  each("state_space_scan", {{1, 3, 2, 1}, {1, 3, 2}, {2}, {1, 3, 1, 2}, {1, 3, 1, 2}}, run);
  each("state_space_scan(documents)", {{2, 4, 1, 2}, {2, 4, 1}, {1}, {2, 4, 1, 1}, {2, 4, 1, 1}},
       [=](Inputs x) { return run(x, starts); });
  each("state_space_scan", {{1, 0, 1, 3}, {1, 0, 1}, {1}, {1, 0, 1, 2}, {1, 0, 1, 2}}, run);
}

}  // namespace

void add_recurrent_cases(std::vector<OpCase>& cases) {
  using In = Inputs;
  const auto each = [&](const std::string& op, const std::vector<Shape>& shapes, std::function<Tensor(In)> run) {
    cases.push_back({op, shapes, Draw::normal, std::move(run)});
  };
  // All that a layer returns, so that each has a part in the gradient.
  const auto both = [](const RecurrentSteps& s) { return concat({s.y, unsqueeze(s.h * s.h, 0)}, 0); };
  const auto run_lstm = [](In x) {
    const LstmSteps s = lstm(x[0], x[1], x[2], x[3], x.size() > 4 ? x[4] : Tensor());
    return concat({s.y, stack({s.h * s.h, s.c})}, 0);
  };
  const auto run_gru = [=](In x) { return both(gru(x[0], x[1], x[2], x.size() > 3 ? x[3] : Tensor())); };
  const auto run_rnn = [=](In x) { return both(rnn(x[0], x[1], x[2], x.size() > 3 ? x[3] : Tensor())); };
  const auto run_relu = [=](In x) { return both(rnn(x[0], x[1], x[2], x[3], Nonlinearity::relu)); };
  each("lstm", {{3, 2, 8}, {2, 2}, {2, 2}, {8, 2}, {8}}, run_lstm);
  each("lstm", {{1, 2, 12}, {2, 3}, {2, 3}, {12, 3}}, run_lstm);
  each("lstm", {{2, 0, 8}, {0, 2}, {0, 2}, {8, 2}, {8}}, run_lstm);
  each("gru", {{3, 2, 6}, {2, 2}, {6, 2}, {6}}, run_gru);
  each("gru", {{1, 2, 9}, {2, 3}, {9, 3}}, run_gru);
  each("gru", {{2, 0, 6}, {0, 2}, {6, 2}, {6}}, run_gru);
  each("rnn", {{3, 2, 3}, {2, 3}, {3, 3}, {3}}, run_rnn);
  each("rnn", {{1, 2, 3}, {2, 3}, {3, 3}}, run_rnn);
  each("rnn", {{2, 0, 3}, {0, 3}, {3, 3}, {3}}, run_rnn);
  each("rnn(relu)", {{3, 2, 3}, {2, 3}, {3, 3}, {3}}, run_relu);
  each("rnn(relu)", {{2, 0, 3}, {0, 3}, {3, 3}, {3}}, run_relu);
  add_delta_rules(each);
  add_state_space_scans(each);
}

// clang-format on

}  // namespace tapegrad
