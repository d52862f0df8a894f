#include <map>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/nn/layers/recurrent.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using RecurrentTensors = std::map<std::string, Tensor>;

RecurrentTensors recurrent_golden() {
  return load_safetensors(golden_file("recurrent.safetensors").string()).tensors;
}

// Any of the layers: x and the state (1 or 2, layers, B, H) → the output and the last state.
struct RecurrentNet {
  std::function<std::pair<Tensor, Tensor>(const Tensor& x, const Tensor& state, Rng*)> run;
};

template <class Layer>
RecurrentNet net_of(Layer layer) {
  return {[layer](const Tensor& x, const Tensor& state, Rng* rng) {
    const auto result = layer(x, state.defined() ? select(state, 0, 0) : Tensor(), rng);
    return std::pair(result.y, unsqueeze(result.h, 0));
  }};
}
RecurrentNet net_of(nn::LSTM layer) {
  return {[layer](const Tensor& x, const Tensor& state, Rng* rng) {
    nn::LSTM::State before;
    if (state.defined()) before = {select(state, 0, 0), select(state, 0, 1)};
    const auto result = layer(x, before, rng);
    return std::pair(result.y, stack({result.state.h, result.state.c}));
  }};
}

// The nets of golden_recurrent.py.
RecurrentNet make_net(const std::string& name, const nn::Params& p) {
  if (name == "rnn") return net_of(nn::RNN(p, 3, 5, {.layers = 2}));
  if (name == "rnn_relu") {
    return net_of(nn::RNN(p, 3, 5, {.batch_first = true}, Nonlinearity::relu));
  }
  if (name == "gru") return net_of(nn::GRU(p, 3, 5, {.layers = 2}));
  if (name == "gru_plain") return net_of(nn::GRU(p, 4, 3, {.bias = false, .batch_first = true}));
  if (name == "lstm") return net_of(nn::LSTM(p, 3, 5, {.layers = 3}));
  if (name == "lstm_plain") return net_of(nn::LSTM(p, 4, 3, {.bias = false, .batch_first = true}));
  if (name == "rnn_both") return net_of(nn::RNN(p, 3, 5, {.layers = 2, .bidirectional = true}));
  if (name == "gru_both") {
    return net_of(nn::GRU(p, 3, 5, {.batch_first = true, .bidirectional = true}));
  }
  if (name == "lstm_both") {
    return net_of(nn::LSTM(p, 3, 5, {.layers = 2, .dropout = 0.4, .bidirectional = true}));
  }
  return net_of(nn::LSTM(p, 3, 5, {.layers = 3, .dropout = 0.4}));
}

const std::string kNets[] = {"rnn",        "rnn_relu",     "gru",      "gru_plain", "lstm",
                             "lstm_plain", "lstm_dropout", "rnn_both", "gru_both",  "lstm_both"};

// The store of a net's state_dict in the file.
nn::Params golden_params(const std::string& net, DType dtype) {
  const std::string prefix = net + (dtype == DType::f32 ? "/f32/" : "/f64/") + "param/";
  return nn::Params(open_safetensors(golden_file("recurrent.safetensors").string()), dtype,
                    Precision::full, nn::NameMap({{.prefix = "", .source_prefix = prefix}}));
}

// Two calls, the second of which goes on with the first one's state, and the gradients of both.
void check_two_calls(const std::string& net, DType dtype, const RecurrentTensors& golden) {
  const std::string prefix = net + (dtype == DType::f32 ? "/f32/" : "/f64/");
  const auto of = [&](const std::string& key) { return golden.at(prefix + key); };
  const double near = dtype == DType::f32 ? 1e-6 : 1e-12;
  const nn::Params params = golden_params(net, dtype);
  const RecurrentNet layers = make_net(net, params);
  const Tensor x = of("x"), hidden = of("hidden");
  Rng rng(7);
  Tape tape;
  tape.watch(x);
  tape.watch(hidden);
  const Tensor state = net.rfind("lstm", 0) == 0 ? hidden : slice(hidden, 0, 0, 1);
  const auto [y1, middle] = layers.run(select(x, 0, 0), state, &rng);
  const auto [y2, last] = layers.run(select(x, 0, 1), middle, &rng);
  CHECK(difference(y1, of("y1"), near, near) == "");
  CHECK(difference(y2, of("y2"), near, near) == "");
  CHECK(difference(last, of("last"), near, near) == "");
  const Tensor loss = sum(y1 * y1) + sum(sin(y2)) + sum(last * last * last);
  const Grads grads = tape.gradient(loss, {x, hidden}, {.keep = true});
  CHECK(difference(grads[0], of("grad_x"), near, near) == "");
  CHECK(difference(grads[1], of("grad_hidden"), near, near) == "");
  tape.backward(loss);
  for (const auto& [name, t] : params.parameters()) {
    INFO(name);
    CHECK(difference(t.grad(), of("grad/" + name), 2 * near, 4 * near) == "");
  }
  if (dtype != DType::f32) return;
  CHECK(difference(layers.run(select(x, 0, 0), {}, nullptr).first, of("from_zero"), near, near) ==
        "");
}

}  // namespace

TEST_CASE("recurrent layers draw PyTorch's bits under PyTorch's names", "[recurrent][golden]") {
  const RecurrentTensors golden = recurrent_golden();
  for (const std::string& net : kNets) {
    Rng rng(123);
    const nn::Params params(rng);
    make_net(net, params);
    std::size_t found = 0;
    for (const auto& [key, t] : golden) found += key.rfind(net + "/f32/param/", 0) == 0;
    CHECK(params.tensors().size() == found);
    for (const auto& [name, t] : params.tensors()) {
      INFO(net << ' ' << name);
      REQUIRE(golden.count(net + "/f32/param/" + name) == 1);
      CHECK(same_bits(t, golden.at(net + "/f32/param/" + name)));
    }
  }
}

TEST_CASE("a state_dict of recurrent layers gives PyTorch's outputs, states and gradients",
          "[recurrent][golden]") {
  const RecurrentTensors golden = recurrent_golden();
  for (const std::string& net : kNets) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      INFO(net << ' ' << name_of(dtype));
      check_two_calls(net, dtype, golden);
    }
  }
}

TEST_CASE("recurrent layers give the same bits with any number of threads", "[recurrent]") {
  std::vector<Tensor> results;
  for (const int threads : {1, 2, 3}) {
    const Threads set(threads);
    Rng rng(3);
    const nn::Params params(rng);
    const nn::LSTM net(params, 70, 96);
    const Tensor x = normal(rng, {5, 33, 70}, DType::f32);
    Tape tape;
    const Tensor y = net(x).y;
    tape.backward(sum(y * y));
    results.push_back(y);
    for (const auto& [name, t] : params.parameters()) results.push_back(t.grad());
  }
  const std::size_t n = results.size() / 3;
  for (std::size_t i = n; i < results.size(); ++i) CHECK(same_bits(results[i], results[i % n]));
}

TEST_CASE("gradients end where the state of a recurrent layer is detached", "[recurrent]") {
  Rng rng(3);
  const nn::Params params(rng);
  const nn::GRU net(params, 2, 3);
  const Tensor first = normal(rng, {4, 2, 2}, DType::f32),
               second = normal(rng, {4, 2, 2}, DType::f32);
  for (const bool detached : {false, true}) {
    Tape tape;
    tape.watch(first);
    const Tensor h = net(first).h;
    const Tensor loss = sum(net(second, detached ? h.detach() : h).y);
    CHECK(tape.gradient(loss, {first})[0].defined() == !detached);
  }
}

TEST_CASE("a cell, step by step, does what its layer does with the sequence", "[recurrent]") {
  Rng rng(3);
  const nn::Params params(rng);
  const nn::LSTM net(params, 2, 3);
  nn::LSTMCell cell;
  cell.weights = net.layers[0];
  const Tensor x = normal(rng, {5, 4, 2}, DType::f32);
  nn::LSTM::State state;
  for (std::int64_t t = 0; t < 5; ++t) {
    state = cell(select(x, 0, t), state);
    CHECK(difference(state.h, select(net(x).y, 0, t), 1e-6, 1e-6) == "");
  }
  CHECK(difference(state.c, select(net(x).state.c, 0, 0), 1e-6, 1e-6) == "");
}

TEST_CASE("cells name what does not fit", "[recurrent]") {
  Rng rng(1);
  const nn::Params p(rng);
  const nn::LSTMCell lstm_cell(p / "a", 3, 4);
  const nn::GRUCell gru_cell(p / "b", 3, 4);
  const Tensor x = Tensor::zeros({2, 3}), h = Tensor::zeros({2, 4});
  CHECK_THROWS_WITH(nn::GRUCell(p / "c", 0, 4), ContainsSubstring("4 channels with 0 inputs"));
  CHECK_THROWS_WITH(nn::GRUCell()(x), "[GRUCell] the layer is absent");
  CHECK_THROWS_WITH(nn::RNNCell()(x), "[RNNCell] the layer is absent");
  CHECK_THROWS_WITH(nn::RNNCell(p / "d", 3, 4)(x, x), "[RNNCell] a state of (2, 3) is not (2, 4)");
  CHECK_THROWS_WITH(gru_cell(Tensor::zeros({3})), "[GRUCell] x must be (B, in), not (3)");
  CHECK_THROWS_WITH(gru_cell(x, x), "[GRUCell] a state of (2, 3) is not (2, 4)");
  CHECK_THROWS_WITH(gru_cell(h), ContainsSubstring("[linear] x (2, 4)"));
  CHECK_THROWS_WITH(lstm_cell(x, {h, {}}), "[LSTMCell] a state has both h and c, or neither");
  CHECK_THROWS_WITH(lstm_cell(x, {h, x}), "[LSTMCell] a state of (2, 3) is not (2, 4)");
  CHECK_THROWS_WITH(nn::LSTMCell()(x), "[LSTMCell] the layer is absent");
}

TEST_CASE("recurrent layers name what does not fit", "[recurrent]") {
  Rng rng(1);
  const nn::Params p(rng);
  const nn::LSTM net(p / "a", 3, 4);
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape); };
  CHECK_THROWS_WITH(nn::GRU(p / "b", 3, 4, {.layers = 0}),
                    ContainsSubstring("[RecurrentOptions] layers"));
  CHECK_THROWS_WITH(nn::GRU(p / "c", 3, -4), ContainsSubstring("-4 channels"));
  CHECK_THROWS_WITH(nn::GRU(p / "d", 3, 4, {.dropout = 1.5}), ContainsSubstring("not 1.5"));
  CHECK_THROWS_WITH(net(zeros({5, 3})), ContainsSubstring("[LSTM] x (5, 3) is not of rank 3"));
  CHECK_THROWS_WITH(net(zeros({5, 2, 7})), ContainsSubstring("[linear] x (5, 2, 7)"));
  CHECK_THROWS_WITH(net(zeros({0, 2, 3})), ContainsSubstring("[lstm] x (0, 2, 16) is not (steps"));
  CHECK_THROWS_WITH(net(zeros({5, 2, 3}), {zeros({1, 3, 4}), zeros({1, 3, 4})}),
                    ContainsSubstring("[LSTM] a state of (1, 3, 4) is not (1, 2, 4)"));
  CHECK_THROWS_WITH(
      nn::RNN(p / "e", 3, 4, {.bidirectional = true})(zeros({5, 2, 3}), zeros({1, 2, 4})),
      ContainsSubstring("[RNN] a state of (1, 2, 4) is not (2, 2, 4)"));
  CHECK_THROWS_WITH(net(zeros({5, 2, 3}), {zeros({1, 2, 4}), {}}), ContainsSubstring("neither"));
  CHECK_THROWS_WITH(nn::LSTM()(zeros({5, 2, 3})), ContainsSubstring("absent"));
  const Tensor w = zeros({8, 2}), h = zeros({3, 2});
  CHECK_THROWS_WITH(gru(zeros({2, 3, 6}), h, w), ContainsSubstring("[gru] weight_hh (8, 2)"));
  CHECK_THROWS_WITH(lstm(zeros({2, 3, 8}), h, zeros({2, 2}), w), ContainsSubstring("c0 (2, 2)"));
  CHECK_THROWS_WITH(lstm(zeros({2, 3, 8}), h, h, w, zeros({4})), ContainsSubstring("bias_hh (4)"));
  CHECK_THROWS_WITH(lstm(zeros({2, 3, 8}), h, h, w.to(DType::f64)), ContainsSubstring("dtypes"));
}
