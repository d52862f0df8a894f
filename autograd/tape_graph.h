#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tape.h"

namespace tapegrad {

// The record of a tape as a graph that can be drawn: the ops in the order in which they ran.
// Gradients flow along the same edges, the other way.
struct TapeGraph {
  // A tensor that the tape tracks and no recorded op made: a parameter, or one that was watched.
  struct Leaf {
    std::string name;  // of a parameter, if it has one
    Shape shape;
    DType dtype;
    bool parameter;
  };
  struct Edge {
    enum class From {
      op,
      leaf,
      outside
    } from = From::outside;  // outside: not tracked, such as ids
    std::size_t index = 0;   // of the op or leaf
  };
  struct Value {
    Shape shape;
    DType dtype;
    bool exists;  // false: the op was called without this input
  };
  struct Op {
    std::string name;
    std::string module;  // of its parameter; an op without one has the module of the op before it
    bool has_parameter;
    std::vector<Edge> edges;  // one for each input
    std::vector<Value> inputs, outputs;
    // Bytes of the tensors that it keeps for backward, or to make others again from. Parameters are
    // left out, frozen ones that have a name included: they are there anyway. Each tensor is
    // counted where it is kept first.
    std::size_t kept_bytes = 0;
    int made_again = 0;  // tensors that backward will compute again, which are not kept
  };
  std::vector<Leaf> leaves;
  std::vector<Op> ops;

  std::size_t kept_bytes() const;
};

// The graph of a tape that has not run backward: Error if its steps are freed. `names` are those of
// the parameters, such as nn::Params::parameters().
TapeGraph graph_of(const Tape& tape, std::span<const std::pair<std::string, Tensor>> names = {});

}  // namespace tapegrad
