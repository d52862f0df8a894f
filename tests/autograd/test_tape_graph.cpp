#include "tapegrad/autograd/tape_graph.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using From = TapeGraph::Edge::From;

TEST_CASE("a tape's graph has ops in order, where their inputs come from, and what they keep",
          "[tape]") {
  Rng rng(1);
  const Tensor w = parameter(rng, {5, 4}), x = normal(rng, {6, 4}), y = normal(rng, {6, 5});
  const NamedTensors names = {{"h.0.fc.weight", w}};
  Tape tape;
  tape.watch(y);
  const Tensor z = linear(x, w);
  const Tensor loss = sum(z * y);
  const TapeGraph graph = graph_of(tape, names);
  REQUIRE(graph.ops.size() == 4);
  REQUIRE(graph.leaves.size() == 2);
  CHECK(graph.leaves[0].name == "h.0.fc.weight");
  CHECK(graph.leaves[0].parameter);
  CHECK_FALSE(graph.leaves[1].parameter);
  CHECK(graph.leaves[1].shape == y.shape());

  const TapeGraph::Op& first = graph.ops[0];
  CHECK(first.name == "linear");
  CHECK(first.module == "h.0.fc");
  CHECK(first.has_parameter);
  CHECK(first.edges[0].from == From::outside);
  CHECK(first.edges[1].from == From::leaf);
  CHECK(first.outputs[0].shape == z.shape());
  CHECK(first.kept_bytes == 6 * 4 * 8);  // x, and not the weight, which is there anyway
  const TapeGraph::Op& second = graph.ops[1];
  CHECK(second.name == "mul");
  CHECK(second.module == "h.0.fc");
  CHECK_FALSE(second.has_parameter);
  CHECK(second.edges[0].from == From::op);
  CHECK(second.edges[0].index == 0);
  CHECK(second.edges[1].index == 1);
  CHECK(second.kept_bytes == 2 * 6 * 5 * 8);
  CHECK(graph.ops[2].name == "sum");
  CHECK(graph.ops[2].kept_bytes + graph.ops[3].kept_bytes == 0);
  CHECK(graph.kept_bytes() == (6 * 4 + 2 * 6 * 5) * 8);

  tape.backward(loss);
  CHECK_THROWS_AS(graph_of(tape), Error);
}

TEST_CASE("a graph of a GPT keeps what the tape says, and tells what is made again", "[tape]") {
  Rng rng(2);
  const nn::Params params(rng);
  const nn::GPT gpt(params,
                    {.vocab_size = 7, .block_size = 4, .n_layer = 2, .n_head = 2, .n_embd = 8});
  const Tensor ids = Tensor::zeros({1, 4}, DType::i32);
  Tape tape;
  gpt.loss(ids, ids);
  const TapeGraph graph = graph_of(tape, params.parameters());
  CHECK(graph.ops.size() == tape.size());
  std::size_t parameters = 0;
  for (const TapeGraph::Leaf& leaf : graph.leaves) {
    CHECK(leaf.parameter);
    CHECK_FALSE(leaf.name.empty());
  }
  for (const auto& [name, tensor] : params.parameters()) parameters += tensor.bytes();
  CHECK(graph.kept_bytes() <= tape.saved_bytes());
  CHECK(graph.kept_bytes() + parameters >= tape.saved_bytes());
  int again = 0;
  for (const TapeGraph::Op& op : graph.ops) again += op.made_again;
  CHECK(again > 0);  // what layer norms and gelu gave
}

namespace {

const nn::DecoderConfig kTiny = {
    .vocab_size = 7, .block_size = 4, .n_layer = 2, .n_head = 2, .n_embd = 8};

}  // namespace

TEST_CASE("a graph counts what a checkpoint runs again from", "[tape]") {
  Rng rng(3);
  const Tensor x = normal(rng, {6, 4}), w = parameter(rng, {5, 4});
  const NamedTensors names = {{"fc.weight", w}};
  Tape tape;
  const auto f = [&](Inputs in, Rng*) { return exp(linear(in[0], w)); };
  sum(checkpoint(f, {x * 2}));
  const TapeGraph graph = graph_of(tape, names);
  int again = 0;
  for (const TapeGraph::Op& op : graph.ops) again += op.made_again;
  CHECK(again > 0);
  CHECK(graph.kept_bytes() + w.bytes() == tape.saved_bytes());
  CHECK(graph.kept_bytes() == x.bytes());
}

TEST_CASE("a graph of a model that recomputes its blocks keeps what the tape says", "[tape]") {
  Rng rng(2);
  const nn::Params params(rng);
  nn::GPT gpt(params, kTiny);
  gpt.recompute = true;
  const Tensor ids = Tensor::zeros({1, 4}, DType::i32);
  Tape tape;
  gpt.loss(ids, ids);
  std::size_t parameters = 0;
  for (const auto& [name, tensor] : params.parameters()) parameters += tensor.bytes();
  const std::size_t kept = graph_of(tape, params.parameters()).kept_bytes();
  CHECK(kept <= tape.saved_bytes());
  CHECK(kept + parameters >= tape.saved_bytes());
  const std::size_t states = 2 * 4 * 8 * 4;  // what the blocks run again from
  CHECK(kept >= states);
}

TEST_CASE("a graph counts no frozen parameter as kept", "[tape]") {
  const auto kept = [](bool frozen) {
    Rng rng(2);
    const nn::Params params(rng);
    const nn::GPT gpt(params, kTiny);
    for (auto [name, tensor] : params.parameters()) {
      if (frozen && name.find("mlp") != name.npos) tensor.set_requires_grad(false);
    }
    const Tensor ids = Tensor::zeros({1, 4}, DType::i32);
    Tape tape;
    gpt.loss(ids, ids);
    return graph_of(tape, params.parameters()).kept_bytes();
  };
  CHECK(kept(true) <= kept(false));
}
