#pragma once

#include <string>

#include "tapegrad/autograd/tape_graph.h"

namespace tapegrad::inspect {

// A tape's graph in Graphviz's language: ops in the boxes of their modules, with shapes and with
// the bytes that they keep for backward, which also shade them. Error for more than kMostDrawnOps,
// which Graphviz would take minutes for, and nobody could read.
std::string dot_of(const TapeGraph& graph, const std::string& title);
inline constexpr std::size_t kMostDrawnOps = 2000;

// Draws that graph as SVG, by Graphviz's program `dot`. Error if it is not installed.
std::string svg_of(const std::string& dot);

}  // namespace tapegrad::inspect
